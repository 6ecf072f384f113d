import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.training import toy
from torch import nn

from anisocert.data import Dataset
from anisocert.durable import BusyError
from anisocert.errors import AnisocertError, ArgumentError, ModelError
from anisocert.models import build, load
from anisocert.smoothing import Gaussian, GaussianMixture, Uniform
from anisocert.train import MACER, RECIPES, Cohen, Recipe, Sgd, SmoothAdv, noisy_accuracy, train
from anisocert.train._augment import Batches

pytestmark = pytest.mark.precision

FAST = {
    "cohen": RECIPES["cohen"](), "stability": RECIPES["stability"](), "smoothadv": SmoothAdv(steps=2, warmup=2),
    "macer": MACER(copies=2, start=0.3),
}  # fmt: skip


def trained(
    folder: Path | None, recipe: Recipe, epochs: int = 4, **options: Any
) -> tuple[nn.Module, list[dict[str, Any]]]:
    torch.manual_seed(1)
    model = build("small-cnn", 2, (0.4,), (0.3,))
    sgd = Sgd(epochs, batch_size=32, learning_rate=0.02)
    options = {"sgd": sgd, "test": toy(60, seed=1), "folder": folder, "seed": 5, **options}
    return model, train(model, toy(), recipe, Gaussian(0.2), **options)


def weights(folder: Path) -> list[bytes]:
    """The networks of a training, byte by byte."""
    return [(folder / f"{name}.safetensors").read_bytes() for name in ("best", "last")]


class Killed(Exception):
    pass


