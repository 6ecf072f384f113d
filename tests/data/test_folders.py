"""Folders of images that are not what they seem."""

import errno
import io
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anisocert.data import _image_files as image_files
from anisocert.data import folders, load, splits
from anisocert.data._image_files import ImageFiles
from anisocert.errors import ArgumentError

RNG = np.random.default_rng(0)


def paint(path: Path, size: tuple[int, int] = (4, 4), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(0, 256, (*size, 3), np.uint8)).convert(mode).save(path)
    return path


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        paint(tmp_path / "pets" / name)
    return tmp_path / "pets"


@pytest.mark.parametrize("name", ["cat/3.png", "dog", "cat/inner"])
def test_what_is_no_file_does_not_hang(pets: Path, name: str) -> None:
    if name == "dog":
        (pets / "dog").rename(pets / "hound")
    os.mkfifo(pets / name)
    if name.endswith(".png"):
        with pytest.raises(ArgumentError, match=r"expected a regular file at .*3.png, got a FIFO"):
            load(pets)
    else:
        assert len(load(pets).x) == 3
    os.mkfifo(pets / "images.json")
    (pets / name).unlink()
    with pytest.raises(ArgumentError, match=r"expected a regular file at .*images.json, got a FIFO"):
        load(pets)


def test_what_is_no_image_is_told(pets: Path) -> None:
    for name in ("bird", "__MACOSX", ".cache"):
        (pets / name).mkdir()
    for name in ("cat/3.gif", "cat/4.gif", "cat/.DS_Store", "cat/._1.png", "dog/noext", "__MACOSX/1.png"):
        (pets / name).touch()
    data = load(pets)
    assert data.class_names == ("bird", "cat", "dog")
    _, empty, others = data.notes
    assert empty == "folders without images count as classes too: bird"
    assert others == "files of other kinds are left out: 2 .gif, 1 without ending"
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        (pets / name).unlink()
    with pytest.raises(ArgumentError, match=r"got 3 folders with 0 images, and 2 \.gif, .* end in \.bmp, "):
        load(pets)


def test_what_is_not_heeded_is_told(pets: Path) -> None:
    """Pixels are those that torchvision's ImageFolder has: neither turned nor blended."""
    assert load(pets).remarks == load(pets).notes
    exif = Image.Exif()
    exif[0x0112] = 6
    colours = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(colours).save(pets / "cat" / "3.png", exif=exif)
    Image.fromarray(colours).save(pets / "cat" / "4.jpg", exif=exif)
    Image.new("P", (4, 4)).save(pets / "dog" / "2.png", transparency=0)
    Image.new("RGBA", (4, 4), (9, 9, 9, 0)).save(pets / "dog" / "3.png")
    exif[0x0112] = 1
    Image.fromarray(colours).save(pets / "dog" / "4.png", exif=exif)
    data = load(pets)
    turned = "a rotation noted in the file (EXIF) is not applied, as by torchvision's ImageFolder: "
    dropped = "transparency is dropped, as by torchvision's ImageFolder: "
    assert data.remarks[len(data.notes) :] == (
        f"{turned}2 of 8 images, as in cat/3.png", f"{dropped}2 of 8 images, as in dog/2.png",
    )  # fmt: skip
    np.testing.assert_array_equal(np.asarray(data.pixels)[2], colours.transpose(2, 0, 1))
    np.testing.assert_array_equal(np.asarray(data.pixels)[6], 9)
    some = data.subset(ids=data.ids[3:6].tolist())  # of which all is known by now
    assert some.remarks[len(data.notes) :] == (
        f"{turned}1 of 3 images, as in cat/4.jpg", f"{dropped}1 of 3 images, as in dog/2.png",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["dog", "dog/inner"])
