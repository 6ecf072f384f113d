"""How many rows a call of a network has."""

import logging
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from anisocert.engine._watching import Watch
from anisocert.engine.numerics import out_of_memory
from anisocert.engine.settings import differentiating

log = logging.getLogger(__name__)

# Multiples of 32. On a CPU they divide the usual 100,000 votes; on others, of 10,000 votes, few rows are padding.
CPU_ROWS = (20_000, 4_000, 800, 160, 32)
DEVICE_ROWS = (10_016, 5_024, 2_016, 1_120, 480, 160, 32)
CACHE_BYTES = 2_600_000
INDEX = 2**31
# Maps that a step with gradients may keep: bytes on others than GPUs; of a GPU's memory; and bytes that are
# enough for a GPU: of more inputs at a time, each would only wait for the others.
HOST_KEPT, KEPT, ENOUGH = 2 * 10**9, 0.4, 10**9


def rungs(device: torch.device) -> tuple[int, ...]:
    """Rows to try, from the most on."""
    return CPU_ROWS if device.type == "cpu" else DEVICE_ROWS


def first_rung(device: torch.device, shape: tuple[int, ...], per_row: Callable[[], int]) -> int:
    """The rows to try first: on a CPU as many as nearly fit its caches, else all of whose maps 32 bits can index.

    Above that GPUs take other kernels, which are several times slower; far below they idle: on an H200 480 rows take
    1.2 to 1.8 times as long as their share of 10,016, though their maps would stay in its cache.

    per_row: numbers of the largest map that the network makes of one row.
    """
    if device.type == "cpu":
        fitting = (rows for rows in CPU_ROWS if 4 * rows * math.prod(shape) <= CACHE_BYTES)
        return next(fitting, CPU_ROWS[-1])
    largest = max(math.prod(shape), per_row())
    log.info("the largest map of one input has %d numbers", largest)
    return next((rows for rows in DEVICE_ROWS if rows * largest < INDEX), DEVICE_ROWS[-1])


def gradient_rows(device: torch.device, rows: int, copies: int, per_row: Callable[[], int]) -> int:
    """How many rows a step with gradients has, in a network whose calls have `rows`.

    copies: of one input, which go together if they fit: else they are evaluated twice. per_row: bytes that a row
    keeps for the backward pass.
    """
    row_bytes = max(1, per_row())
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory  # not what is free: that differs each time
        most, pays = min(rows, int(KEPT * memory) // row_bytes), ENOUGH // row_bytes
    else:
        most, pays = HOST_KEPT // row_bytes, rows // 2
    return max(1, min(most, max(copies, pays)))


def kept_bytes(call: Callable[[Tensor], Tensor], sample: Tensor) -> int:
    """Bytes that one more row keeps for the backward pass; 0 if there is none. sample: an even number of rows."""
    half = len(sample) // 2
    try:
        return max(0, _kept(call, sample) - _kept(call, sample[:half])) // half  # weights are in both
    except Exception as error:  # whatever it is, others will find it where it matters
        if out_of_memory(error):
            raise
        return 0


def _kept(call: Callable[[Tensor], Tensor], sample: Tensor) -> int:
    sizes = dict[int, int]()

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with differentiating(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        scores = call(sample.detach().clone().requires_grad_(True).clone())  # which a network may change
    del scores  # until now no two of them had one address
    return sum(sizes.values())


def largest_map(call: Callable[[Tensor], Any], sample: Tensor) -> int:
    """Numbers, per row, of the largest tensor that is made in a call; 0 if it cannot be watched."""
    watch = _Largest()
    try:
        with watch:
            call(sample)
    except Exception as error:  # operators that no mode may look into; whether the network runs, others find out
        if out_of_memory(error):
            raise
        return 0
    return -(-watch.numbers // len(sample))


class _Largest(Watch):
    """Looks at every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out
