import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anisocert.data import load, parse_ids, splits
from anisocert.data._image_files import ImageFiles
from anisocert.data.dataset import FIRST_TRAIN_ID
from anisocert.data.folders import scan
from anisocert.diagnosis.probing import span
from anisocert.errors import ArgumentError

RNG = np.random.default_rng(0)


def test_npz_with_both_splits(tmp_path: Path) -> None:
    x = {"train": RNG.integers(0, 256, (6, 5, 4, 3), np.uint8), "test": RNG.integers(0, 256, (3, 5, 4, 3), np.uint8)}
    np.savez(tmp_path / "mine.npz", x_train=x["train"], y_train=np.arange(6) % 4, x_test=x["test"], y_test=[0, 1, 2])
    path = tmp_path / "mine.npz"
    train, test = load(path, "train"), load(str(path), "test")
    assert splits(path) == ("train", "test")
    np.testing.assert_array_equal(test.pixels, x["test"].transpose(0, 3, 1, 2))
    assert (test.name, test.num_classes, train.num_classes, test.ids.tolist()) == ("mine", 4, 4, [0, 1, 2])
    assert train.ids.tolist() == [FIRST_TRAIN_ID + i for i in range(6)]
    np.testing.assert_allclose(test.mean, x["train"].mean((0, 1, 2)) / 255, rtol=1e-12)
    np.testing.assert_allclose(test.std, x["train"].std((0, 1, 2)) / 255, rtol=1e-12)


def test_npz_with_test_examples_alone(tmp_path: Path) -> None:
    x, path = RNG.standard_normal((3, 7)), tmp_path / "test.npz"
    np.savez(path, x_test=x, y_test=np.array([1, 0, 1]), ids_test=[9, 8, 7])
    assert splits(path) == ("test",)
    assert (load(path).ids.tolist(), load(path).y.tolist()) == ([9, 8, 7], [1, 0, 1])
    np.testing.assert_allclose(load(path).mean, x.mean(), rtol=1e-5)
    with pytest.raises(ArgumentError, match=r"expected x_train, y_train.* got x_test, y_test, ids_test in"):
        load(path, "train")


def test_npz_with_one_set_and_own_ids(tmp_path: Path) -> None:
    x = RNG.standard_normal((3, 7))
    np.savez(tmp_path / "flat.npz", x=x, y=np.array([1, 0, 1]), ids=[9, 8, 7])
    data = load(tmp_path / "flat.npz", "train")
    assert splits(tmp_path / "flat.npz") == ()
    assert (data.ids.tolist(), data.shape, data.num_classes) == ([9, 8, 7], (7,), 2)
    np.testing.assert_array_equal(data.x, x.astype(np.float32))
    np.testing.assert_allclose([*data.mean, *data.std], [x.mean(), x.std()], rtol=1e-5)


def test_npy_with_labels_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "grey.npy", RNG.integers(0, 256, (4, 6, 5), np.uint8))
    with pytest.raises(ArgumentError, match=r"the labels of .*grey.npy in .*grey_labels.npy.*savez\('grey.npz', x=x\)"):
        load(tmp_path / "grey.npy")
    np.save(tmp_path / "grey_labels.npy", np.array([0, 1, 2, 1]))
    assert load(tmp_path / "grey.npy").shape == (1, 6, 5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.full((4, 1, 2, 2), 200)}, r"got int64 of .*: save pixels of 0 to 255 as x\.astype\('uint8"),
        ({"x": np.full((4, 3), -5)}, r"got int64 of shape \(4, 3\): save x\.astype\('float32'\)"),
        ({"x": np.ones((4, 3), bool)}, r"got bool of shape \(4, 3\): save x\.astype\('float32'\)"),
        ({"y": np.array(["a", 1, "b", 2], object)}, r"elements object in y, .*: save y\.astype"),
        ({"x": np.zeros((0, 3)), "y": np.arange(0)}, r"expected at least one example in .*, got .* shape \(0, 3\)"),
        ({"y": np.array(1)}, r"int64 of shape \(\) in y: for one example save x\[None\] and y\[None\]"),
        ({"y": np.arange(4) + 0.5}, r"float64 of shape \(4,\) in y, not all whole"),
        ({"y": np.arange(3)}, "expected one label for each of the 4 examples of wrong, got 3"),
        ({"y": np.arange(4) - 1}, r"expected labels 0 to 2 in wrong, got -1 to 2: class numbers begin at 0"),
        ({"y": np.array([-1, 1, 1, -1])}, r"got -1 to 1: save \(y > 0\)\.astype\(int\)"),
        ({"ids": np.arange(5)}, "expected one id for each of the 4 examples of wrong, got 5"),
        (
            {"x": np.zeros((4, 3, 8, 3))},
            r"distinguishes .*got \(4, 3, 8, 3\): .*channels-first .*x\.transpose\(0, 3, 1, 2\)",
        ),
    ],
)
def test_arrays_that_say_how_to_save_them(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "wrong.npz", **({"x": np.zeros((4, 3)), "y": np.arange(4)} | arrays))
    with pytest.raises(ArgumentError, match=message):
        load(tmp_path / "wrong.npz")


