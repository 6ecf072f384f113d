"""The same network with fewer and better-shaped multiplications; the function stays as it is up to rounding.

A batch norm in evaluation mode is an affine map per channel and goes into the convolution before it. Convolutions that
a device is slow at are put into the shapes of `layers`, and on a GPU in bfloat16 a ReLU and a shortcut's sum go into
the convolution before them.
"""

import copy
import io
import logging
import operator
from contextlib import redirect_stderr

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn.utils.fusion import fuse_conv_bn_eval

from anisocert.engine.layers import BlockConv2d, DenseConv2d, PointwiseConv2d, ReluConv2d
from anisocert.engine.numerics import out_of_memory

log = logging.getLogger(__name__)

LOWERED = (nn.Conv2d, nn.Linear, BlockConv2d, DenseConv2d, PointwiseConv2d)


def fold(
    model: nn.Module, sample: Tensor, bfloat16: bool, gradients: bool = False, compiled: bool = False
) -> nn.Module:
    """A rewritten copy of `model`, or a plain copy where it cannot be traced. sample: `b x *shape`, on its device.

    gradients: only what is no slower, and can be differentiated, on the way back to the input; other shapes of
    convolutions are so only in a compiled network.
    """
    with torch.no_grad():  # else TorchScript's copy of a weight is a result, with the original behind it
        model = copy.deepcopy(model).eval()
    for parameter in model.parameters():  # TorchScript knows no requires_grad_ of modules
        parameter.requires_grad_(False)
    if _hooked(model):  # tracing would lose what the hooks do
        return model
    try:
        network = fx.symbolic_trace(model)
        with redirect_stderr(io.StringIO()):  # it prints a traceback of what it raises
            ShapeProp(network).propagate(sample)
        _drop_identities(network)
        _fold_batch_norms(network)
        if gradients:
            if compiled:
                _reshape_convolutions(network, sample.is_cuda)
            _lower_weights(network, bfloat16)
        else:
            _reshape_convolutions(network, sample.is_cuda)
            if sample.is_cuda and bfloat16:
                _fuse_relus(network)
        network.recompile()
    except Exception as reason:  # tracing runs the user's code: whatever it raises, the network stays as it is
        if out_of_memory(reason):
            raise
        log.info("network is not traced, so it stays as it is: %s", reason)
        return model
    return network


def _drop_identities(network: fx.GraphModule) -> None:
    for node in list(network.graph.nodes):
        if isinstance(_layer(network, node), nn.Identity):
            _bypass(network, node, node.args[0])


def _fold_batch_norms(network: fx.GraphModule) -> None:
    for node in list(network.graph.nodes):
        norm = _layer(network, node)
        if type(norm) is not nn.BatchNorm2d or norm.running_mean is None:
            continue
        source = node.args[0]
        conv = _layer(network, source)
        if type(conv) is nn.Conv2d and len(source.users) == 1:
            network.set_submodule(source.target, fuse_conv_bn_eval(conv, norm))
            _bypass(network, node, source)


def _lower_weights(network: fx.GraphModule, bfloat16: bool) -> None:
    """Round once the weights that autocast would round on every call."""
    for node in network.graph.nodes if bfloat16 else ():
        layer = _layer(network, node)
        if layer is not None and type(layer) in LOWERED:
            layer.to(torch.bfloat16)


def _reshape_convolutions(network: fx.GraphModule, gpu: bool) -> None:
    for node in list(network.graph.nodes):
        conv = _layer(network, node)
        if type(conv) is not nn.Conv2d or conv.groups != 1 or isinstance(conv.padding, str):
            continue
        height, width = node.args[0].meta["tensor_meta"].shape[-2:]
        if conv.kernel_size == (1, 1):
            if gpu and conv.padding == (0, 0):
                network.set_submodule(node.target, PointwiseConv2d(conv))
        elif DenseConv2d.fits(conv, height, width):
            network.set_submodule(node.target, DenseConv2d(conv, height, width))
        elif gpu and BlockConv2d.fits(conv, height, width):
            relu = _only_user(node)
            pool = _only_user(relu) if relu is not None and _is_relu(network, relu) else None
            if relu is not None and pool is not None and _is_stem_pool(network, pool):
                network.set_submodule(node.target, BlockConv2d(conv, pool=True))
                node.meta = pool.meta
                _bypass(network, pool, node)
                network.graph.erase_node(relu)
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
            _bypass(network, after, node)
        elif after is not None and _is_sum_of_maps(after):
            shortcut = after.args[0] if after.args[1] is node else after.args[1]
            relu = _only_user(after)
            if relu is not None and _is_relu(network, relu):
                network.set_submodule(node.target, ReluConv2d(conv))
                with network.graph.inserting_before(after):
                    fused = network.graph.call_module(str(node.target), (node.args[0], shortcut))
                fused.meta = relu.meta
                _bypass(network, relu, fused)
                network.graph.erase_node(after)
                network.graph.erase_node(node)


def _bypass(network: fx.GraphModule, node: fx.Node, source: fx.Node) -> None:
    """Replace a node by `source`. (Removing all dead code would also remove the user's in-place calls.)"""
    node.replace_all_uses_with(source)
    network.graph.erase_node(node)


def _layer(network: fx.GraphModule, node: object) -> nn.Module | None:
    """The layer that a node calls with one map, if it can be changed there without changing anything else.

    That needs it to be called at this place alone, its weights to be read nowhere else, and no hooks.
    """
    if not isinstance(node, fx.Node) or node.op != "call_module" or len(node.args) != 1 or node.kwargs:
        return None
    name = str(node.target)
    for other in network.graph.nodes:
        elsewhere = other.op == "call_module" and other.target == name and other is not node
        if elsewhere or (other.op == "get_attr" and str(other.target).startswith(f"{name}.")):
            return None
    layer = network.get_submodule(name)
    return None if _hooked(layer) else layer


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _is_relu(network: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_module":  # one shared by several places will do: it has no state
        layer = network.get_submodule(str(node.target))
        return type(layer) is nn.ReLU and not _hooked(layer)
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return node.target in (F.relu, torch.relu, torch.relu_)


def _is_sum_of_maps(node: fx.Node) -> bool:
    """Whether a node is the plain sum of two different maps of one shape."""
    if node.target not in (operator.add, torch.add) or len(node.args) != 2 or node.kwargs:
        return False
    a, b = node.args
    if not isinstance(a, fx.Node) or not isinstance(b, fx.Node) or a is b:
        return False
    shapes = [getattr(term.meta.get("tensor_meta"), "shape", None) for term in (a, b)]
    return shapes[0] is not None and shapes[0] == shapes[1]


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
