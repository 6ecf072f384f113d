"""Activations, and the sums of shortcuts, that go into the layer before them: for a GPU in bfloat16."""

from torch import fx, nn

from anisocert.engine.rewriting._cudnn import ReluConv2d
from anisocert.engine.rewriting._layers import ColumnsConv2d
from anisocert.engine.rewriting._products import ActivatedLinear, Product
from anisocert.engine.rewriting.graph import bypass, is_gelu, is_relu, layer, only_user, shortcut_of


def fuse_activations(network: fx.GraphModule) -> None:
    """Let each layer that can do so compute what follows it."""
    for node in list(network.graph.nodes):
        called = layer(network, node)
        if type(called) is nn.Linear or isinstance(called, Product):
            _into_product(network, node, called)
        elif (type(called) is nn.Conv2d and _plain(called)) or isinstance(called, ColumnsConv2d):
            _into_convolution(network, node, called)


def _plain(conv: nn.Conv2d) -> bool:
    """Whether cuDNN has the whole call; for depthwise convolutions others have better kernels."""
    depthwise = conv.groups == conv.in_channels > 1
    return not depthwise and not isinstance(conv.padding, str) and conv.padding_mode == "zeros"


def _into_product(network: fx.GraphModule, node: fx.Node, called: nn.Module) -> None:
    after = only_user(node)
    if after is None or not (is_relu(network, after) or is_gelu(network, after)):
        return
    product = ActivatedLinear(called) if isinstance(called, nn.Linear) else called
    assert isinstance(product, Product)
    product.activation = "gelu" if is_gelu(network, after) else "relu"
    network.set_submodule(str(node.target), product)
    bypass(network, after, node)


def _into_convolution(network: fx.GraphModule, node: fx.Node, called: nn.Conv2d | ColumnsConv2d) -> None:
    after, summed = only_user(node), shortcut_of(network, node)
    if summed is None and (after is None or not is_relu(network, after)):
        return
    if isinstance(called, ColumnsConv2d):
        assert isinstance(called.wide, nn.Conv2d)
        called.wide = ReluConv2d(called.wide)
    else:
        network.set_submodule(str(node.target), ReluConv2d(called))
    if summed is None:
        assert after is not None
        bypass(network, after, node)
        return
    total, shortcut, relu = summed
    with network.graph.inserting_before(total):
        fused = network.graph.call_module(str(node.target), (node.args[0], shortcut))
    fused.meta = relu.meta
    bypass(network, relu, fused)
    network.graph.erase_node(total)
    network.graph.erase_node(node)