def test_the_spread_of_rows_is_that_of_a_feature(tmp_path: Path) -> None:
    """Features have units of their own: how far apart they lie is no spread."""
    x = RNG.standard_normal((200, 3)) * [1.0, 2.0, 10.0] + [0.0, 50.0, 2000.0]
    np.savez(tmp_path / "rows.npz", x=x)
    rows = load(tmp_path / "rows.npz")
    assert rows.spread() == pytest.approx(2.0, rel=0.2)
    assert span(rows.x) == pytest.approx(np.ptp(x[:, 1]), rel=1e-6)
    np.savez(tmp_path / "images.npz", x=x.reshape(-1, 1, 5, 5))
    assert load(tmp_path / "images.npz").spread() == pytest.approx(x.std(), rel=1e-3)
    assert span(load(tmp_path / "images.npz").x) == pytest.approx(np.ptp(x), rel=1e-6)


def test_axes_that_are_moved_are_noted_and_channels_first_can_be_said(tmp_path: Path) -> None:
    x = RNG.standard_normal((4, 3, 8, 3)).astype(np.float32)
    np.savez(tmp_path / "unclear.npz", x=x)
    found = load(tmp_path / "unclear.npz", layout="channels-first")
    np.testing.assert_array_equal(found.pixels, x)
    assert found.notes == ()
    np.savez(tmp_path / "last.npz", x=x.transpose(0, 2, 3, 1))  # 8 x 3 x 3
    found = load(tmp_path / "last.npz")
    np.testing.assert_array_equal(found.pixels, x)
    assert found.notes == ("images of 8 x 3 x 3 in last.npz are taken as 3 x 8 x 3, channels first",)
    np.savez(tmp_path / "grey.npz", x=x[:, 0])
    assert load(tmp_path / "grey.npz", layout="channels-first").shape == (8, 3)  # a signal of 8 channels
    assert load(tmp_path / "grey.npz").notes == ("images of 8 x 3 in grey.npz are taken as 1 x 8 x 3, channels first",)


def test_bytes_that_need_not_be_pixels_are_noted(tmp_path: Path) -> None:
    counts = np.array([[0, 3], [51, 255]], np.uint8)
    np.savez(tmp_path / "rows.npz", x=counts)
    rows = load(tmp_path / "rows.npz")
    np.testing.assert_allclose(rows.x, [[0, 3 / 255], [0.2, 1]], rtol=1e-6)
    assert rows.notes == (
        "values of 0 to 255 in rows.npz become 0 to 1, as pixels: if they are none, save them as float32",
    )
    np.savez(tmp_path / "levels.npz", x=counts[:1, None, None])
    (note,) = load(tmp_path / "levels.npz").notes
    assert note.startswith("pixels of 0 to 3 in levels.npz become 0 to 0.0118, as uint8 is 0 to 255: if they are to")
    np.savez(tmp_path / "images.npz", x=counts[:, None, None])
    np.savez(tmp_path / "floats.npz", x=counts.astype(np.float32))
    assert load(tmp_path / "images.npz").notes == load(tmp_path / "floats.npz").notes == ()


def test_ids_may_be_the_names_of_files(tmp_path: Path) -> None:
    data = load(image_folder(tmp_path / "pets", {"big cat": (4, 4), "dog": (4, 4)}))
    numbers = parse_ids("dog/1.png, big cat/0.png,7", data.named | {"x": 7})
    assert numbers == [data.named["dog/1.png"], data.named["big cat/0.png"], 7]
    assert data.subset(ids=numbers[:2]).names == ("big cat/0.png", "dog/1.png")
    with pytest.raises(ArgumentError, match=r"names of files, as in big cat/0\.png, got 'dog/9\.png', which is none"):
        parse_ids("dog/9.png", data.named)
    with pytest.raises(ArgumentError, match=r"expected ids, or names of files, got 'dog/1\.png'"):
        parse_ids("dog/1.png")


def image_folder(folder: Path, sizes: dict[str, tuple[int, int]]) -> Path:
    """One folder a class, with two images of the given size."""
    for name, size in sizes.items():
        (folder / name).mkdir(parents=True)
        for i in range(2):
            pixels = RNG.integers(0, 256, (size[1], size[0], 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder


def test_a_folder_says_how_its_images_are_prepared_and_what_they_are(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pets", {"cat": (20, 30), "dog": (40, 16)})
    (folder / "images.json").write_text('{"resize": 12, "crop": 8, "labels": {"dog": 2, "cat": 4}, "num_classes": 6}')
    data = load(folder)
    assert data.shape == (3, 8, 8)
    assert data.y.tolist() == [4, 4, 2, 2]
    assert data.class_names == ("0", "1", "dog", "3", "cat", "5")
    assert data.notes == ()  # it says itself which class is which
    assert data.num_classes == 6
    assert data.preparation == {
        "shape": [3, 8, 8], "range": [0.0, 1.0], "levels": 255, "resize": 12, "crop": 8,
        "classes": ["0", "1", "dog", "3", "cat", "5"],
    }  # fmt: skip
    # the centre of the picture, scaled: the same as Pillow's own
    image = Image.open(folder / "cat" / "0.png").resize((12, 18), Image.Resampling.BILINEAR).crop((2, 5, 10, 13))
    np.testing.assert_array_equal(data.x[0], np.asarray(image).transpose(2, 0, 1) / np.float32(255))
    (folder / "images.json").unlink()
    with pytest.raises(
        ArgumentError, match=r"images of one size, 30 x 20 .*, got 16 x 40 in .*: resize .* images.json"
    ):
        load(folder).sample()


def test_folders_without_notes_are_as_before(tmp_path: Path) -> None:
    data = load(image_folder(tmp_path / "pets", {"dog": (6, 5), "cat": (6, 5)}))
    assert data.y.tolist() == [0, 0, 1, 1]
    assert data.class_names == ("cat", "dog")
    assert data.notes[0].startswith("folders are classes in the order of their names, cat is 0, dog is 1: ")
    assert (data.preparation["resize"], data.preparation["crop"]) == (None, None)


def test_preparation_of_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "bytes.npz", x=RNG.integers(0, 256, (2, 5, 4, 3), np.uint8), y=np.array([0, 1]))
    np.savez(tmp_path / "floats.npz", x=RNG.standard_normal((2, 7)), y=np.array([0, 1]))
    assert load(tmp_path / "bytes.npz").preparation == {
        "shape": [3, 5, 4], "range": [0.0, 1.0], "levels": 255, "resize": None, "crop": None, "classes": None,
    }  # fmt: skip
    assert load(tmp_path / "floats.npz").preparation["levels"] is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.zeros(3)}, "expected x_train, y_train.* got a in"),
        ({"x": [[0, 1], [2, np.inf]], "y": [0, 0]}, r"infinity or more than float32 holds in row 1 \(from 0\)"),
        ({"x": np.array([{}, {}]), "y": [0, 0]}, "whole numpy file"),  # a pickle: not loaded
        ({"x": np.zeros((2, 3)), "y": [0, 0], "ids": ["a", "b"]}, "in ids: ids are whole numbers: .*arange"),
        ({"x": np.zeros((2, 3)), "y": [0, 0], "ids": [0.1, 1.1]}, "float64 .* in ids: ids are whole"),
        ({"x": np.zeros((2, 3)), "y": [0, 0], "ids": ["1", "2"]}, r"save ids\.astype\(int\)"),
    ],
)
def test_wrong_npz(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(ArgumentError, match=message):
        load(tmp_path / "wrong.npz")


@pytest.mark.parametrize(
    ("y", "remedy"),
    [
        (np.arange(4.0), "save y.astype(int)"),
        (np.array(["0", "1", "1", "0"]), "save y.astype(int)"),
        (np.array(["cat", "dog", "dog", "cat"]), "save numpy.unique(y, return_inverse=True)[1]"),
        (np.eye(4), "save y.argmax(1)"),
        (np.arange(4)[:, None], "save y.ravel().astype(int)"),
        (np.array([True, False, True, False]), "save y.astype(int)"),
    ],
)
def test_labels_in_another_form_name_the_remedy(tmp_path: Path, y: np.ndarray, remedy: str) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 1, 2, 2), np.float32), y=y)
    with pytest.raises(ArgumentError, match=re.escape(remedy)):
        load(tmp_path / "a.npz")