def kill_after(epoch: int) -> Any:
    def on_epoch(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            raise Killed

    return on_epoch


@pytest.fixture
def every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is written after each, however short it is."""
    monkeypatch.setattr("anisocert.train._folder.EVERY", 0.0)


@pytest.mark.parametrize("name", FAST)
def test_resume_equals_uninterrupted(name: str, tmp_path: Path, every_epoch: None) -> None:
    """Bit by bit, killed after every epoch in turn; global random state is whatever it happens to be."""
    whole, records = trained(tmp_path / "whole", FAST[name])
    for epoch in (1, 2, 3):
        with pytest.raises(Killed):
            trained(tmp_path / "parts", FAST[name], on_epoch=kill_after(epoch))
        assert written(tmp_path / "parts") == epoch
        torch.rand(epoch)
    resumed, again = trained(tmp_path / "parts", FAST[name])
    assert all(
        torch.equal(a, b) for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True)
    )
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    same = ("epoch", "loss", "test_accuracy", "learning_rate")
    assert [[one[key] for key in same] for one in records] == [[one[key] for key in same] for one in again]
    lines = [json.loads(line) for line in (tmp_path / "parts" / "log.jsonl").read_text().splitlines()]
    assert [line.get("epoch") for line in lines] == [None, 1, 2, 3, 4]


def test_a_mixture_is_resumed_under_its_former_name(tmp_path: Path) -> None:
    model, mixture = build("small-cnn", 2, (0.4,), (0.3,)), GaussianMixture([0.5, 0.5], [0.1, 0.2])
    again = {"sgd": Sgd(1, batch_size=32), "folder": tmp_path}
    records = train(model, toy(), Cohen(), mixture, **again)
    assert load(tmp_path / "last.safetensors")[1]["noise"] == "gaussian-mixture"
    state = torch.load(tmp_path / "resume.state")
    state["config"]["noise"] = "gaussianmixture"
    torch.save(state, tmp_path / "resume.state")
    assert train(model, toy(), Cohen(), mixture, **again) == records


@pytest.mark.parametrize(
    "changes",
    [
        {"best": {"a": torch.zeros(1).expand(500_000_000)}},
        {"best": {"zz": torch.zeros(2)}},
        {"best": 7},
        {"best": "own", "records": []},
        {"records": "abc"},
        {"records": {"epoch": 1}},
        {"records": [{"epoch": 1}]},
        {"records": [{"epoch": 1, "test_accuracy": "high"}]},
        {"best": None, "records": [{"epoch": 1, "test_accuracy": None}, {"epoch": 2, "test_accuracy": 0.5}]},
    ],
)  # fmt: skip
def test_a_state_that_no_training_wrote_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    trained(tmp_path, Cohen(), epochs=1)
    state = torch.load(tmp_path / "resume.state")
    changes = changes | ({"best": state["model"]} if changes.get("best") == "own" else {})
    torch.save(state | changes, tmp_path / "resume.state")
    before = (tmp_path / "best.safetensors").read_bytes()
    with pytest.raises(ModelError, match=r"expected the state of this training at .*resume\.state, got another"):
        trained(tmp_path, Cohen(), epochs=1)
    assert (tmp_path / "best.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("state", 0, "momentum_buffer"), lambda kept: torch.zeros(1, dtype=torch.int8).expand(10**9)),
        (("state", 0, "momentum_buffer"), lambda kept: torch.zeros(1).expand_as(kept)),
        (("state", 0, "momentum_buffer"), lambda kept: kept.double()),
        (("state", 0, "momentum_buffer"), lambda kept: kept.flatten()),
        (("state", 0, "momentum_buffer"), lambda kept: kept.to_sparse()),
        (("state", 0, "momentum_buffer"), lambda kept: 7),
        (("state", 0), lambda kept: kept | {"more": torch.zeros(1).expand(10**9)}),
        (("state",), lambda kept: kept | {10**6: kept[0]}),
        (("state",), lambda kept: [kept[0]]),
        (("param_groups", 0, "lr"), torch.tensor),
        (("param_groups", 0, "momentum"), torch.tensor),
        (("param_groups", 0, "momentum"), lambda kept: "much"),
        (("param_groups", 0), lambda kept: kept | {"more": 1}),
        (("param_groups",), lambda kept: 7),
    ],
)  # fmt: skip
def test_an_optimizer_that_no_training_wrote_is_refused(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    trained(tmp_path, Cohen(), epochs=2, test=None)
    state = torch.load(tmp_path / "resume.state")
    inner = state["optimizer"]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value(inner[place[-1]])
    state["records"] = state["records"][:1]  # there is an epoch left to do
    torch.save(state, tmp_path / "resume.state")
    with pytest.raises(ModelError, match=r"resume\.state, got another: choose another folder, or remove that file"):
        trained(tmp_path, Cohen(), epochs=2, test=None)


def written(folder: Path) -> int:
    """Epochs that a training would not do again."""
    return len(torch.load(folder / "resume.state")["records"])


def test_the_state_is_written_when_it_is_some_seconds_old_and_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best epoch may then lie before the one that is written; work since then is done again, to the same result."""
    whole, parts, seen = tmp_path / "whole", tmp_path / "parts", []
    sgd, write_after = Sgd(6, 32, 0.1), partial(monkeypatch.setattr, "anisocert.train._folder.EVERY")
    write_after(math.inf)
    monkeypatch.setattr("anisocert.train._folder.WRITING", 1e-9)

    def in_folder(folder: Path, last: int = 0) -> Any:
        def on_epoch(record: dict[str, Any]) -> None:
            write_after(0.0 if record["epoch"] == 4 else math.inf)  # the fifth is written
            seen.append(written(folder))
            if record["epoch"] == last:
                raise Killed

        return on_epoch

    _, records = trained(whole, Cohen(), sgd=sgd, on_epoch=in_folder(whole))
    assert seen == [0, 0, 0, 0, 5, 5]
    assert written(whole) == 6
    scores = [record["test_accuracy"] for record in records]
    assert scores.index(max(scores)) < 4
    for last, reached in ((3, 0), (5, 5)):
        with pytest.raises(Killed):
            trained(parts, Cohen(), sgd=sgd, on_epoch=in_folder(parts, last))
        assert written(parts) == reached
        assert (parts / "best.safetensors").exists() == (reached > 0)
    (parts / "best.safetensors").unlink()  # as if killed right after the state: it has these weights too
    trained(parts, Cohen(), sgd=sgd)
    assert weights(whole) == weights(parts)
    assert len((parts / "log.jsonl").read_text().splitlines()) == 7


def test_killed_at_every_write(tmp_path: Path, killed_at_every_write: Callable[..., int], every_epoch: None) -> None:
    trained(tmp_path / "whole", Cohen(), epochs=2)

    def run(folder: Path) -> None:
        torch.rand(3)
        trained(folder, Cohen(), epochs=2)

    def check(folder: Path) -> None:
        assert weights(tmp_path / "whole") == weights(folder), folder
        assert len((folder / "log.jsonl").read_text().splitlines()) == 3

    assert killed_at_every_write(run, check) >= 12


def test_a_second_training_in_a_folder_at_work_is_refused(tmp_path: Path) -> None:
    """Neither takes part of the other's files: the first ends as if it had been alone."""
    trained(tmp_path / "alone", Cohen())

    def second(record: dict[str, Any]) -> None:
        with pytest.raises(BusyError, match=r"expected .*shared to be idle, got a training at work in it"):
            trained(tmp_path / "shared", Cohen())
        with pytest.raises(BusyError, match="idle"):
            trained(tmp_path / "shared", Cohen(), seed=6, force=True)

    trained(tmp_path / "shared", Cohen(), on_epoch=second)
    assert weights(tmp_path / "alone") == weights(tmp_path / "shared")


def test_files_that_are_not_ours_stay_without_force(tmp_path: Path) -> None:
    trained(tmp_path / "other", FAST["stability"], epochs=1)
    for name, content in (
        ("best.safetensors", (tmp_path / "other" / "best.safetensors").read_bytes()),
        ("weights.safetensors", b"mine"),
        ("log.jsonl", b"my own notes"),
        ("resume.state", b"of something else"),
    ):
        folder = tmp_path / f"with {name}"
        folder.mkdir()
        (folder / name).write_bytes(content)
        with pytest.raises(AnisocertError, match=name):
            trained(folder, Cohen(), epochs=1)
        assert (folder / name).read_bytes() == content
        assert {path.name for path in folder.iterdir()} == {name, "training.lock"}
        trained(folder, Cohen(), epochs=1, force=True)
        assert load(folder / "last.safetensors")[1]["recipe"]["name"] == "cohen"
        assert load(folder / "best.safetensors")[1]["recipe"]["name"] == "cohen"


def test_a_training_that_reached_nothing_does_not_stand_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="lower the learning rate"):
        trained(tmp_path, Cohen(), sgd=Sgd(3, 32, 1e20))
    assert len(trained(tmp_path, Cohen())[1]) == 4