def test_a_folder_that_must_not_be_read_is_an_error(pets: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paint(pets / "dog" / "inner" / "2.png")
    list_of = os.scandir

    def scandir(path: Any) -> Any:  # as for anyone but root
        if Path(path) == pets / name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return list_of(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ArgumentError, match=f"expected a folder that can be read at .*{name}, got: Permission denied"):
        load(pets)


def test_links(pets: Path, tmp_path: Path) -> None:
    """To images and to folders of a class they are followed; deeper ones, which could go in circles, are not."""
    outside = paint(tmp_path / "elsewhere" / "x.png")
    (pets / "cat" / "3.png").symlink_to(outside)
    (pets / "eel").symlink_to(outside.parent)
    (pets / "cat" / "deeper").symlink_to(pets)
    data = load(pets)
    assert (data.class_names, data.y.tolist()) == (("cat", "dog", "eel"), [0, 0, 0, 1, 2])
    (pets / "dog" / "2.png").symlink_to("nowhere.png")
    with pytest.raises(ArgumentError, match=r"expected a file at .*2.png, got none"):
        load(pets)
    (pets / "dog" / "2.png").unlink()
    (pets / "dog" / "2.png").symlink_to("/dev/zero")
    with pytest.raises(ArgumentError, match=r"expected a regular file at .*2.png, got a device"):
        load(pets)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("ending", ["png", "jpg", "bmp", "webp", "ppm", "tif"])
def test_an_image_is_whole_or_an_error(pets: Path, ending: str) -> None:
    path = paint(pets / "dog" / f"2.{ending}")
    content = path.read_bytes()
    assert len(load(pets).x) == 4
    for kept in {0, 1, 20, len(content) // 2, len(content) - 20, len(content) - 13, len(content) - 5, len(content) - 1}:
        path.write_bytes(content[:kept])
        with pytest.raises(ArgumentError, match=rf"expected .* at .*2.{ending}"):
            load(pets).x  # noqa: B018


def test_a_changed_byte_of_a_png_is_an_error(pets: Path) -> None:
    path = pets / "cat" / "1.png"
    content = path.read_bytes()
    at = content.index(b"IDAT") + 8
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(ArgumentError, match=r"expected a whole image file at .*1.png"):
        load(pets).sample()


def png(width: int, height: int) -> bytes:
    """A file that declares a size and holds one row of nothing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)

    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [8_193, 10_000, 20_000, 2_000_000_000])
def test_declared_sizes(pets: Path, side: int) -> None:
    (pets / "cat" / "1.png").write_bytes(png(side, side))
    with pytest.raises(ArgumentError, match=r"expected .* at .*1.png, got"):
        load(pets).sample()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('{"num_classes": 100000000}', "expected num_classes in .* from 1 to 100,000, got 100000000"),
        ('{"labels": {"cat": 100000000, "dog": 1}}', "expected labels in .* below 100,000"),
        ('{"resize": 1000000}', "expected resize in .* from 1 to 16,384"),
        ('{"crop": 8, "resize": 6}', "expected crop <= resize in .*, got 8 and 6"),
        ('{"crop": 8}', "images of at least 8 pixels on each side, got 4 x 4 in .*1.png"),
        ('{"resize": 12000}', "at most 16,777,216 pixels once resized, got 12000 x 12000 for .*1.png"),
        ('{"crop": NaN}', "expected crop in .*, got nan"),
        ('{"crop": %s}' % ("9" * 5000), "expected JSON in"),
        ("[" * 100_000, "expected JSON in"),
        ("[1]", "got no object"),
        ("{", "expected JSON in"),
        ('{"size": 3}', "expected an object with some of resize, crop, labels, num_classes in .*, got size"),
        ('{"crop": 0}', "expected crop in .* from 1 to 4,096, got 0"),
        ('{"resize": true}', "expected resize in .*, got True"),
        ('{"labels": ["cat"]}', "expected labels in .* as a whole number below 100,000 for each folder, got"),
        ('{"labels": {"cat": -1}}', "expected labels in .* as a whole number below 100,000 for each folder"),
        ('{"labels": {"cat": 1}}', "expected a label for each folder in .*, got none for dog"),
        ('{"labels": {"cat": 1, "dog": 7}, "num_classes": 5}', "expected labels below num_classes 5 in .*, got 7"),
        ("\ud800", "expected JSON in"),
    ],
)  # fmt: skip
def test_notes_are_not_believed(pets: Path, said: str, message: str) -> None:
    (pets / "images.json").write_bytes(said.encode("utf-8", "surrogatepass"))
    with pytest.raises(ArgumentError, match=message):
        load(pets).sample()


def test_huge_notes_are_not_read(pets: Path) -> None:
    with (pets / "images.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ArgumentError, match=r"expected at most 16,777,216 bytes in .*images.json"):
        load(pets)


def test_mixed_sizes_are_refused_before_anything_starts(pets: Path) -> None:
    paint(pets / "dog" / "9.png", (4, 5))
    data = load(pets)
    for ask in (lambda: data.shape, lambda: data.sample(1), lambda: data.preparation):
        with pytest.raises(ArgumentError, match=r"one size, 4 x 4 .* got 4 x 5 in .*9.png: resize .* images.json"):
            ask()
    assert data.subset(most=2).shape == (3, 4, 4)  # what is not chosen is not looked at


def test_grey_images_among_coloured_ones_are_taken_as_coloured(pets: Path) -> None:
    assert load(pets).shape == (3, 4, 4)
    paint(pets / "dog" / "9.png", mode="L")
    data = load(pets)
    assert data.shape == (3, 4, 4)
    np.testing.assert_array_equal(data.x[-1], np.repeat(data.x[-1, :1], 3, 0))
    one = data.subset(ids=[int(data.ids[-1])])
    np.testing.assert_array_equal(one.x[0], data.x[-1])  # the same input, whoever it is seen with
    paint(pets / "cat" / "1.png", mode="L")
    with pytest.raises(ArgumentError, match=r"expected grey images, as the first .* got mode RGB in .*2.png"):
        load(pets).sample()
    for name in ("cat/2.png", "dog/1.png"):
        paint(pets / name, mode="L")
    assert load(pets).shape == (1, 4, 4)


def test_more_than_eight_bits_are_not_cut_off(pets: Path) -> None:
    Image.fromarray(np.full((4, 4), 3000, np.uint16)).save(pets / "cat" / "0.png")
    with pytest.raises(ArgumentError, match=r"expected an image of 8 bits per channel at .*0.png, got mode I;16"):
        load(pets)


def test_folders_named_by_whole_numbers_are_labels(tmp_path: Path) -> None:
    for label in (0, 1, 2, 10, 11):
        paint(tmp_path / str(label) / f"{label}.png")
    data = load(tmp_path)
    assert {path.parent.name: label for path, label in zip(data.pixels.paths, data.y.tolist(), strict=True)} == {
        "0": 0, "1": 1, "2": 2, "10": 10, "11": 11,
    }  # fmt: skip
    assert (data.num_classes, data.class_names[10], data.class_names[3]) == (12, "10", "3")
    paint(tmp_path / "background" / "1.png")  # one other name, and the alphabet decides again
    assert load(tmp_path).num_classes == 6


def test_a_numbered_class_that_one_split_lacks(tmp_path: Path) -> None:
    for name in ("train/2/1.png", "train/10/1.png", "train/0/1.png", "test/10/1.png", "test/0/1.png"):
        paint(tmp_path / name)
    for split, labels in (("train", {0, 2, 10}), ("test", {0, 10})):
        data = load(tmp_path, split)  # type: ignore[arg-type]
        assert (set(data.y.tolist()), data.num_classes) == (labels, 11)


@pytest.mark.parametrize(
    ("names", "got"),
    [
        (("-1", "0"), "the folder -1"),
        (("0", "100000"), "the folder 100000"),
        (("0", "9" * 200), "the folder 9999"),
        (("1", "01"), "several folders for one number"),
    ],
)
def test_numbers_that_are_no_labels(tmp_path: Path, names: tuple[str, str], got: str) -> None:
    for name in names:
        paint(tmp_path / name / "1.png")
    with pytest.raises(ArgumentError, match=f"labels from 0 to 99,999 in .* named by whole numbers, got {got}.*rename"):
        load(tmp_path)
    (tmp_path / "images.json").write_text(json.dumps({"labels": {names[0]: 1, names[1]: 0}}))
    assert load(tmp_path).num_classes == 2


def test_names_that_terminals_would_obey(tmp_path: Path) -> None:
    for name in ("a\nb", "a\x1b[31m", os.fsdecode(b"a\xff")):
        paint(tmp_path / name / "x\n\x1b[2J.png")
    data = load(tmp_path)
    assert set(data.class_names) == {"a\\nb", "a\\x1b[31m", "a\\udcff"}
    assert len(set(data.ids.tolist())) == 3
    assert splits(tmp_path) == ()


def test_a_file_that_changes_its_size_after_the_start(pets: Path) -> None:
    data = load(pets)
    assert data.shape == (3, 4, 4)
    paint(pets / "cat" / "1.png", (9, 9))
    with pytest.raises(ArgumentError, match=r"expected an image of 4 x 4 pixels at .*1.png, got 9 x 9"):
        data.x  # noqa: B018


def test_a_file_that_becomes_huge_is_not_decoded(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "MOST_DECODED", 15)
    with pytest.raises(ArgumentError, match=r"at most 15 pixels at .*1.png, got 4 x 4"):
        ImageFiles([pets / "cat" / "1.png"]).shape  # noqa: B018


def test_text_that_is_named_like_an_image(pets: Path) -> None:
    for content in (b"", b"P3 1 1 255", b"P6 9999999999 4 255\n", b"BM" + bytes(60), b"RIFF" + bytes(20) + b"WEBP"):
        (pets / "cat" / "0.ppm").write_bytes(content)
        with pytest.raises(ArgumentError, match=r"expected .*0.ppm"):
            load(pets).x  # noqa: B018
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, "PNG")
    (pets / "cat" / "0.ppm").write_bytes(buffer.getvalue())  # what it is counts, not what it is called
    assert len(load(pets).x) == 4


@pytest.mark.parametrize("kind", ["EPS", "PCX"])
def test_the_content_is_one_of_the_formats(
    pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Pillow goes by content: for an EPS file it would start `gs`, a whole language."""
    program, started = tmp_path / "bin" / "gs", tmp_path / "started"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    path = pets / "dog" / "2.png"
    if kind == "EPS":
        path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n")
    else:
        Image.new("RGB", (4, 4)).save(path, format=kind)
    with pytest.raises(ArgumentError, match=r"expected a whole image file at .*dog/2\.png, got none of PNG, "):
        np.asarray(load(pets).x)
    assert not started.exists()


def test_a_folder_of_everything_is_not_walked_to_its_end(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cat/inner/deep/3.PNG", "dog/.hidden/2.png"):
        (pets / name).parent.mkdir(parents=True)
        paint(pets / name)
    seen = len(list(pets.rglob("*")))
    monkeypatch.setattr(folders, "MOST_ENTRIES", seen)
    assert [str(path.relative_to(pets)) for path in folders.scan(pets)[0]] == [
        "cat/1.png", "cat/2.png", "cat/inner/deep/3.PNG", "dog/.hidden/2.png", "dog/1.png",
    ]  # fmt: skip
    monkeypatch.setattr(folders, "MOST_ENTRIES", seen - 1)
    with pytest.raises(ArgumentError, match=rf"in .*pets \(--data\), got one with more than {seen - 1} files"):
        load(pets)
    monkeypatch.setattr(folders, "MOST_CLASSES", 1)
    with pytest.raises(ArgumentError, match=r"expected at most 1 folders, one per class, in .*\(--data\), got 2"):
        load(pets)
