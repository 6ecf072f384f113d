"""How all tests run; what they share is in `fixtures`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from scipy.stats import binom

from anisocert.engine._rows import first_rung

pytest_plugins = [f"fixtures.{name}" for name in ("classifiers", "regions", "memories", "stored_runs", "processes")]

# A deadline measures the machine, which others share, not the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

LONGEST = (
    "docs/test_tour.py", "experiments/test_tables.py", "test_certification.py", "work/test_workers.py",
    "train/test_recipes_on_digits.py", "cli/test_demo.py", "cli/test_certify.py", "work/test_surviving.py",
    "diagnosis/test_diagnosis.py", "cli/test_reproduce.py", "reproduce/test_running.py", "work/test_running.py",
    "cli/test_attack_first.py", "work/test_remembering.py", "train/test_denoising.py", "verify/test_verifying.py",
    "cli/test_denoise.py", "cli/test_serve.py", "test_system.py", "test_imports.py", "service/test_fire.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first, so that no process is left alone with one in the end."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture
def exact_products() -> Iterator[None]:
    """A user who has asked for convolutions without TF32; torch then refuses to be told of all of cuDNN at once."""
    conv = torch.backends.cudnn.conv
    before, conv.fp32_precision = conv.fp32_precision, "ieee"
    yield
    after, conv.fp32_precision = conv.fp32_precision, before
    assert after == "ieee"


@pytest.fixture
def within_rate() -> Callable[[int, int, float], bool]:
    """Whether so many failures in so many runs are compatible with a failure rate of at most `rate`."""
    return lambda failures, runs, rate: bool(failures <= binom.ppf(1 - 1e-4, runs, rate))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Thousands of tiny operations: a second thread would only wait for the first, for long on a busy machine.

    Processes that tests start are told so too, and sum in the same order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _no_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What attacks keep for this user is not the developer's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _few_rows() -> Iterator[None]:
    """Where nobody says how many rows a call has: few for images, as for the few votes here most would be padding."""

    def few(device: torch.device, shape: tuple[int, ...], per_row: Callable[[], int]) -> int:
        usual = first_rung(device, shape, per_row)
        return min(usual, 160) if len(shape) >= 3 else usual

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anisocert.engine.network.first_rung", few)
        yield


@pytest.fixture(scope="session", autouse=True)
def _short_measurements() -> Iterator[None]:
    """How fast a network is here, no test asks: it is measured in a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anisocert.work.forecast.PROBE_SECONDS", 0.01)
        yield