def test_a_finished_training_is_left_alone(tmp_path: Path) -> None:
    first, records = trained(tmp_path, Cohen())
    told: list[Any] = []
    second, again = trained(tmp_path, Cohen(), on_epoch=told.append, force=True)
    assert told == []
    assert again == records
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


def test_another_training_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, Cohen())
    with pytest.raises(ArgumentError, match=r"got one that differs: \{'seed': 5\}, here \{'seed': 6\}"):
        trained(tmp_path, Cohen(), seed=6)
    with pytest.raises(ArgumentError, match="'recipe'"):
        trained(tmp_path, FAST["stability"])
    (tmp_path / "resume.state").write_bytes((tmp_path / "resume.state").read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"expected .* at .*resume.state"):
        trained(tmp_path, Cohen())
    (tmp_path / "resume.state").unlink()
    with pytest.raises(ArgumentError, match=r"without networks to begin a training in, got .*: choose another"):
        trained(tmp_path, Cohen())


def test_what_is_left_behind(tmp_path: Path) -> None:
    """Every safetensors file is a network that loads and reaches the accuracy its metadata says."""
    model, records = trained(tmp_path, Cohen(), sgd=Sgd(25, batch_size=32, learning_rate=0.1))
    assert {path.name for path in tmp_path.iterdir()} == {
        "best.safetensors", "last.safetensors", "log.jsonl", "resume.state", "training.lock",
    }  # fmt: skip
    assert not any(module.training for module in model.modules())
    for path in tmp_path.glob("*.safetensors"):
        loaded, metadata = load(path, num_classes=2)
        for key in ("architecture", "num_classes", "mean", "std", "noise", "norm", "sigma", "numerics", "recipe"):
            assert key in metadata, key
        assert (metadata["sigma"], metadata["noise"], metadata["norm"]) == (0.2, "gaussian", "l2")
        accuracy = noisy_accuracy(loaded, toy(60, seed=1), Gaussian(0.2), seed=5)
        assert accuracy == metadata["test_accuracy"]
        expected = max(r["test_accuracy"] for r in records) if path.stem == "best" else records[-1]["test_accuracy"]
        assert accuracy == expected
    assert records[-1]["loss"] < records[0]["loss"]
    assert records[-1]["test_accuracy"] > 0.9


def test_uniform_noise_and_no_test_examples(tmp_path: Path) -> None:
    model = build("small-cnn", 2, (0.4,), (0.3,))
    records = train(model, toy(), FAST["stability"], Uniform(0.3), sgd=Sgd(2, 32, 0.02), folder=tmp_path)
    assert records[-1]["test_accuracy"] is None
    best, last = (load(tmp_path / f"{name}.safetensors")[1] for name in ("best", "last"))
    assert best["epoch"] == last["epoch"] == 2
    assert (best["noise"], best["norm"], best["sigma"]) == ("uniform", "l1", 0.3)


def test_the_callers_random_state_is_not_touched() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    model = build("small-cnn", 2, (0.4,), (0.3,))
    torch.manual_seed(0)
    train(model, toy(), Cohen(), Gaussian(0.2), sgd=Sgd(1, 32, 0.02))
    assert torch.equal(torch.rand(3), expected)


def test_the_callers_exact_products_stay_exact(exact_products: None) -> None:
    during = []
    trained(None, Cohen(), epochs=1, on_epoch=lambda _: during.append(torch.backends.cudnn.conv.fp32_precision))
    assert during == ["ieee"]


