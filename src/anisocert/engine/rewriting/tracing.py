"""A network as a graph, which is the network on every input and not on the tried ones alone.

torch.fx runs `forward` on stand-ins for tensors. Code can tell these from tensors (`isinstance(x, Tensor)`, an
exception of theirs that it catches) and do something else, perhaps on rare inputs alone, where no trial finds it. But
whatever a network computes of its input, the values that it decides by included, it computes by operators: so the graph
must have all of those that the network has, given the same things; and none whose results Python might look at.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from anisocert.engine.rewriting._operations import Operation, operations
from anisocert.engine.rewriting._state import state
from anisocert.engine.rewriting._writing import expect_writes_alike
from anisocert.errors import ModelError

_ONE = threading.Lock()  # who traces: torch.fx replaces what all modules have in common
PATIENCE = 20.0  # seconds


class Graph(fx.GraphModule):
    """A network that was traced here: a graph that a user brings may be what tracing refuses."""


class Tracer(fx.Tracer):
    """One that leaves alone what other threads call meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """See torch.fx."""
        return super().call_module(m, forward, args, kwargs) if self._mine() else forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """See torch.fx."""
        return super().getattr(attr, attr_val, parameter_proxy_cache) if self._mine() else attr_val

    def _mine(self) -> bool:
        return threading.get_ident() == self._thread


def traced(model: nn.Module, sample: Tensor, tracer: Tracer | None = None) -> Graph:
    """The graph of a model; an error where it would not be the model. sample: `b x *shape`, which stays as it is.

    tracer: one that tells the model more of its input than torch.fx does.
    """
    samples = [sample] if tracer is None else [sample, torch.cat([sample, sample[:1]])]
    expected = [operations(model, batch) for batch in samples]
    before = state(model)  # after a first call, in which some networks keep what they need in every call
    with _turn():
        graph = (tracer or Tracer()).trace(model)
    network = Graph(model, graph)
    if state(model) != before:
        raise ModelError("its forward changes it, which a graph would not")
    expect_writes_alike(network, sample)
    if not all(_same(wanted, operations(network, sample)) for wanted, sample in zip(expected, samples, strict=True)):
        raise ModelError("its forward does other things with what traces it than with tensors")
    return network


@contextmanager
def _turn() -> Iterator[None]:
    """One thread's at a time; not for ever, as who traces may wait for another that wants to."""
    if not _ONE.acquire(timeout=PATIENCE):
        raise ModelError("another network is being traced")
    try:
        yield
    finally:
        _ONE.release()


def _same(ones: list[Operation], others: list[Operation]) -> bool:
    return len(ones) == len(others) and all(one.same(other) for one, other in zip(ones, others, strict=True))
