"""A network in bfloat16 from its first multiplication on.

Autocast leaves norms, softmaxes and sums in float32, so that maps are written and read at twice the size, and is asked
again at every layer. What it rounds first is the same here: the input of the first layer that multiplies. Before that
all stays in float32, as inputs may be large beside their differences.
"""

import re
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_leaves

from anisocert.engine._watching import Watch
from anisocert.engine.rewriting.graph import name_of_call
from anisocert.errors import ModelError

PRODUCTS = {  # as functions, methods and operators of exported programs are called
    "linear", "bilinear", "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "matmul", "linalg_matmul", "mm", "bmm", "mv", "addmm", "addmv", "addbmm",
    "baddbmm", "chain_matmul", "tensordot", "inner", "einsum", "scaled_dot_product_attention",
}  # fmt: skip
# Operators that multiply by weights. Products of maps alone torch may compute in float32 by itself, in attention.
WITH_WEIGHTS = re.compile(r"(add)?mm|_addmm_activation|.*convolution.*")
NORMS = {"layer_norm", "group_norm", "rms_norm"}  # which take weights of their input's type alone


class Lowered(nn.Module):
    """Calls a network that is in bfloat16 where it should be, whatever autocast would do."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.training, self.network = False, network

    def forward(self, x: Tensor) -> Tensor:
        """Scores of inputs in float32."""
        with torch.autocast(x.device.type, enabled=False):
            scores: Tensor = self.network(x)
        return scores


def lower(network: fx.GraphModule) -> None:
    """Put the weights of a traced network, and its maps from the first product on, into bfloat16.

    An error where a layer is called both before and after that. What a network computes in float32 by its own wish is
    rounded at the next product, as autocast does.
    """
    body, of_input = set[fx.Node](), set[fx.Node]()
    for node in list(network.graph.nodes):
        sources, product = node.all_input_nodes, _multiplies(network, node)
        if node.op == "placeholder" or of_input.intersection(source for source in sources if _is_map(source)):
            of_input.add(node)
        if product or body.intersection(sources):
            body.add(node)
            for source in filter(_is_map, sources):
                if product or not (source in body or source in of_input):  # weights are rounded anywhere
                    with network.graph.inserting_before(node):  # not sooner: it may be changed in place until then
                        rounded = _rounded(network.graph, node, source)
                    node.replace_input_with(source, rounded)
    _round_layers(network, body)


def _rounded(graph: fx.Graph, node: fx.Node, source: fx.Node) -> fx.Node:
    """What a node is given in the place of a map or a weight."""
    name = name_of_call(node)
    if name == "batch_norm":  # takes weights and statistics in float32 beside maps of any type
        return source
    if name in NORMS:
        first = node.args[0] if node.args else node.kwargs["input"]
        return graph.call_method("type_as", (source, first))
    return graph.call_method("to", (source, torch.bfloat16))


def expect_bfloat16(network: nn.Module, sample: Tensor) -> None:
    """An error if a lowered network multiplies by weights in float32: slower, and not what its numerics say."""
    with torch.no_grad(), _Products():
        network(sample.clone())  # which a network may change


class _Products(Watch):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__ if isinstance(func, torch._ops.OpOverload) else ""
        first = next((leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)), None)
        if WITH_WEIGHTS.fullmatch(name) and first is not None and first.dtype == torch.float32:
            raise ModelError(f"expected all products in bfloat16, got {name} in float32")
        return out


def _round_layers(network: fx.GraphModule, body: set[fx.Node]) -> None:
    """Weights of layers in the body; statistics of batch norms stay in float32."""
    calls = [node for node in network.graph.nodes if node.op == "call_module"]
    before, after = ({str(node.target) for node in calls if (node in body) == inside} for inside in (False, True))
    kept = {id(weights) for name in before for weights in network.get_submodule(name).parameters()}
    for name in after:
        layer = network.get_submodule(name)
        if name in before or any(id(weights) in kept for weights in layer.parameters()):
            raise ModelError(f"expected layers that are called after the first product alone, got {name} before it")
        if not isinstance(layer, _BatchNorm):
            layer.bfloat16()


def _multiplies(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is a product with weights, or of maps, whose inputs are rounded."""
    if node.op == "call_module":
        layer = network.get_submodule(str(node.target))
        return not isinstance(layer, nn.Embedding) and any(weights.dim() > 1 for weights in layer.parameters())
    return name_of_call(node) in PRODUCTS


def _is_map(node: fx.Node) -> bool:
    """Whether a node is a tensor of floats, which under autocast may be bfloat16 already; sizes, say, are none."""
    return getattr(node.meta.get("tensor_meta"), "dtype", None) in (torch.float32, torch.bfloat16)
