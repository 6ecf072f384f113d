"""Settings of torch while somebody is at work, and then again what they were.

Those of cuDNN are the process's, not a thread's: what the first of several at work finds, the last puts back.
`torch.backends.cudnn.flags` would set all the others too, of which TF32 and its like are the user's.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch


class _Setting:
    """One of them, which is true or false, and what those at work want it to be."""

    def __init__(self, name: str, wanted: bool) -> None:
        self._name, self._wanted, self._lock = name, wanted, threading.Lock()
        self._at_work, self._found = 0, False

    @contextmanager
    def kept(self) -> Iterator[None]:
        with self._lock:
            if self._at_work == 0:
                self._found = getattr(torch.backends.cudnn, self._name)
            self._set(self._wanted)
            self._at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
                if self._at_work == 0:
                    self._set(self._found)

    def _set(self, value: bool) -> None:
        getattr(torch._C, f"_set_cudnn_{self._name}")(value)  # torch.backends refuses where its flags are frozen


_DETERMINISTIC, _UNTIMED = _Setting("deterministic", True), _Setting("benchmark", False)


def repeatable() -> AbstractContextManager[None]:
    """Only those of cuDNN's kernels that give the same result each time, in a step and in its gradient alike."""
    return _DETERMINISTIC.kept()


def untimed() -> AbstractContextManager[None]:
    """cuDNN's kernels chosen by its rules, not by the clock, which may prefer others the next time."""
    return _UNTIMED.kept()


@contextmanager
def differentiating() -> Iterator[None]:
    """Where gradients are computed, whatever the caller has switched off around; tensors made here can have some."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
