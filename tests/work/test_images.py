"""Runs on folders of images: what they record, what they refuse, and what can be shown about one image."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from anisocert.cli.app import app
from anisocert.engine import Numerics
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.models import build, save
from anisocert.report import evidence_of, sentence
from anisocert.runs import Configuration, read_run
from anisocert.verify.recounting import recount
from anisocert.verify.verifying import verify
from anisocert.work import add_to_memory, load_job


@pytest.fixture
def asked(tmp_path):
    """A network for 8x8 images, and a folder of larger ones of several sizes, of classes 3 and 1."""
    torch.manual_seed(0)
    model = build("small-cnn", 5, (0.5,) * 3, (0.25,) * 3).eval()
    described = {"architecture": "small-cnn", "num_classes": 5, "mean": (0.5,) * 3, "std": (0.25,) * 3}
    save(model, tmp_path / "net.safetensors", described)
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(2):
            size = (int(rng.integers(10, 20)), int(rng.integers(10, 20)))
            Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(tmp_path / "pets" / name / f"{i}.png")
    notes = {"resize": 9, "crop": 8, "labels": {"cat": 3, "dog": 1}, "num_classes": 5}
    (tmp_path / "pets" / "images.json").write_text(json.dumps(notes))
    return Configuration(
        str(tmp_path / "net.safetensors"), str(tmp_path / "pets"), 0.05, method="fixed", n=200, device="cpu",
        numerics=Numerics("float32", False, 160),
    )  # fmt: skip


def test_labels_and_preparation_are_recorded_and_radii_are_in_pixels_too(asked, do, tmp_path):
    assert do(asked, tmp_path / "run").finished
    run = read_run(tmp_path / "run")
    assert run.description["preparation"] == {
        "shape": [3, 8, 8], "range": [0.0, 1.0], "levels": 255, "resize": 9, "crop": 8,
        "classes": ["0", "dog", "2", "cat", "4"],
    }  # fmt: skip
    assert sorted(run.column("label").tolist()) == [1, 1, 3, 3]
    assert verify(tmp_path / "run").ok
    number = next(row["idx"] for row in run.table.to_pylist() if row["prediction"] >= 0)
    e = evidence_of(run, number)
    for ball in e.implied(e.binding):
        assert ball.pixels == pytest.approx(255 * ball.radius, rel=1e-12)
        assert ball.pixels <= 255 * ball.radius
    assert "in pixel units of 0 to 255" in sentence(e)
    assert e.name(3) == "3 (cat)"


def test_a_run_does_not_go_on_with_images_prepared_otherwise(asked, do, tmp_path):
    do(asked, tmp_path / "run", shard=(1, 2))
    notes = json.loads((tmp_path / "pets" / "images.json").read_text())
    (tmp_path / "pets" / "images.json").write_text(json.dumps(notes | {"resize": 10}))
    with pytest.raises(
        ArgumentError, match=r"expected the configuration that .* began with, got a different one: data"
    ):
        do(asked, tmp_path / "run", shard=(2, 2))
    (tmp_path / "pets" / "images.json").write_text(json.dumps(notes))
    assert do(replace(asked), tmp_path / "run", shard=(2, 2)).finished


def change_a_pixel(path):
    """By one level, in one place; the file stays a whole image of its size."""
    pixels = np.asarray(Image.open(path)).copy()
    pixels[3, 4, 1] ^= 1
    Image.fromarray(pixels).save(path)


def test_a_changed_pixel_is_another_data_set(asked, do, tmp_path):
    before = load_job(asked).configuration.data_hash
    image = tmp_path / "pets" / "dog" / "1.png"
    assert load_job(asked).configuration.data_hash == before
    content = image.read_bytes()
    do(asked, tmp_path / "run", shard=(1, 2))
    change_a_pixel(image)
    assert load_job(asked).configuration.data_hash != before
    with pytest.raises(
        ArgumentError, match=r"expected the configuration that .* began with, got a different one: data"
    ):
        do(asked, tmp_path / "run", shard=(2, 2))
    image.write_bytes(content)
    assert do(asked, tmp_path / "run", shard=(2, 2)).finished


def test_what_was_certified_is_not_checked_attacked_or_remembered_with_other_pixels(asked, do, tmp_path):
    do(asked, tmp_path / "run")
    run = read_run(tmp_path / "run")
    number = int(run.column("idx")[0])
    assert list(recount(run, [number])) == []
    change_a_pixel(tmp_path / "pets" / "cat" / "0.png")
    (finding,) = recount(run, [number])
    assert "its data_hash is not that of" in str(finding)
    for command in (("attack",), ("memory", "add", "--memory", tmp_path / "memory.sqlite")):
        refused = CliRunner().invoke(app, [*map(str, command), str(tmp_path / "run")]).exception
        assert isinstance(refused, ArgumentError)
        assert str(refused).startswith(f"expected the examples that {tmp_path / 'run'} was made from, got others in")
    assert not (tmp_path / "memory.sqlite").exists()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_a_run_is_remembered_with_its_own_inputs_alone(asked, do, tmp_path, kind):
    """Votes about one input say nothing about another, whatever file that comes in."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (4, 3, 8, 8)).astype(kind) / kind(1 if kind is np.uint8 else 255)
    np.savez(tmp_path / "data.npz", x=x.astype(kind), y=np.array([0, 1, 2, 3]), ids=np.array([5, 3, 8, 2]))
    do(replace(asked, data=str(tmp_path / "data.npz"), layout="channels-first"), tmp_path / "run")
    inputs = read_run(tmp_path / "run").inputs()
    own = {number: inputs(number) for number in (2, 3, 5, 8)}
    with Memory() as memory:
        for wrong in ({**own, 2: own[3]}, {2: own[2], 3: own[3]}, {**own, 5: own[5] + np.float32(2**-20)}):
            with pytest.raises(ArgumentError, match=r"expected all inputs that .* was made from"):
                add_to_memory(tmp_path / "run", memory, wrong)
        assert len(memory) == memory.submissions == 0
        assert add_to_memory(tmp_path / "run", memory, own | {77: own[2]}).total() == 4  # what is not the run's is left
    (tmp_path / "data.npz").rename(tmp_path / "elsewhere.npz")
    with Memory() as memory:
        assert add_to_memory(tmp_path / "run", memory, data=str(tmp_path / "elsewhere.npz"), force=True).total() == 4


def test_inputs_of_image_files_come_from_the_files(asked, do, tmp_path):
    do(asked, tmp_path / "run")
    examples = read_run(tmp_path / "run").examples()
    with Memory() as memory:
        with pytest.raises(ArgumentError, match="leave --inputs out"):
            add_to_memory(tmp_path / "run", memory, dict(zip(examples.ids.tolist(), examples.x, strict=True)))
        assert add_to_memory(tmp_path / "run", memory).total() == 4


def test_only_the_chosen_files_are_read(asked, tmp_path):
    """Others may change, or be no images at all."""
    examples = load_job(asked).examples
    last = tmp_path / "pets" / "dog" / "1.png"
    one = replace(asked, ids=str(examples.ids[examples.pixels.paths.index(last)]))
    before = load_job(one).configuration.data_hash
    change_a_pixel(tmp_path / "pets" / "cat" / "0.png")
    (tmp_path / "pets" / "dog" / "0.png").write_bytes(b"no image")
    assert load_job(one).configuration.data_hash == before
    change_a_pixel(last)
    assert load_job(one).configuration.data_hash != before
