"""Tiny-ImageNet and ImageNet from folders as people have them, and the arrays that are made of them."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from anisocert import inputs
from anisocert.cli.app import app
from anisocert.data import CATALOG, Dataset, imagenet, load, prepare, prepared, splits
from anisocert.data._image_files import ImageFiles
from anisocert.data.dataset import as_float
from anisocert.durable import BusyError
from anisocert.errors import ArgumentError
from anisocert.runs.loading import arrays_hash

RNG = np.random.default_rng(0)
GOLDFISH, BULLFROG = "n01443537", "n01641577"


def paint(path: Path, color: int, size: tuple[int, int] = (64, 64)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (color, 0, 255 - color)).save(path, format="PNG")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The published layout, with two classes; wnids.txt is in no order there either."""
    top = tmp_path / "tiny-imagenet-200"
    for k, name in enumerate((GOLDFISH, BULLFROG)):
        for i in range(3):
            paint(top / "train" / name / "images" / f"{name}_{i}.JPEG", 10 * k + i)
        (top / "train" / name / f"{name}_boxes.txt").write_text("")
    for i, color in ((0, 100), (2, 102), (10, 110)):
        paint(top / "val" / "images" / f"val_{i}.JPEG", color)
    paint(top / "test" / "images" / "test_0.JPEG", 1)
    (top / "val" / "val_annotations.txt").write_text(
        f"val_10.JPEG\t{GOLDFISH}\t0\t0\t1\t1\nval_0.JPEG\t{BULLFROG}\t0\t0\t1\t1\nval_2.JPEG\t{GOLDFISH}\t0\t0\t1\t1\n"
    )
    (top / "wnids.txt").write_text(f"{BULLFROG}\n{GOLDFISH}\n")
    (top / "words.txt").write_text(f"n00001740\tentity\n{GOLDFISH}\tgoldfish, Carassius auratus\n")
    return top


def test_tiny_imagenet(tiny: Path, root: Path) -> None:
    place = prepare("tiny-imagenet", tiny)
    assert (place, splits("tiny-imagenet"), splits(tiny)) == (root / "tiny-imagenet", *2 * (("train", "test"),))
    for source in ("tiny-imagenet", tiny, place):
        test, train = load(source), load(source, "train")
        assert test.class_names == ("goldfish", BULLFROG)  # alphabetical by WordNet id, named where words.txt knows
        assert (test.ids.tolist(), test.y.tolist()) == ([0, 2, 10], [1, 0, 0])
        assert (test.x[:, 0, 0, 0] * 255).round().tolist() == [100, 102, 110]
        assert (train.ids.tolist(), train.y.tolist()) == ([1_000_000 + i for i in range(6)], [0, 0, 0, 1, 1, 1])
        assert (train.x[:, 0, 0, 0] * 255).round().tolist() == [0, 1, 2, 10, 11, 12]
        assert (train.crop, train.flip, train.num_classes, train.shape) == (8, True, 2, (3, 64, 64))
        assert test.notes == ("a part of tiny-imagenet's test images: 3 of 10,000",)


def test_what_is_missing_is_named(tiny: Path, root: Path) -> None:
    with pytest.raises(ArgumentError, match=r"tiny-imagenet is not in .*: get .* data prepare tiny-imagenet"):
        load("tiny-imagenet")
    with pytest.raises(ArgumentError, match=r"expected the folder of tiny-imagenet, with wnids.txt, .* got nothing at"):
        prepare("tiny-imagenet", tiny / "none")
    (tiny / "val" / "images" / "val_2.JPEG").rename(tiny / "val" / "images" / "val_3.JPEG")
    with pytest.raises(ArgumentError, match=r"expected the images that .* names in .*, got no val_2.JPEG"):
        prepare("tiny-imagenet", tiny)
    (tiny / "val" / "val_annotations.txt").write_text(f"val_3.JPEG\t{GOLDFISH}\n")
    with pytest.raises(ArgumentError, match=r"for each validation image .* got none for val_0.JPEG, val_10.JPEG"):
        prepare("tiny-imagenet", tiny)
    (tiny / "val" / "val_annotations.txt").write_text("".join(f"val_{i}.JPEG\tn02\n" for i in (0, 3, 10)))
    with pytest.raises(ArgumentError, match=r"expected classes of wnids.txt in .*, got n02"):
        prepare("tiny-imagenet", tiny)
    for image in (tiny / "train" / BULLFROG / "images").iterdir():
        image.unlink()
    with pytest.raises(ArgumentError, match=f"for each class of wnids.txt, got none for {BULLFROG}"):
        prepare("tiny-imagenet", tiny)
    (tiny / "wnids.txt").unlink()
    with pytest.raises(ArgumentError, match=r"expected wnids.txt, .* got no wnids.txt"):
        prepare("tiny-imagenet", tiny)
    assert not root.exists()


