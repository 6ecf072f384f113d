"""Settings of cuDNN, which a process has once: only those that are asked for change, and only for a while."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch

from anisocert.engine.settings import repeatable, untimed

NAMES = ("enabled", "benchmark", "deterministic", "allow_tf32")


def _settings() -> dict[str, bool]:
    return {name: getattr(torch.backends.cudnn, name) for name in NAMES}


@pytest.fixture(params=[False, True])
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """What a user has set, all of it."""
    for name in NAMES:
        monkeypatch.setattr(torch.backends.cudnn, name, request.param)
    return _settings()


@pytest.mark.parametrize(("asked", "set_to"), [(repeatable, {"deterministic": True}), (untimed, {"benchmark": False})])
def test_one_setting_changes_and_the_others_are_the_users(
    own: dict[str, bool], asked: Callable[[], AbstractContextManager[None]], set_to: dict[str, bool]
) -> None:
    with asked():
        assert _settings() == own | set_to
    assert _settings() == own


def test_whoever_goes_first_leaves_it_on_for_the_others(own: dict[str, bool]) -> None:
    came, go = threading.Event(), threading.Event()

    def stay(work: AbstractContextManager[None]) -> None:
        with work:
            came.set()
            go.wait(10)

    other = threading.Thread(target=stay, args=(repeatable(),))
    with repeatable():
        other.start()
        assert came.wait(10)
    assert _settings() == own | {"deterministic": True}
    go.set()
    other.join()
    assert _settings() == own


def test_what_raises_leaves_nothing_behind(own: dict[str, bool]) -> None:
    with pytest.raises(KeyError), repeatable(), repeatable():
        raise KeyError
    assert _settings() == own


def test_where_torch_has_frozen_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by torch.backends.disable_global_flags, which cannot be taken back."""
    monkeypatch.setattr(torch.backends, "__allow_nonbracketed_mutation_flag", False)
    before = _settings()
    with repeatable():
        assert torch.backends.cudnn.deterministic
    assert _settings() == before