def test_labels_that_are_no_numbers_at_all_cannot_be_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 1, 2, 2), np.float32), y=np.array([0.5, np.nan]))
    with pytest.raises(ArgumentError, match=r"got float64 of shape \(2,\) in y, not all whole: "):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize("shape", [(784, 1), (1, 784), (784,), (28, 28), (28, 28, 1), (1, 28, 28)])
def test_rows_of_values_are_not_taken_for_images(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, *shape), np.float32), y=np.arange(3))
    image = len(shape) == 3 or shape == (28, 28)
    assert load(tmp_path / "a.npz").shape == ((1, 28, 28) if image else shape)


def test_without_labels(tmp_path: Path) -> None:
    x = np.zeros((3, 1, 2, 2), np.float32)
    np.savez(tmp_path / "a.npz", x=x)
    np.savez(tmp_path / "b.npz", x_train=x, x_test=x[:2])
    for name, length in (("a.npz", 3), ("b.npz", 2)):
        found = load(tmp_path / name)
        assert (found.labelled, found.y.tolist(), len(found)) == (False, [-1] * length, length)
    np.savez(tmp_path / "c.npz", x_train=x, y_train=np.arange(3), x_test=x)
    assert load(tmp_path / "c.npz", "train").labelled
    with pytest.raises(ArgumentError, match="expected x_train, y_train, x_test, y_test"):
        load(tmp_path / "c.npz", "test")
    np.savez(tmp_path / "d.npz", x=x, y=np.array([-1, 0, 1]))
    with pytest.raises(ArgumentError, match="expected labels 0 to 1 in d, got -1 to 1"):
        load(tmp_path / "d.npz")


def test_truncated_npz_and_unknown_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "cut.npz", x=np.zeros((50, 3)), y=np.zeros(50, int))
    content = (tmp_path / "cut.npz").read_bytes()
    for kept in (0, 100, len(content) - 30):
        (tmp_path / "cut.npz").write_bytes(content[:kept])
        with pytest.raises(ArgumentError, match=r"expected a whole numpy file at .*cut.npz"):
            load(tmp_path / "cut.npz")
    np.savez_compressed(tmp_path / "cut.npz", x=RNG.random((50, 3)), y=np.zeros(50, int))
    content = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[:100] + bytes(50) + content[150:])  # zlib's to find
    with pytest.raises(ArgumentError, match=r"expected a whole numpy file at .*cut.npz"):
        load(tmp_path / "cut.npz")
    with pytest.raises(ArgumentError, match=r"expected a data set among digits, .*, got nonsense"):
        load("nonsense")
    with pytest.raises(ArgumentError, match=r"got .*nope\.npz: no such file or folder$"):
        load(tmp_path / "nope.npz")
    with pytest.raises(ArgumentError, match="expected split 'train' or 'test', got 'val'"):
        load("digits", "val")  # type: ignore[arg-type]


def test_a_table_is_told_how_to_become_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("a,b,class\n1,2,0\n3,4.5,1\n")
    with pytest.raises(ArgumentError, match=r"got mine\.csv: convert it, with rows = .*, if the class") as told:
        load("mine.csv")
    remedy = re.search(r"with (.*\)) and (.*\)), if", str(told.value))
    exec("; ".join(("import numpy", *remedy.groups())), {})
    assert (load("mine.npz").x.tolist(), load("mine.npz").y.tolist()) == ([[1, 2], [3, 4.5]], [0, 1])


