"""A network in bfloat16 throughout, for inputs in float32.

Autocast leaves norms, softmaxes and sums in float32, so that maps are written and read at twice the size, and is asked
again at every layer.
"""

import operator

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from anisocert.engine._graph import attribute

FIRST = {
    operator.add, operator.sub, operator.mul, operator.truediv, torch.add, torch.sub, torch.mul, torch.div,
    torch.clamp, "add", "sub", "mul", "div", "clamp", "float",
}  # fmt: skip


class Lowered(nn.Module):
    """Calls a network that is in bfloat16, whatever autocast would do; whole: its inputs must be, too."""

    def __init__(self, network: nn.Module, whole: bool = False) -> None:
        super().__init__()
        self.training, self.network, self.whole = False, network, whole

    def forward(self, x: Tensor) -> Tensor:
        """Scores of inputs in float32."""
        with torch.autocast(x.device.type, enabled=False):
            scores: Tensor = self.network(x.bfloat16() if self.whole else x)
        return scores


def lower(network: fx.GraphModule) -> None:
    """Weights of a traced network, and its maps from the first layer on, in bfloat16.

    What comes before, as the normalisation of inputs, stays in float32, and so do the statistics of batch norms.
    """
    front, constants = set[fx.Node](), {node for node in network.graph.nodes if _is_float(network, node)}
    for node in network.graph.nodes:
        sources = set(node.all_input_nodes)
        if node.op == "placeholder" or (node.target in FIRST and sources & front and sources <= front | constants):
            front.add(node)
    for node in front | constants:
        body = [user for user in node.users if user not in front]
        if body:
            with network.graph.inserting_after(node):
                cast = network.graph.call_method("to", (node, torch.bfloat16))
            for user in body:
                user.replace_input_with(node, cast)
    for node in network.graph.nodes:
        if node.op == "call_module" and not isinstance(called := network.get_submodule(str(node.target)), _BatchNorm):
            called.bfloat16()


def _is_float(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node reads a tensor of floating-point numbers from the network."""
    if node.op != "get_attr":
        return False
    value = attribute(network, node)
    return isinstance(value, Tensor) and value.is_floating_point()
