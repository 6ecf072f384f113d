"""Which convolutions are put into which other shape."""

from torch import fx, nn

from anisocert.engine.numerics import Precision
from anisocert.engine.rewriting._layers import BlockConv2d, ColumnsConv2d, slow_groups, ungrouped
from anisocert.engine.rewriting._products import DenseConv2d, PatchConv2d, PointwiseConv2d
from anisocert.engine.rewriting.graph import bypass, is_relu, is_stem_pool, layer, only_user, shortcut_of


def reshape_convolutions(network: fx.GraphModule, gpu: bool, precision: Precision, lowered: bool = False) -> None:
    """Put each convolution into the shape in which the device is fastest.

    lowered: the network is to be, and activations and shortcuts go into what is left of its convolutions.
    """
    # cuDNN rounds float32 to TF32 unless told otherwise, matrix products only if they are told
    products = precision == "bfloat16" or not gpu
    for node in list(network.graph.nodes):
        conv = layer(network, node)
        if type(conv) is not nn.Conv2d or isinstance(conv.padding, str):
            continue
        if gpu and slow_groups(conv):
            conv = ungrouped(conv)
            network.set_submodule(node.target, conv)
        if conv.kernel_size == (1, 1) and conv.stride == (1, 1) and lowered and shortcut_of(network, node):
            continue
        height, width = node.args[0].meta["tensor_meta"].shape[-2:]
        shape = _other_shape(conv, height, width, gpu, products) if conv.groups == 1 else None
        if isinstance(shape, BlockConv2d):
            _pool_in_blocks(network, node, shape)
        if shape is None and lowered and (columns := ColumnsConv2d.columns_for(conv, width)) > 1:
            shape = ColumnsConv2d(conv, columns)
        if shape is not None:
            network.set_submodule(node.target, shape)


def _other_shape(conv: nn.Conv2d, height: int, width: int, gpu: bool, products: bool) -> nn.Module | None:
    if conv.kernel_size == (1, 1):
        return PointwiseConv2d(conv) if products and gpu and conv.padding == (0, 0) else None
    if products and DenseConv2d.fits(conv, height, width):
        return DenseConv2d(conv, height, width)
    if products and gpu and PatchConv2d.fits(conv, height, width):
        return PatchConv2d(conv)
    return BlockConv2d(conv) if gpu and BlockConv2d.fits(conv, height, width) else None


def _pool_in_blocks(network: fx.GraphModule, node: fx.Node, stem: BlockConv2d) -> None:
    """Let a stem do the ReLU and the max-pool after it as well, where these follow."""
    relu = only_user(node)
    pool = only_user(relu) if relu is not None and is_relu(network, relu) else None
    if relu is not None and pool is not None and is_stem_pool(network, pool):
        stem.pool = True
        node.meta = pool.meta
        bypass(network, pool, node)
        network.graph.erase_node(relu)
