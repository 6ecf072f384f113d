"""A network in bfloat16 from its first multiplication on.

Autocast leaves norms, softmaxes and sums in float32, so that maps are written and read at twice the size, and is asked
again at every layer. What it rounds first is the same here: the input of the first layer that multiplies. Before that
all stays in float32, as inputs may be large beside their differences.
"""

import operator

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from anisocert.errors import ModelError

PRODUCTS = {
    F.linear, F.conv1d, F.conv2d, F.conv3d, F.bilinear, F.scaled_dot_product_attention, torch.conv1d, torch.conv2d,
    torch.conv3d, torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.baddbmm, torch.einsum, operator.matmul,
}  # fmt: skip
METHODS = {"matmul", "mm", "bmm", "addmm", "baddbmm", "__matmul__"}


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

    An error where a layer is called both before and after that. A sum of maps from before and after, say, is float32,
    which the next layer refuses: such a network cannot run so.
    """
    body, of_input = set[fx.Node](), set[fx.Node]()
    for node in list(network.graph.nodes):
        sources = node.all_input_nodes
        if node.op == "placeholder" or of_input.intersection(source for source in sources if _is_map(source)):
            of_input.add(node)
        if _multiplies(network, node) or body.intersection(sources):
            body.add(node)
            for source in sources:
                rounded = _multiplies(network, node) if source in of_input else True  # weights are rounded anywhere
                if source not in body and _is_map(source) and rounded:
                    with network.graph.inserting_before(node):  # not sooner: it may be changed in place until then
                        node.replace_input_with(source, network.graph.call_method("to", (source, torch.bfloat16)))
    _round_layers(network, body)


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
    """Whether autocast would round a node's input: it is a product with weights, or of maps."""
    if node.op == "call_module":
        layer = network.get_submodule(str(node.target))
        return not isinstance(layer, nn.Embedding) and any(weights.dim() > 1 for weights in layer.parameters())
    return node.target in (METHODS if node.op == "call_method" else PRODUCTS)


def _is_map(node: fx.Node) -> bool:
    """Whether a node is a tensor in float32, of which the sizes, say, are none."""
    return getattr(node.meta.get("tensor_meta"), "dtype", None) == torch.float32
