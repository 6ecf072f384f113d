"""A small network with answers of several classes and abstentions, and quick runs of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.models import build, save
from anisocert.runs import Circumstances, Configuration, Outcome, certify_run, load_job, read_run
from anisocert.runs.workers import InProcess


@pytest.fixture(scope="session")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = build("small-cnn", 10, (0.3,), (0.4,)).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(2)
    path = tmp_path_factory.mktemp("network") / "tiny.safetensors"
    save(model, path, {"architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,)})
    return path


@pytest.fixture(scope="session")
def quick(network_file: Path) -> Configuration:
    """Forty digits with two hundred votes."""
    return Configuration(
        str(network_file), "digits", 0.25, method="fixed", n=200, max=40, device="cpu",
        numerics=Numerics("float32", False, 160),
    )  # fmt: skip


@pytest.fixture(scope="session")
def do() -> Callable[..., Outcome]:
    """Do a run in this process."""

    def run(configuration: Configuration, folder: Path, **circumstances: object) -> Outcome:
        job = load_job(configuration)
        return certify_run(job, folder, lambda: InProcess(job, "cpu"), Circumstances(**circumstances))

    return run


@pytest.fixture(scope="session")
def same() -> Callable[[Path, Path], bool]:
    """Whether two finished runs agree in everything but the time they took."""

    def agree(one: Path, other: Path) -> bool:
        a, b = read_run(one), read_run(other)
        thetas = [{number: theta.tobytes() for number, theta in run.thetas.items()} for run in (a, b)]
        return bool(thetas[0] == thetas[1] and a.table.drop_columns("seconds").equals(b.table.drop_columns("seconds")))

    return agree


@pytest.fixture(scope="session")
def whole(quick: Configuration, do: Callable[..., Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quick run, never interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert do(quick, folder).finished
    return folder


@pytest.fixture(scope="session")
def remembering(quick: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Configuration]:
    """A run through a memory in a given folder, in which answers depend on what was promised before.

    The inputs lie close together on a line from one class to another, and so large an alpha makes certificates that
    contradict each other.
    """
    a, b = digits("test").subset(ids=[0, 35]).x
    t = np.random.default_rng(22).permutation(np.linspace(0.7, 1.02, 12))[:, None, None, None]
    path = tmp_path_factory.mktemp("line") / "line.npz"
    np.savez(path, x=((1 - t) * a + t * b).astype(np.float32), y=np.full(12, 3))
    asked = replace(quick, data=str(path), sigma=0.5, n0=10, n=40, alpha=0.45, max=None)
    return lambda folder: replace(asked, memory=str(folder / "memory.sqlite"))