def class_list(folder: Path) -> None:
    """Keras's list, with classes in the field's order; all but two of them made up."""
    said = {str(i): [wordnet, f"class {i}"] for i, wordnet in enumerate(wordnets())}
    said |= {"1": [GOLDFISH, "goldfish"], "30": [BULLFROG, "bullfrog"]}
    (folder / "imagenet_class_index.json").write_text(json.dumps(said))


def wordnets() -> list[str]:
    return [f"n{(1443536 if i < 30 else 1641547) + i:08}" for i in range(1000)]


def own_name(number: int) -> str:
    return f"ILSVRC2012_val_{number:08}.JPEG"


@pytest.mark.parametrize("layout", ["wordnet", "numbers", "kaggle", "caffe"])
def test_imagenet_layouts(tmp_path: Path, root: Path, layout: str) -> None:
    top = tmp_path / "mine"
    images = {7: (GOLDFISH, 1, 70), 3: (BULLFROG, 30, 30), 5: (GOLDFISH, 1, 50)}
    for number, (wordnet, label, color) in images.items():
        below = {"wordnet": f"val/{wordnet}", "numbers": f"ILSVRC2012_img_val_subset/{label}"}.get(layout, "val")
        paint(top / below / own_name(number), color, (300, 260))
    class_list(top)
    if layout == "kaggle":
        rows = [f"{own_name(number)[:-5]},{images[number][0]} 1 2 3 4 " for number in images]
        (top / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *rows]))
    if layout == "caffe":
        (top / "val.txt").write_text("".join(f"{own_name(number)} {images[number][1]}\n" for number in images))
    prepare("imagenet", top, test_every=3)
    test, train = load("imagenet"), load("imagenet", "train")
    assert splits("imagenet") == ("train", "test")
    assert (test.ids.tolist(), train.ids.tolist(), test.y.tolist(), train.y.tolist()) == ([3], [5, 7], [30], [1, 1])
    assert (train.x[:, 0, 0, 0] * 255).round().tolist() == [50, 70]
    assert (test.num_classes, test.class_names[1], test.class_names[30]) == (1000, "goldfish", "bullfrog")
    assert {name: test.preparation[name] for name in ("shape", "resize", "crop")} == {
        "shape": [3, 224, 224], "resize": 256, "crop": 224,
    }  # fmt: skip
    assert test.notes == ("a part of ImageNet's validation images: 1 of 50,000",)


def test_imagenet_without_its_lists(tmp_path: Path, root: Path) -> None:
    with pytest.raises(ArgumentError, match=r"one folder of images per class, named n01440764, .* got nothing of that"):
        prepare("imagenet", tmp_path)
    paint(tmp_path / "val" / own_name(1), 1)
    with pytest.raises(ArgumentError, match=r"got images in .*val without a list of classes"):
        prepare("imagenet", tmp_path)
    (tmp_path / "val.txt").write_text(f"{own_name(2)} 5\n")
    with pytest.raises(ArgumentError, match=r"for each image in .*val.txt, got none for ILSVRC2012_val_00000001"):
        prepare("imagenet", tmp_path)
    for name in (GOLDFISH, BULLFROG):
        paint(tmp_path / "val" / name / "photo.JPEG", 1)
    with pytest.raises(ArgumentError, match=r"in the folder of its class in .*val, got ILSVRC2012_val_00000001.JPEG"):
        prepare("imagenet", tmp_path)
    (tmp_path / "val" / own_name(1)).unlink()
    with pytest.raises(ArgumentError, match=r"expected imagenet_class_index.json or .* got neither"):
        prepare("imagenet", tmp_path)
    class_list(tmp_path)
    with pytest.raises(ArgumentError, match=r"images named ILSVRC2012_val_00000001.JPEG, .* got photo.JPEG"):
        prepare("imagenet", tmp_path)
    (tmp_path / "imagenet_class_index.json").write_text('{"0": ["n01440764", "tench"]}')
    with pytest.raises(ArgumentError, match=r"for 1000 classes in .*imagenet_class_index.json, got: KeyError"):
        prepare("imagenet", tmp_path)
    assert not root.exists()


