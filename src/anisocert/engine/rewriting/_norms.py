"""Batch norms in evaluation mode, and what does nothing: identities and checks."""

import operator

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from anisocert.engine.rewriting.graph import bypass, layer

MODULES = (nn.BatchNorm2d, nn.SyncBatchNorm)  # in evaluation mode they are the same
FUNCTIONS = {
    F.batch_norm: ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    torch.batch_norm: ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
}


def drop_identities(network: fx.GraphModule) -> None:
    """Take out layers that hand on what they get; dropout in evaluation mode is one."""
    for node in list(network.graph.nodes):
        if type(layer(network, node)) in (nn.Identity, nn.Dropout):
            bypass(network, node, node.args[0])


def drop_checks(network: fx.GraphModule) -> None:
    """Take out checks of how many axes a map has: with them it has users that compute nothing."""
    for node in list(network.graph.nodes):
        if node.target is getattr and node.args[1] == "ndim" and "tensor_meta" in node.args[0].meta:
            _settle(node, len(node.args[0].meta["tensor_meta"].shape))
        elif node.target in (operator.eq, torch._assert) and not node.all_input_nodes:
            _settle(node, node.target(*node.args))


def _settle(node: fx.Node, value: int | bool | None) -> None:
    """Put a value in the place of a node."""
    for user in list(node.users):
        user.args = fx.node.map_arg(user.args, lambda used: value if used is node else used)
        user.kwargs = fx.node.map_arg(user.kwargs, lambda used: value if used is node else used)
    node.graph.erase_node(node)


def fold_batch_norms(network: fx.GraphModule) -> None:
    """Put each batch norm that follows a convolution into it."""
    for node in list(network.graph.nodes):
        norm = _batch_norm(network, node)
        if norm is None:
            continue
        source = node.args[0] if node.args else node.kwargs["input"]
        conv = layer(network, source)
        if type(conv) is nn.Conv2d and len(source.users) == 1:
            network.set_submodule(source.target, fuse_conv_bn_eval(conv, norm))
            bypass(network, node, source)


def _batch_norm(network: fx.GraphModule, node: fx.Node) -> nn.BatchNorm2d | nn.SyncBatchNorm | None:
    """The batch norm that a node computes with running statistics, as a layer; None if it is anything else."""
    called = layer(network, node)
    if isinstance(called, MODULES) and type(called) in MODULES:
        return called if called.running_mean is not None else None
    if node.op != "call_function" or node.target not in FUNCTIONS:
        return None
    arguments = dict(zip(FUNCTIONS[node.target], node.args, strict=False)) | dict(node.kwargs)
    if arguments.get("training"):  # False, or statistics of the batch
        return None
    values = {name: _value(network, arguments.get(name)) for name in ("running_mean", "running_var", "weight", "bias")}
    mean, variance = values["running_mean"], values["running_var"]
    eps = arguments.get("eps", 1e-5)
    if mean is None or variance is None or not isinstance(eps, float):
        return None
    norm = nn.BatchNorm2d(len(mean), eps, affine=False, device=mean.device).eval()
    norm.running_mean, norm.running_var = mean, variance
    for name in ("weight", "bias"):
        value = values[name]
        if arguments.get(name) is not None and value is None:
            return None
        setattr(norm, name, None if value is None else nn.Parameter(value, requires_grad=False))
    return norm


def _value(network: fx.GraphModule, node: object) -> torch.Tensor | None:
    """The tensor that a node reads from the network."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    value = operator.attrgetter(str(node.target))(network)
    return value.detach() if isinstance(value, torch.Tensor) else None
