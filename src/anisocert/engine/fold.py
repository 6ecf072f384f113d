"""The same network with fewer and better-shaped multiplications: batch norms folded, tiny convolutions as matrices.

Both rewrites leave the function as it is up to rounding. A batch norm in evaluation mode is an affine map per channel
and goes into the convolution before it. A padded 3x3 convolution on a 2x2 map multiplies zeros more often than values;
as one dense matrix on the flattened map it does less work, at the speed of a matrix product.
"""

import copy
import logging

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn.utils.fusion import fuse_conv_bn_eval

log = logging.getLogger(__name__)


class DenseConv2d(nn.Module):
    """A convolution on maps of one small, fixed size, as a matrix. x: `b x c x h x w`."""

    def __init__(self, conv: nn.Conv2d, height: int, width: int) -> None:
        super().__init__()
        size = conv.in_channels * height * width
        basis = torch.eye(size).view(size, height, width, conv.in_channels).permute(0, 3, 1, 2)
        plain = copy.deepcopy(conv).cpu().float()
        plain.bias = None
        with torch.no_grad():
            images = plain(basis).permute(0, 2, 3, 1)
        self.out = tuple(images.shape[1:])
        device = conv.weight.device
        self.weight = nn.Parameter(images.reshape(size, -1).T.contiguous().to(device), requires_grad=False)
        bias = torch.zeros(conv.out_channels, device=device) if conv.bias is None else conv.bias.detach()
        self.bias = nn.Parameter(bias.repeat(self.out[0] * self.out[1]), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """As the convolution, in channels-last order."""
        flat = x.permute(0, 2, 3, 1).flatten(1)
        return nn.functional.linear(flat, self.weight, self.bias).view(-1, *self.out).permute(0, 3, 1, 2)


def fold(model: nn.Module, sample: Tensor) -> nn.Module:
    """A rewritten copy of `model`, or a plain copy where it cannot be traced. sample: `b x *shape`."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    try:
        graph = fx.symbolic_trace(model)
        ShapeProp(graph).propagate(sample)
    except Exception as reason:  # tracing runs the user's code: whatever it raises, the network stays as it is
        log.info("network is not traced, so batch norms stay: %s", reason)
        return model
    modules = dict(graph.named_modules())
    for node in list(graph.graph.nodes):
        if node.op != "call_module":
            continue
        module, source = modules[node.target], node.args[0]
        if isinstance(module, nn.BatchNorm2d) and source.op == "call_module" and len(source.users) == 1:
            conv = modules[source.target]
            if type(conv) is nn.Conv2d and _once(graph, source.target) and _once(graph, node.target):
                modules[source.target] = fuse_conv_bn_eval(conv, module)
                graph.set_submodule(source.target, modules[source.target])
                node.replace_all_uses_with(source)
                graph.graph.erase_node(node)
    for node in graph.graph.nodes:
        conv = modules[node.target] if node.op == "call_module" else None
        if type(conv) is nn.Conv2d and conv.groups == 1 and _once(graph, node.target):
            height, width = node.args[0].meta["tensor_meta"].shape[-2:]
            if height * width <= conv.kernel_size[0] * conv.kernel_size[1] and max(conv.kernel_size) > 1:
                graph.set_submodule(node.target, DenseConv2d(conv, height, width))
    graph.recompile()
    return graph


def _once(graph: fx.GraphModule, target: str) -> bool:
    """Whether a layer is used in one place: a shared one cannot be folded for that place alone."""
    return [node.target for node in graph.graph.nodes if node.op == "call_module"].count(target) == 1