def test_lists_of_classes_are_taken_at_their_word(tiny: Path, tmp_path: Path, root: Path) -> None:
    top, listed = tmp_path / "mine", tmp_path / "mine" / "val.txt"
    first, second = (f"ILSVRC2012_val_{i:08}" for i in (1, 2))
    for name in (f"{first}.photo.JPEG", f"{second}.JPEG"):
        paint(top / "val" / name, 1)
    listed.write_text(f"{first}.photo.JPEG 4\n{second}.JPEG 1.5\n")
    with pytest.raises(ArgumentError, match=f"a class for each image in .*val.txt, got none for {second}.JPEG"):
        prepare("imagenet", top)
    listed.write_text(f"{first}.photo 4\n{second}.JPEG 5\n{second}.JPEG 6\n")
    with pytest.raises(ArgumentError, match=f"one class for each image in .*val.txt, got 5 and 6 for {second}"):
        prepare("imagenet", top)
    listed.write_text(f"{first}.photo 4\n{second}.JPEG 5\n{second}.JPEG 5\n")
    assert load(prepare("imagenet", top, tmp_path / "out")).y.tolist() == [4, 5]
    with (tiny / "val" / "val_annotations.txt").open("a") as file:
        file.write(f"val_0.JPEG\t{GOLDFISH}\n")
    with pytest.raises(ArgumentError, match=f"val_annotations.txt, got {BULLFROG} and {GOLDFISH} for val_0.JPEG"):
        prepare("tiny-imagenet", tiny)


@pytest.mark.parametrize("change", ["a line twice", "another order", "one left out", "another word"])
def test_a_list_that_would_number_classes_otherwise(tmp_path: Path, root: Path, change: str) -> None:
    for i, name in enumerate((GOLDFISH, BULLFROG)):
        paint(tmp_path / "val" / name / own_name(i), 1)
    names = {
        "a line twice": [wordnets()[0], *wordnets()],
        "another order": wordnets()[::-1],
        "one left out": wordnets()[1:],
        "another word": [*wordnets()[:-1], "../../etc"],
    }[change]
    (tmp_path / "LOC_synset_mapping.txt").write_text("".join(f"{name} some, thing\n" for name in names))
    with pytest.raises(ArgumentError, match=r"expected 1000 WordNet ids in alphabetical order, each once"):
        prepare("imagenet", tmp_path)
    (tmp_path / "LOC_synset_mapping.txt").write_text("".join(f"{name} some, thing\n" for name in wordnets()))
    assert load(prepare("imagenet", tmp_path, tmp_path / "out", resize=64, crop=64)).y.tolist() == [1, 30]


def test_two_folders_of_one_class_number(tmp_path: Path, root: Path) -> None:
    for i, name in enumerate(("5", "05")):
        paint(tmp_path / "val" / name / own_name(i), 1)
    with pytest.raises(ArgumentError, match=r"one folder per class in .*val, got two names for one number"):
        prepare("imagenet", tmp_path)


def test_classes_are_wordnet_ids_and_no_paths(tiny: Path, tmp_path: Path) -> None:
    with (tiny / "wnids.txt").open("a") as file:
        file.write(f"../../elsewhere/{GOLDFISH}\n")
    with pytest.raises(ArgumentError, match=r"expected WordNet ids, as n01443537, in .*wnids.txt, got \.\./\.\./else"):
        prepare("tiny-imagenet", tiny, tmp_path / "out")


def test_splits_have_one_size(tiny: Path, tmp_path: Path) -> None:
    for path in (tiny / "val" / "images").iterdir():
        paint(path, 1, (32, 32))
    with pytest.raises(ArgumentError, match=r"expected images of one size in .*, got another in each split"):
        prepare("tiny-imagenet", tiny, tmp_path / "out")


def test_sides_are_rounded_as_torchvision_does(tmp_path: Path) -> None:
    """int(256 * long / short): 256 / 196 * 294 is a little less than 384 in floating point."""
    paint(tmp_path / "a.png", 1, (294, 196))
    assert ImageFiles([tmp_path / "a.png"], resize=256).shape == (1, 3, 256, 384)