def test_errors(tmp_path: Path) -> None:
    model = build("small-cnn", 2, (0.4,), (0.3,))
    with pytest.raises(ModelError, match=r"expected a finite loss, got .* lower the learning rate"):
        train(model, toy(), Cohen(), Gaussian(0.2), sgd=Sgd(3, 32, 1e20))
    with pytest.raises(ArgumentError, match="expected normal noise with recipe macer, got Uniform"):
        train(model, toy(), MACER(), Uniform(0.2))
    with pytest.raises(ArgumentError, match=r"made by anisocert.models.build .* got Linear"):
        train(nn.Linear(3, 2), toy(), Cohen(), Gaussian(0.2), folder=tmp_path)


def test_labels_and_inputs_that_the_network_does_not_know(tmp_path: Path) -> None:
    model = build("small-cnn", 2, (0.4,), (0.3,))
    more = replace(toy(), y=np.arange(150) % 3, num_classes=3, name="more")
    for data, test in ((more, None), (toy(), more)):
        with pytest.raises(ArgumentError, match=r"expected labels below 2, the network's .* in more, got 2"):
            train(model, data, Cohen(), Gaussian(0.2), test=test, folder=tmp_path)
    unlabelled = replace(toy(), y=np.full(150, -1))
    with pytest.raises(ArgumentError, match="expected labels in test, toy, to measure accuracy by, got none: leave"):
        train(model, toy(), Cohen(), Gaussian(0.2), test=unlabelled, folder=tmp_path)
    points = Dataset("points", np.zeros((4, 3), np.float32), np.arange(4) % 2, np.arange(4), 2, (0.0,), (1.0,))
    with pytest.raises(ModelError, match=r"expected a network that takes inputs of shape \(3,\), got: "):
        train(model, points, Cohen(), Gaussian(0.2), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_users_own_network_of_any_rank() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 3)).astype(np.float32)
    data = Dataset("points", x, (x[:, 0] > 0).astype(np.int64), np.arange(80), 2, (0.0,), (1.0,))
    model = nn.Linear(3, 2)
    records = train(model, data, Cohen(), Gaussian(0.1), sgd=Sgd(10, 16, 0.5), test=data)
    assert records[-1]["test_accuracy"] > 0.9
    with pytest.raises(ArgumentError, match="crop and flip for images alone"):
        train(model, data, Cohen(), Gaussian(0.1), crop=2)


def test_augmentation_is_the_padded_crop_and_mirror() -> None:
    """Every batch image is one of the 9 windows of its zero-padded original, mirrored or not, and all occur."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(1, 256, (3, 2, 5, 4)).astype(np.uint8)
    data = Dataset("toy", pixels, np.arange(3), np.arange(3), 3, (0.5, 0.5), (1.0, 1.0))
    batches = Batches(data, batch_size=3, crop=1, flip=True, device=torch.device("cpu"))
    padded = np.pad(pixels, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = set()
    torch.manual_seed(0)
    for _ in range(150):
        for x, y in batches.epoch():
            assert x.is_contiguous(memory_format=torch.channels_last)
            for image, label in zip(x, y, strict=True):
                found = [
                    (int(label), top, left, mirrored)
                    for top in range(3)
                    for left in range(3)
                    for mirrored in (False, True)
                    for window in [padded[label, :, top : top + 5, left : left + 4]]
                    if np.array_equal(np.flip(window, 2) if mirrored else window, (image * 255).round().byte().numpy())
                ]
                assert len(found) == 1
                seen.add(found[0])
    assert len(seen) == 3 * 9 * 2


def test_an_epoch_sees_every_example_once() -> None:
    data = toy(100)
    batches = Batches(data, 20, 0, False, torch.device("cpu"))
    seen = torch.cat([x for x, _ in batches.epoch()])
    assert sorted(seen.flatten(1).sum(1).tolist()) == pytest.approx(sorted(data.x.reshape(100, -1).sum(1).tolist()))


def test_schedules() -> None:
    steps = 300
    rates = {
        name: [Sgd(schedule=name).rate(i, steps) for i in range(steps)] for name in ("one-cycle", "cosine", "step")
    }
    reference = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(reference, 0.1, steps, cycle_momentum=False)
    torch_rates = []
    for _ in range(steps):
        torch_rates.append(schedule.get_last_lr()[0])
        reference.step()
        schedule.step()
    assert rates["one-cycle"] == pytest.approx(torch_rates, abs=1.5e-3)  # torch counts intervals, not steps
    assert rates["cosine"][0] == 0.1
    assert rates["cosine"][150] == pytest.approx(0.05)
    assert rates["cosine"] == sorted(rates["cosine"], reverse=True)
    assert [rates["step"][i] for i in (0, 99, 100, 199, 200, 299)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    )


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": math.nan}, {"schedule": "flat"}, {"clip": 0.0}]
)
def test_wrong_sgd(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="expected"):
        Sgd(**wrong)
