"""The forms in which a network can run: rewritten, in another layout, in bfloat16; and which of them is right."""

import logging
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from anisocert.engine.numerics import Precision, out_of_memory
from anisocert.engine.rewriting.folding import fold, fold_for_gradients, fold_lowered
from anisocert.engine.rewriting.lowering import Lowered
from anisocert.engine.rewriting.tracing import Graph
from anisocert.errors import ModelError

log = logging.getLogger(__name__)


def vote_forms(model: nn.Module, sample: Tensor, precision: Precision) -> Iterator[tuple[str, Callable[[], nn.Module]]]:
    """Names of forms to count votes with, and what makes them, those expected to be fastest first."""
    if precision == "bfloat16" and sample.is_cuda:
        yield "bfloat16 throughout", lambda: _channels_last(fold_lowered(model, sample[:2]))
    if _has_maps(model):
        yield "channels last", lambda: _channels_last(fold(model, sample[:2], precision))
    yield "rewritten", lambda: fold(model, sample[:2], precision)


def gradient_forms(
    model: nn.Module, sample: Tensor, precision: Precision, compiled: bool
) -> Iterator[tuple[str, Callable[[], nn.Module]]]:
    """As `vote_forms`, for gradients to the input."""
    if _has_maps(model):
        yield "channels last", lambda: _channels_last(fold_for_gradients(model, sample[:2], precision, compiled))
    yield "rewritten", lambda: fold_for_gradients(model, sample[:2], precision, compiled)


def first_right(
    forms: Iterator[tuple[str, Callable[[], nn.Module]]], right: Callable[[nn.Module], bool]
) -> nn.Module | None:
    """The first form that runs and is right."""
    for name, make in forms:
        try:
            form = make()
            if right(form):
                return form
            log.warning("the network is not run %s: it differs from the model", name)
        except Exception as error:  # a `view` of channels-last maps, say; the model itself is known to run
            if out_of_memory(error):
                raise
            log.info("the network is not run %s: %s", name, error)
    return None


def _has_maps(model: nn.Module) -> bool:
    return any(weights.dim() == 4 for weights in model.parameters())


def _channels_last(network: nn.Module) -> nn.Module:
    if not isinstance(network, Graph | Lowered):  # what is a view in one layout may be a copy in another
        raise ModelError("expected a network that can be traced, to put it into another layout")
    for tensor in [*network.parameters(), *network.buffers()]:
        if tensor.dim() == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    return network
