"""Calls of a network replayed as one CUDA graph: a fast GPU is done with a kernel before the next one is launched."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from anisocert.engine._watching import Watch
from anisocert.engine.given import Classifier
from anisocert.engine.launching.capture import Room, Turn, Work, captured
from anisocert.engine.launching.compiling import Evaluate, seconds
from anisocert.engine.numerics import out_of_memory
from anisocert.engine.rewriting import Graph, Lowered, hooked
from anisocert.engine.trial import identical
from anisocert.errors import ModelError

log = logging.getLogger(__name__)

MASKS = (torch.bool, torch.uint8)
LAUNCHES = 0.1  # of a call's time: where they take less, not even a single call would gain, and a graph keeps memory


class Replayed:
    """Scores by the replay of a graph, for batches like those that it was captured with; else by the network.

    A graph reads its input at a fixed place in memory: there are two, each with a graph, of which one can be filled
    while a replay reads the other. Both leave their scores at one place, and share the memory between. So one caller at
    a time has them, whatever threads and streams calls come from; meanwhile others launch the network.
    """

    def __init__(self, launched: Classifier, places: Sequence[Tensor], replays: Sequence[Work], scores: Tensor) -> None:
        self.launched, self._places, self._replays, self._scores = launched, places, replays, scores
        self._turn = Turn(scores.device)

    def __call__(self, x: Tensor) -> Tensor:
        """x: `b x *shape` -> `b x num_classes`."""
        like = self._places[0]
        if (x.shape, x.dtype, x.device) == (like.shape, like.dtype, like.device):
            for place, replay in zip(self._places, self._replays, strict=True):
                if x.data_ptr() == place.data_ptr():  # lent to whoever calls
                    return self._scored(replay)
            with self.lent() as places:
                if places:
                    places[0].copy_(x)
                    return self._scored(self._replays[0])
        scores: Tensor = self.launched(x)
        return scores

    @contextmanager
    def lent(self) -> Iterator[Sequence[Tensor]]:
        """The places, for whoever fills them; none where another has them."""
        with self._turn.taken(wait=False) as mine:
            yield self._places if mine else ()

    def _scored(self, replay: Work) -> Tensor:
        replay()
        return self._scores.clone()


def replayed(evaluate: Evaluate, run: Classifier, form: nn.Module, sample: Tensor) -> Classifier:
    """A network as replays of its calls, or as it is where that saves nothing or is not certain to be the same.

    run: the network; form: what it was compiled from, or itself. sample: a batch of the shape of its calls.
    """
    if sample.device.type != "cuda" or not replayable(form):
        return run
    spent = seconds(evaluate, run, sample)
    log.info("a call takes %.2f ms, its launches %.2f", 1e3 * spent.whole, 1e3 * spent.host)
    if spent.host < LAUNCHES * spent.whole:  # replays are not timed: on a GPU that others use, that would be by chance
        return run
    return or_launched(partial(_captured, evaluate, run, form, sample), run)


def replayable(form: nn.Module) -> bool:
    """Whether a network has no state in Python, and does nothing there that a replay would leave out."""
    return isinstance(form, Graph | Lowered) and not any(map(hooked, form.modules()))


def or_launched(capture: Callable[[], Classifier | None], launched: Classifier) -> Classifier:
    """What a capture makes of a network; the network, which has been seen to fit, where that is nothing."""
    try:
        return capture() or launched
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        log.info("no memory for a CUDA graph of the network")
        return launched


def _captured(evaluate: Evaluate, run: Classifier, form: nn.Module, sample: Tensor) -> Replayed | None:
    """None unless replays give the scores of launches bit by bit, for other inputs than those of the capture."""
    other = sample.flip(0)
    plain, expected = (evaluate(run, batch.clone()) for batch in (sample, other))
    if identical(plain, expected):
        log.info("no CUDA graph of a network whose scores do not depend on its inputs: stale ones could not be told")
        return None
    try:
        with NoWaits():
            evaluate(form, sample[:2].clone())
    except Exception as reason:  # operators that no mode may look into, too: the network itself is known to run
        if out_of_memory(reason):
            raise
        log.info("no CUDA graph of the network: %s", reason)
        return None
    with torch.inference_mode(False):  # later calls may be outside of it
        places, scores = [sample.clone(), sample.clone()], plain.clone()
    with torch.cuda.device(sample.device):
        room = Room()
    replays = list[Work]()
    for x in places:
        replay = captured(partial(_score, evaluate, run, x, scores), [x, scores], False, room)
        if replay is None:
            return None
        replays.append(replay)
    candidate = Replayed(run, places, replays, scores)
    with candidate.lent():
        for at, batch, wanted in ((1, sample, plain), (0, other, expected), (0, sample, plain), (1, other, expected)):
            places[at].copy_(batch)
            if not identical(wanted, evaluate(candidate, places[at])):
                log.warning("the network is not replayed as a CUDA graph: its scores differ")
                return None
    return candidate


def _score(evaluate: Evaluate, run: Classifier, x: Tensor, scores: Tensor) -> None:
    scores.copy_(evaluate(run, x))


class NoWaits(Watch):
    """An error for operators, of this thread, whose result the host waits for: no capture survives them."""

    NAMES = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique", "equal", "is_nonzero")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().removeprefix("aten::").partition(".")[0] if isinstance(func, torch._ops.OpOverload) else ""
        masked = name.startswith("index") and any(index.dtype in MASKS for index in _tensors(args[1:2]))
        moved = {tensor.device.type for tensor in _tensors((args, kwargs, out))} > {"cpu"} and "copy" in name
        if moved or masked or name.startswith(self.NAMES):
            raise ModelError(f"expected operators that do not wait for the device, got {name}")
        return out


def _tensors(values: Any) -> Iterable[Tensor]:
    return (value for value in tree_leaves(values) if isinstance(value, Tensor))
