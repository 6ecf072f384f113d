"""Whether compiling a network repays the time it takes, and the network compiled."""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from anisocert.engine.given import Classifier
from anisocert.engine.numerics import out_of_memory
from anisocert.errors import ModelError

log = logging.getLogger(__name__)

Evaluate = Callable[[Classifier, Tensor], Tensor]
"""Scores of a batch by a form of the network, in its numerics."""


def pays(evaluate: Evaluate, run: nn.Module, sample: Tensor, votes: int) -> bool:
    """Whether compiling is expected to save more than it takes, from the measured time of plain calls."""
    # of ResNet18s: on 2 cores; on an H200, where 100,000 votes took 0.045 s before and 0.018 s after
    expected_seconds, expected_saving = (20.0, 0.5) if sample.device.type == "cuda" else (40.0, 0.3)
    return seconds(evaluate, run, sample).whole * votes / len(sample) * expected_saving > expected_seconds


def compiled_if_works(
    network: nn.Module, try_out: Callable[[Classifier], object], options: dict[str, Any] | None = None
) -> Classifier:
    """The network compiled, or as it was where compiling it, or trying the result out, raises an error.

    Running out of memory says nothing about compiling, and is raised.
    """
    try:
        run: Classifier = torch.compile(network, dynamic=False, options=options)
        try_out(run)
    except Exception as reason:  # no compiler, an operator it cannot lower: as many kinds as there are back ends
        if out_of_memory(reason):
            raise
        message = str(reason).partition("\n")[0] or repr(reason)
        log.warning("torch.compile failed, continuing without it: %s", message)
        return network  # the same function
    return run


def compiled(
    evaluate: Evaluate, folded: nn.Module, sample: Tensor, right: Callable[[Classifier], bool], asked: bool
) -> tuple[Classifier, float]:
    """The network compiled, or as it was where that fails, or is slower and was not asked for; and the seconds spent.

    right: whether a form of the network gives the model's scores.
    """
    started = time.perf_counter()
    options: dict[str, Any] = {"freezing": True}  # weights become constants that it may lay out and cast once
    if sample.is_cuda:
        options["realize_reads_threshold"] = 2  # a sum of shortcuts is written once, not added up again by each reader

    def try_out(run: Classifier) -> None:
        if not right(run):
            raise ModelError("its scores differ from the model's")

    run = compiled_if_works(folded, try_out, options)
    spent = time.perf_counter() - started
    if not asked and run is not folded:
        faster, plain = (seconds(evaluate, form, sample).whole for form in (run, folded))
        log.info("compiled in %.1f s: %.4f s per call, not %.4f s", spent, faster, plain)
        run = run if faster < plain else folded
    return run, spent


class Spent(NamedTuple):
    """Seconds of a call: until the host has launched it, and until it has ended. On a CPU they are the same."""

    host: float
    whole: float


def seconds(evaluate: Evaluate, run: Classifier, sample: Tensor) -> Spent:
    """How long a call takes, each number the best of three."""
    timings, x = list[Spent](), sample.clone()  # which a network may change
    for _ in range(3):
        _wait(sample.device)
        started = time.perf_counter()
        evaluate(run, x)
        launched = time.perf_counter() - started
        _wait(sample.device)
        timings.append(Spent(launched, time.perf_counter() - started))
    return Spent(*map(min, zip(*timings, strict=True)))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":  # not for all its streams: others may be capturing
        torch.cuda.current_stream(device).synchronize()
