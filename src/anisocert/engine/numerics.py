"""How the network computes: precision, compilation, rows per call, grid. Part of what is certified, so recorded."""

import ctypes
import os
import platform
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch

from anisocert.engine.grid import GRID, check_grid
from anisocert.errors import ArgumentError

ALIGN = 32
"""Rows per call are a multiple of this, and a vote's row is its number modulo this, so that a vote has the same place
in a kernel's tile wherever in a batch it is counted."""

Precision = Literal["float32", "bfloat16"]

VARIABLE = "ANISOCERT_PRECISION"
"""Sets the default precision whatever the hardware is good at, so that different kinds of machines agree."""


@dataclass(frozen=True)
class Numerics:
    """Choices about the arithmetic. None leaves one to the engine; `Network.numerics` shows what it chose.

    Args:
        precision: of the network (its noisy inputs are always float32). Votes in bfloat16 certify the bfloat16 network,
            so prediction must use the same. Default: that of ANISOCERT_PRECISION in the environment, else bfloat16
            where the device computes it natively.
        compile: run the network through torch.compile. Default: when the votes planned repay the time it takes.
        rows: votes per network call, one fixed, padded shape; a multiple of 32. Default: as many as pay and fit.
        grid: step of the grid that noisy inputs are rounded to, a power of two in the units of the input; rounding is
            part of the certified classifier, and lets noise be drawn from its exact distribution. Default: 2**-12. 0:
            no grid, and noise drawn and added in float32, which is not quite the distribution of the theory.
    """

    precision: Precision | None = None
    compile: bool | None = None
    rows: int | None = None
    grid: float | None = None

    def __post_init__(self) -> None:
        if self.precision not in (None, "float32", "bfloat16"):
            raise ArgumentError(f"expected precision 'float32' or 'bfloat16', got {self.precision!r}")
        if self.compile not in (None, True, False):
            raise ArgumentError(f"expected compile True, False or None, got {self.compile!r}")
        if self.rows is not None and (not isinstance(self.rows, int) or self.rows < 1 or self.rows % ALIGN):
            raise ArgumentError(f"expected rows a positive multiple of {ALIGN}, got {self.rows!r}")
        check_grid(self.step)
        if self.grid is not None:
            object.__setattr__(self, "grid", float(self.grid))  # 1 and 1.0 are one grid, with one hash

    @property
    def step(self) -> float:
        """Step of the grid, the default if none was chosen; 0 for no grid."""
        return GRID if self.grid is None else self.grid


def native_precision(device: torch.device) -> Precision:
    """What ANISOCERT_PRECISION says; else bfloat16 where the hardware multiplies it faster than float32."""
    named = os.environ.get(VARIABLE)
    if named in get_args(Precision):
        return cast(Precision, named)
    if named:
        raise ArgumentError(f"expected {VARIABLE} 'float32' or 'bfloat16', got {named!r}: correct or unset it")
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.get_device_capability(device) >= (8, 0) else "float32"
    if device.type == "cpu" and torch.cpu._is_avx512_bf16_supported():
        return "bfloat16"
    return "float32"


def computing(precision: Precision, device: torch.device) -> torch.autocast:
    """A network's products in a precision, whatever autocast is around.

    Autocast keeps weights that it has cast until its outermost context ends: the caller's would be used here, and ours
    there. So none are kept.
    """
    return torch.autocast(device.type, torch.bfloat16, precision == "bfloat16", cache_enabled=False)


def keep_large_blocks() -> None:
    """Stop glibc's malloc from returning large blocks to the system after each layer.

    Activations are allocated and freed on every call; mapping and clearing their pages anew was measured to take half
    of a ResNet18's time on a CPU. Affects the whole process, and only where glibc is the C library.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        mmap_threshold, trim_threshold = -3, -1
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def one_arena() -> None:
    """Let all threads that start from now on allocate from the arena that `keep_large_blocks` is about.

    glibc gives each thread one of its own, which returns large blocks all the same: certifying digits in a thread was
    measured to take a quarter more of a core's time than in the main one. Affects the whole process.
    """
    if platform.libc_ver()[0] == "glibc":
        arena_max = -8
        ctypes.CDLL(None).mallopt(arena_max, 1)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error from torch says that memory ran out."""
    words = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )
