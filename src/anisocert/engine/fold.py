"""The same network with fewer and better-shaped multiplications; the function stays as it is up to rounding.

A batch norm in evaluation mode is an affine map per channel and goes into the convolution before it. Convolutions that
a device is slow at are put into the shapes of `layers`, and on a GPU in bfloat16 a ReLU and a shortcut's sum go into
the convolution before them.
"""

import copy
import logging
import operator

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn.utils.fusion import fuse_conv_bn_eval

from anisocert.engine.layers import BlockConv2d, DenseConv2d, PointwiseConv2d, ReluConv2d

log = logging.getLogger(__name__)


def fold(model: nn.Module, sample: Tensor, bfloat16: bool) -> nn.Module:
    """A rewritten copy of `model`, or a plain copy where it cannot be traced. sample: `b x *shape`, on its device."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    try:
        network = fx.symbolic_trace(model)
        ShapeProp(network).propagate(sample)
    except Exception as reason:  # tracing runs the user's code: whatever it raises, the network stays as it is
        log.info("network is not traced, so it stays as it is: %s", reason)
        return model
    _drop_identities(network)
    _fold_batch_norms(network)
    _reshape_convolutions(network, sample.is_cuda)
    if sample.is_cuda and bfloat16:
        _fuse_relus(network)
    network.graph.eliminate_dead_code()
    network.recompile()
    return network


def _drop_identities(network: fx.GraphModule) -> None:
    for node in network.graph.nodes:
        if isinstance(_layer(network, node), nn.Identity):
            node.replace_all_uses_with(node.args[0])
    network.graph.eliminate_dead_code()


def _fold_batch_norms(network: fx.GraphModule) -> None:
    for node in list(network.graph.nodes):
        norm = _layer(network, node)
        if not isinstance(norm, nn.BatchNorm2d):
            continue
        source = node.args[0]
        conv = _layer(network, source)
        if type(conv) is nn.Conv2d and len(source.users) == 1:
            network.set_submodule(source.target, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(source)
            network.graph.erase_node(node)


def _reshape_convolutions(network: fx.GraphModule, gpu: bool) -> None:
    for node in network.graph.nodes:
        conv = _layer(network, node)
        if type(conv) is not nn.Conv2d or conv.groups != 1 or isinstance(conv.padding, str):
            continue
        height, width = node.args[0].meta["tensor_meta"].shape[-2:]
        if conv.kernel_size == (1, 1):
            if gpu and conv.padding == (0, 0):
                network.set_submodule(node.target, PointwiseConv2d(conv))
        elif height * width <= conv.kernel_size[0] * conv.kernel_size[1]:
            network.set_submodule(node.target, DenseConv2d(conv, height, width))
        elif gpu and BlockConv2d.fits(conv, height, width):
            relu = _only_user(node)
            pool = _only_user(relu) if relu is not None and _is_relu(network, relu) else None
            if pool is not None and _is_stem_pool(network, pool):
                network.set_submodule(node.target, BlockConv2d(conv, pool=True))
                pool.replace_all_uses_with(node)
            else:
                network.set_submodule(node.target, BlockConv2d(conv, pool=False))


def _fuse_relus(network: fx.GraphModule) -> None:
    for node in list(network.graph.nodes):
        conv = _layer(network, node)
        if type(conv) is not nn.Conv2d or isinstance(conv.padding, str) or conv.padding_mode != "zeros":
            continue
        after = _only_user(node)
        if after is not None and _is_relu(network, after):
            network.set_submodule(node.target, ReluConv2d(conv))
            after.replace_all_uses_with(node)
        elif after is not None and after.target in (operator.add, torch.add) and len(after.args) == 2:
            shortcut = after.args[0] if after.args[1] is node else after.args[1]
            relu = _only_user(after)
            if relu is not None and _is_relu(network, relu) and isinstance(shortcut, fx.Node) and shortcut is not node:
                network.set_submodule(node.target, ReluConv2d(conv))
                with network.graph.inserting_before(after):
                    fused = network.graph.call_module(str(node.target), (node.args[0], shortcut))
                relu.replace_all_uses_with(fused)


def _layer(network: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """The layer a node calls, if the node is its only place: a shared one cannot be changed for one place alone."""
    if node.op != "call_module":
        return None
    calls = [other.target for other in network.graph.nodes if other.op == "call_module"]
    return network.get_submodule(str(node.target)) if calls.count(node.target) == 1 else None


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _is_relu(network: fx.GraphModule, node: fx.Node) -> bool:
    functions = (F.relu, torch.relu, torch.relu_)
    return node.target in functions or isinstance(_layer(network, node), nn.ReLU) or node.target == "relu"


def _is_stem_pool(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is the max-pool of a residual network's stem: 3x3 windows, stride 2, one pixel of padding."""
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    layer = _layer(network, node)
    if isinstance(layer, nn.MaxPool2d):
        pool = {name: getattr(layer, name) for name in names}
    elif node.target in (F.max_pool2d, torch.max_pool2d):
        pool = dict(zip(names, node.args[1:], strict=False)) | dict(node.kwargs)
    else:
        return False
    wanted = {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 1, "ceil_mode": False, "return_indices": False}
    return {"dilation": 1, "ceil_mode": False, "return_indices": False} | pool == wanted
