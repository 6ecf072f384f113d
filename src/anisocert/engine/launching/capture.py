"""Work on a GPU captured once and replayed as one launch, for kernels that are shorter than their launches."""

import logging
import pickle
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import numpy as np
import torch
from torch import Tensor

from anisocert.errors import ModelError

log = logging.getLogger(__name__)

Work = Callable[[], object]

_TURN = threading.Lock()


class Room:
    """Memory of graphs of which only one is replayed at a time: they share it if they are captured on one stream."""

    def __init__(self) -> None:
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()


class Turn:
    """Graphs are one caller's at a time, whatever threads and streams calls come from."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._free = device, threading.Lock()
        self._ended = torch.cuda.Event() if device.type == "cuda" else None

    @contextmanager
    def taken(self, wait: bool) -> Iterator[bool]:
        """Whether the caller has them, from when the work of the last one has ended on the device."""
        if not self._free.acquire(blocking=wait):
            yield False
            return
        try:
            if self._ended is None:
                yield True
                return
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._ended)
            try:
                with torch.cuda.device(self._device):
                    yield True
            finally:
                self._ended.record(stream)
        finally:
            self._free.release()


def captured(work: Work, state: Sequence[Tensor], alone: bool = True, room: Room | None = None) -> Work | None:
    """`work` as the replay of a CUDA graph; None, and a line in the log, if it cannot be captured.

    work: reads and writes tensors that stay where they are in memory, and draws from torch's global generator of their
    device. state: all tensors that it changes; they and the random state are left as they were. alone: no other thread
    uses the device meanwhile; where one may, work must neither draw nor wait for the device. room: of graphs that
    share their memory; default: one of its own.
    """
    replays = captured_parts([work], state, alone, room)
    return None if replays is None else replays[0]


def captured_parts(
    parts: Sequence[Work], state: Sequence[Tensor], alone: bool = True, room: Room | None = None
) -> list[Work] | None:
    """As `captured`, of work in parts, each of which may use what those before it left; a replay of each."""
    device = state[0].device
    with _TURN, torch.cuda.device(device):
        try:
            with undone(state, alone):
                return _replays(parts, _no_waits() if alone else nullcontext(), room or Room())
        except Exception as error:  # a wait for the device, too little memory, ...: as many kinds as operators
            reason = str(error).partition("\n")[0] or repr(error)
        log.warning("no CUDA graph, so that it takes longer: %s", reason)
        with suppress(RuntimeError):  # no memory for that either
            _end_captures()
    return None


@contextmanager
def undone(state: Sequence[Tensor], draws: bool = True) -> Iterator[None]:
    """Afterwards these tensors, without moving in memory, and torch's random state are as they were before.

    draws: False leaves the random state alone, from which other threads may draw.
    """
    kept = [tensor.detach().clone() for tensor in state]
    with torch.random.fork_rng([tensor.device for tensor in state[:1] if tensor.is_cuda], enabled=draws):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in zip(state, kept, strict=True):
                    tensor.copy_(value)


def _replays(parts: Sequence[Work], checked: AbstractContextManager[None], room: Room) -> list[Work]:
    """Do the work twice, the second time in a context, and capture it.

    An error if a replay would not be the same as the work.
    """
    graphs, side = [torch.cuda.CUDAGraph() for _ in parts], room.stream
    side.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(side):  # around the capture too: one that fails does not leave its stream
            for part in parts:
                part()  # compiles, allocates workspaces, and lets cuDNN choose its kernels
            before = _host_random()
            with checked:
                for part in parts:
                    part()
            if _host_random() != before:
                raise ModelError(
                    "expected no random numbers from the host in a graph, got some: replays would repeat them"
                )
            torch._C._cuda_clearCublasWorkspaces()  # or others could free what replays would then write to
            for graph, part in zip(graphs, parts, strict=True):
                with torch.cuda.graph(graph, room.pool, side, capture_error_mode="thread_local"):
                    part()
    finally:
        torch._C._cuda_clearCublasWorkspaces()  # which is the graph's own
        torch.cuda.current_stream().wait_stream(side)  # before the work is undone
    return [graph.replay for graph in graphs]


def _host_random() -> bytes:
    """The state of the generators whose numbers a graph would hold for ever."""
    legacy = np.random.get_state()  # noqa: NPY002  # whose numbers other people's networks may draw
    return pickle.dumps((torch.get_rng_state().numpy(), random.getstate(), legacy))


@contextmanager
def _no_waits() -> Iterator[None]:
    """An error where any thread waits for the device; a capture would fail as well, but not as cleanly."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode does not find all of them
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _end_captures() -> None:
    """After a failed capture some versions of torch draw no numbers until another one has ended."""
    side = torch.cuda.Stream()
    graph = torch.cuda.graph(torch.cuda.CUDAGraph(), stream=side, capture_error_mode="thread_local")
    with torch.cuda.stream(side), graph:
        torch.zeros((), device="cuda")
