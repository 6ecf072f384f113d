"""The same network with fewer and better-shaped multiplications; the function stays as it is up to rounding.

A batch norm in evaluation mode is an affine map per channel and goes into the convolution before it. Convolutions that
a device is slow at are put into the shapes of `_layers` and `_products`. On a GPU in bfloat16 activations and the sums
of shortcuts go into the layer before them, and all that follows the first layer is bfloat16.
"""

import io
import logging
from contextlib import redirect_stderr

import torch
from torch import Tensor, nn

from anisocert.engine.given import own_copy
from anisocert.engine.numerics import Precision, computing, out_of_memory
from anisocert.engine.rewriting._attention import pack_attention
from anisocert.engine.rewriting._columns import keep_columns
from anisocert.engine.rewriting._fusing import fuse_activations
from anisocert.engine.rewriting._layers import BlockConv2d
from anisocert.engine.rewriting._norms import drop_checks, drop_identities, fold_batch_norms
from anisocert.engine.rewriting._products import Product
from anisocert.engine.rewriting._reshaping import reshape_convolutions
from anisocert.engine.rewriting._sizes import SizesTracer
from anisocert.engine.rewriting.graph import Shapes, hooked, layer
from anisocert.engine.rewriting.lowering import Lowered, expect_bfloat16, lower
from anisocert.engine.rewriting.tracing import Graph, traced
from anisocert.errors import ModelError

log = logging.getLogger(__name__)

ROUNDED = (nn.Conv2d, nn.Linear, BlockConv2d, Product)


def fold(model: nn.Module, sample: Tensor, precision: Precision) -> nn.Module:
    """A rewritten copy of `model`, or a plain copy where it cannot be traced.

    sample: `b x *shape`, on its device. precision: in which it votes.
    """
    network = _traced(model, sample, precision)
    if network is None:
        return own_copy(model)
    reshape_convolutions(network, sample.is_cuda, precision)
    network.recompile()
    return network


def fold_lowered(model: nn.Module, sample: Tensor) -> Lowered:
    """As `fold`, for a GPU, in bfloat16 throughout; an error where it cannot be.

    Its scores are to be compared with the model's, as some networks cannot be computed so.
    """
    network = _traced(model, sample, "bfloat16")
    if network is None:
        raise ModelError("expected a network that can be traced, to put it into bfloat16")
    reshape_convolutions(network, sample.is_cuda, "bfloat16", lowered=True)
    for rewrite in (fuse_activations, keep_columns, pack_attention, lower):
        rewrite(network)
    network.recompile()
    form = Lowered(network)
    expect_bfloat16(form, sample)
    return form


def fold_for_gradients(model: nn.Module, sample: Tensor, precision: Precision, compiled: bool) -> nn.Module:
    """As `fold`, with only what is no slower, and can be differentiated, on the way back to the input.

    Other shapes of convolutions are so only in a compiled network.
    """
    network = _traced(model, sample, precision)
    if network is None:
        return own_copy(model)
    if compiled:
        reshape_convolutions(network, sample.is_cuda, precision)
    for node in network.graph.nodes if precision == "bfloat16" else ():
        called = layer(network, node)
        if isinstance(called, ROUNDED):
            called.to(torch.bfloat16)  # once, not on every call as by autocast
    network.recompile()
    return network


def _traced(model: nn.Module, sample: Tensor, precision: Precision) -> Graph | None:
    """The network as a graph without batch norms that follow a convolution; None if it cannot be traced.

    It is what the network is in a precision: its code may ask about autocast.
    """
    if hooked(model):  # tracing would lose what the hooks do
        return None
    for by_size in (False, True):  # the second makes a graph for inputs of the sample's shape alone
        try:
            tracer = SizesTracer(sample) if by_size else None
            # torch prints a traceback of what a graph raises
            with redirect_stderr(io.StringIO()), computing(precision, sample.device):
                network = traced(own_copy(model), sample, tracer)  # a copy of its own, which its code may change
                Shapes(network).run(sample.clone())  # which a network may change
            drop_identities(network)
            drop_checks(network)
            fold_batch_norms(network)
        except Exception as reason:  # tracing runs the user's code: whatever it raises, the network stays as it is
            if out_of_memory(reason):
                raise
            log.info(
                "network is not traced%s: %s", ", so it stays as it is" if by_size else " by torch.fx alone", reason
            )
        else:
            return network
    return None