def paint(path: Path, color: int, size: tuple[int, int] = (4, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (color, 0, 255 - color)).save(path)


def test_folder_of_images(tmp_path: Path) -> None:
    top = tmp_path / "pets"
    for name, color in (("dog/1.png", 10), ("cat/b.png", 20), ("cat/a.png", 30)):
        paint(top / name, color)
    (top / "cat" / "notes.txt").write_text("not an image")
    data = load(top)
    assert (data.class_names, data.y.tolist(), splits(top)) == (("cat", "dog"), [0, 0, 1], ())
    assert data.x[:, 0, 0, 0] * 255 == pytest.approx([30, 20, 10])
    paint(top / "cat" / "0.png", 40)  # a newcomer changes nobody's id
    more = load(top)
    assert len(more) == 4
    assert set(data.ids) < set(more.ids)
    assert more.subset(ids=[data.ids[2]]).x[0, 0, 0, 0] * 255 == pytest.approx(10)


def test_folder_with_splits(tmp_path: Path) -> None:
    for name in ("train/a/1.png", "train/a/2.png", "train/b/1.png", "val/a/1.png", "val/b/1.png"):
        paint(tmp_path / name, 7)
    train, test = load(tmp_path, "train"), load(tmp_path, "test")
    assert (len(train), len(test), splits(tmp_path)) == (3, 2, ("train", "test"))
    assert not set(train.ids) & set(test.ids)


def test_a_class_that_one_split_lacks_moves_no_label(tmp_path: Path) -> None:
    for name in ("train/a/1.png", "train/b/1.png", "train/c/1.png", "test/a/1.png", "test/c/1.png"):
        paint(tmp_path / name, 7)
    test = load(tmp_path, "test")
    assert (test.y.tolist(), test.num_classes, test.class_names) == ([0, 2], 3, ("a", "b", "c"))


def test_images_that_are_arranged_otherwise_name_the_remedy(tmp_path: Path) -> None:
    paint(tmp_path / "alone" / "1.png", 1)
    with pytest.raises(ArgumentError, match=r"folder of their own; without labels, save them as x in an \.npz"):
        load(tmp_path / "alone")
    with pytest.raises(
        ArgumentError, match=r"got 1 folders with 1 images.*: give the other classes a folder too, empty"
    ):
        load(tmp_path)
    (tmp_path / "bare").mkdir()
    np.testing.assert_array_equal(load(tmp_path).y, [0])
    paint(tmp_path / "split" / "val" / "a" / "1.png", 1)
    with pytest.raises(ArgumentError, match=r"if 'val' holds the folders of classes, give .*split/val"):
        load(tmp_path / "split")


def test_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="one folder of images per class"):
        load(tmp_path)
    paint(tmp_path / "a" / "1.png", 1)
    paint(tmp_path / "b" / "2.png", 1, (5, 4))
    with pytest.raises(ArgumentError, match=r"images of one size, 4 x 4 pixels .* got 4 x 5 in .*2.png"):
        load(tmp_path).sample()
    (tmp_path / "b" / "2.png").write_bytes((tmp_path / "a" / "1.png").read_bytes()[:40])
    with pytest.raises(ArgumentError, match=r"expected a whole image file at .*2.png"):
        load(tmp_path).sample()


def test_imagenet_says_what_it_needs(root: Path) -> None:
    with pytest.raises(ArgumentError, match=r"data prepare imagenet FOLDER`, where .*imagenet/val"):
        load("imagenet")
    paint(root / "imagenet" / "val" / "7" / "ILSVRC2012_val_00000001.png", 1)
    paint(root / "imagenet" / "val" / "9" / "ILSVRC2012_val_00000002.png", 2, (8, 6))
    with pytest.raises(ArgumentError, match=r"expected 1000 classes with 50,000 images .* got 2 with 2"):
        load("imagenet")
    with pytest.raises(
        ArgumentError, match=r"expected split 'test' of imagenet .* --test-every N --force` makes a train split"
    ):
        load("imagenet", "train")


def test_scaling_and_cropping_keeps_the_middle(tmp_path: Path) -> None:
    """A picture in three stripes, 300 x 100: shorter side to 20, the central 20 x 20 is the middle stripe."""
    stripes = np.repeat(np.array([[0, 100, 200]], np.uint8), 100, axis=1).repeat(100, axis=0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(stripes).save(tmp_path / name / "1.png")
    images = np.asarray(ImageFiles(scan(tmp_path)[0], channels=1, resize=20, crop=20))
    assert images.shape == (2, 1, 20, 20)
    assert (images[:, :, :, 2:-2] == 100).all()


def test_checksums_are_those_of_the_files(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"{i}.png").write_bytes(RNG.bytes(i * 10_000))
    paths = [tmp_path / f"{i}.png" for i in range(40)]
    found = ImageFiles(paths)[np.array([39, 0, 7])].checksums()
    expected = [hashlib.sha256(paths[i].read_bytes()).digest() for i in (39, 0, 7)]
    assert [row.tobytes() for row in found] == expected
    (tmp_path / "7.png").unlink()
    with pytest.raises(ArgumentError, match=r"expected a file at .*7.png, got none"):
        ImageFiles(paths).checksums()