def test_the_whole_set_is_numbered_as_the_field_does(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in ((BULLFROG, 1), (GOLDFISH, 9), (GOLDFISH, 4)):
        paint(root / "imagenet" / "val" / name / own_name(number), number, (224, 224))
    monkeypatch.setattr(imagenet, "CLASSES", 2)
    monkeypatch.setattr(imagenet, "IMAGES", 3)
    found = load("imagenet")
    assert (found.ids.tolist(), found.y.tolist(), found.notes) == ([0, 1, 2], [0, 0, 1], ())
    assert [path.name for path in found.pixels.paths] == [own_name(n) for n in (4, 9, 1)]  # type: ignore[union-attr]
    prepare("imagenet", root / "imagenet", tmp_path / "arrays")
    again = load(tmp_path / "arrays")
    assert again.ids.tolist() == [0, 1, 2]
    assert np.array_equal(again.x, found.x)


def test_arrays_are_replaced_only_on_demand(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare("tiny-imagenet", tiny, out)
    with pytest.raises(ArgumentError, match=r"expected no prepared data at .*out, got some"):
        prepare("tiny-imagenet", tiny, out)
    (out / "data.json").unlink()  # as after an interruption
    (out / ".anisocert-1.part").touch()
    with pytest.raises(
        ArgumentError, match=r"in .*out, got the beginning of it, .* run `anisocert data prepare` again"
    ):
        load(out)
    prepare("tiny-imagenet", tiny, out)
    assert len(load(out)) == 3
    broken = tiny / "val" / "images" / "val_10.JPEG"
    broken.write_bytes(broken.read_bytes()[:-20])
    with pytest.raises(ArgumentError, match=r"expected a whole image file at .*val_10.JPEG"):
        prepare("tiny-imagenet", tiny, out, force=True)
    assert len(load(out)) == 3  # what was there stays until there is something to replace it
    assert not list(out.glob("*.part"))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "x_train.npy").write_bytes(b"of the user's own")
    for said in ("", "{}"):
        with pytest.raises(ArgumentError, match=r"expected an empty folder, or none, at .*mine, got .*x_train.npy"):
            prepare("tiny-imagenet", tiny, mine, force=True)
        assert (mine / "x_train.npy").read_bytes() == b"of the user's own"
        (mine / "data.json").write_text(said or "{}")
    (out / "diary.txt").touch()
    with pytest.raises(ArgumentError, match=r"expected an empty folder, or none, at .*out, got diary.txt in it"):
        prepare("tiny-imagenet", tiny, out, force=True)


@pytest.mark.parametrize("name", ["imagenet", "tiny-imagenet"])
def test_only_what_is_whole_counts_as_here(name: str, root: Path) -> None:
    (root / name).mkdir(parents=True)
    assert not CATALOG[name].present()  # an empty folder is none
    with pytest.raises(ArgumentError, match=f"{name} is not in"):
        load(name)
    for left in ("preparing.lock", ".anisocert-1.part", "x_test.npy"):
        (root / name / left).touch()
        assert not CATALOG[name].present()
        with pytest.raises(ArgumentError, match=r"got the beginning of it, .* run `anisocert data prepare` again"):
            load(name)
    data = Dataset("some", np.zeros((2, 3, 4, 4), np.uint8), np.arange(2), np.arange(2), 2, (0.5,) * 3, (0.25,) * 3)
    prepared.write(root / name, {"test": data})
    assert CATALOG[name].present()


def test_a_part_of_imagenet_is_not_the_set_of_that_name(root: Path) -> None:
    for label in (7, 9):
        paint(root / "imagenet" / "val" / str(label) / own_name(label), label)
    assert not CATALOG["imagenet"].present()


def test_one_preparation_at_a_time(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pixels of one with the description of another would be nobody's data."""
    out, write = tmp_path / "out", prepared.write

    def interrupted(folder: Path, parts: Any) -> None:
        with pytest.raises(BusyError, match=r"expected .*out to be idle, got a preparation at work in it: wait"):
            prepare("tiny-imagenet", tiny, out)
        write(folder, parts)

    monkeypatch.setattr(prepared, "write", interrupted)
    prepare("tiny-imagenet", tiny, out)
    assert len(load(out)) == 3
    monkeypatch.setattr(prepared, "write", write)
    prepare("tiny-imagenet", tiny, out, force=True)  # the lock that stays there is nobody else's file


@pytest.mark.parametrize("kind", ["link", "file", "folder"])
def test_what_lies_in_the_place_of_new_arrays(tiny: Path, tmp_path: Path, kind: str) -> None:
    out, new, kept = tmp_path / "out", tmp_path / "out" / "preparing.part", tmp_path / "kept"
    prepare("tiny-imagenet", tiny, out)
    kept.mkdir()
    (kept / "diary.txt").touch()
    {"link": lambda: new.symlink_to(kept), "file": new.touch, "folder": new.mkdir}[kind]()
    prepare("tiny-imagenet", tiny, out, force=True)
    assert (len(load(out)), new.exists(), (kept / "diary.txt").exists()) == (3, False, True)


def test_the_slower_of_two_does_not_replace_what_the_other_made(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ArgumentError, match="expected no prepared data at"):
        prepare("tiny-imagenet", tiny, out, say=lambda _: out.exists() or prepare("tiny-imagenet", tiny, out))


def test_damage_is_an_error(tiny: Path, tmp_path: Path) -> None:
    out = prepare("tiny-imagenet", tiny, tmp_path / "out")
    said, pixels = (out / "data.json").read_text(), (out / "x_test.npy").read_bytes()
    for wrong in (
        "",
        "[]",
        "{}",
        said.replace('"flip": true', '"flip": 1'),
        said.replace("0.4802", '"a"'),
        said.replace('"test": [', '"x": 1, "test": ['),
    ):
        (out / "data.json").write_text(wrong)
        with pytest.raises(ArgumentError, match=r"expected what `anisocert data prepare` writes in .*data.json"):
            load(out)
    (out / "data.json").write_text(said.replace('"goldfish"', '"gold\\u001b[31mfish"'))
    assert load(out).class_names[0] == r"gold\x1b[31mfish"  # nothing that a terminal would obey
    (out / "data.json").write_text(said)
    for wrong_bytes in (b"", pixels[:50], pixels[:-1], pixels + b"0"):
        (out / "x_test.npy").write_bytes(wrong_bytes)
        with pytest.raises(ArgumentError, match=r"expected a whole numpy file at .*x_test.npy"):
            load(out)
    np.save(out / "x_test.npy", np.zeros((3, 3, 4, 4), np.float32))
    with pytest.raises(ArgumentError, match="expected uint8 images of 3 channels"):
        load(out)
    (out / "x_test.npy").write_bytes(pixels)
    np.save(out / "y_test.npy", np.array([0, 1, 2]))
    with pytest.raises(ArgumentError, match="expected labels 0 to 1"):
        load(out)


def test_pixels_stay_on_disk_until_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, side = 64, 224
    x = RNG.integers(0, 256, (count, 3, side, side), np.uint8)
    prepared.write(
        tmp_path, {"test": Dataset("some", x, np.arange(count) % 2, np.arange(count), 2, (0.5,) * 3, (0.25,) * 3)}
    )
    monkeypatch.setattr(inputs, "HASHED", 1 << 20)
    tracemalloc.start()
    whole = load(tmp_path)
    with pytest.raises(
        ArgumentError, match=r"expected split test of .*, got 'train': .* --test-every N --force` makes"
    ):
        load(tmp_path, "train")
    spaced = whole.subset(skip=2)
    digest = arrays_hash(spaced.pixels)  # type: ignore[arg-type]
    data = whole.subset(ids=[5, 60])
    found = data.x
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(found, as_float(x[[5, 60]]))
    assert (digest, spaced.ids.tolist()) == (arrays_hash(x[::2]), list(range(0, count, 2)))
    assert peak < 20 * found[0].size  # all pixels would be 64 bytes for each value of an input


def test_command(tiny: Path, root: Path) -> None:
    run = CliRunner().invoke(app, ["data", "prepare", "tiny-imagenet", str(tiny)], catch_exceptions=False)
    said = " ".join(run.output.split())
    assert "test: 3 images of 2 classes, 3 x 64 x 64 note: a part of" in said
    assert "use them with --data tiny-imagenet" in said
    with pytest.raises(ArgumentError, match="expected resize, crop and test_every for imagenet alone"):
        CliRunner().invoke(app, ["data", "prepare", "tiny-imagenet", str(tiny), "--crop", "3"], catch_exceptions=False)
    with pytest.raises(ArgumentError, match="expected a data set to be one of tiny-imagenet, imagenet, got 'svhn'"):
        CliRunner().invoke(app, ["data", "prepare", "svhn", str(tiny)], catch_exceptions=False)
