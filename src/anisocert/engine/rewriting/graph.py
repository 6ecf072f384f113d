"""Questions about a traced network, and the one edit that all rewriting is made of."""

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

LIBRARIES = ("torch", "_operator", "builtins", "math")  # whose functions are known, and keep nothing
IN_PLACE = {operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.setitem}


class Shapes(fx.Interpreter):
    """Notes the shape and type of what each node gives, as torch's ShapeProp does, which loads sympy for it."""

    def run_node(self, n: fx.Node) -> Any:
        """See torch.fx."""
        result = super().run_node(n)
        if isinstance(result, Tensor):
            n.meta["tensor_meta"] = torch.empty(result.shape, dtype=result.dtype, device="meta")
        return result


def bypass(network: fx.GraphModule, node: fx.Node, source: fx.Node) -> None:
    """Replace a node by `source`. (Removing all dead code would also remove the user's in-place calls.)"""
    node.replace_all_uses_with(source)
    network.graph.erase_node(node)


def layer(network: fx.GraphModule, node: object) -> nn.Module | None:
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
    module = network.get_submodule(name)
    return None if hooked(module) else module


def hooked(module: nn.Module) -> bool:
    """Whether something else runs when a module is called, or on the way back, than its class says."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or any(callable(value) and hasattr(type(module), name) for name, value in vars(module).items())


def name_of_call(node: fx.Node) -> str:
    """The name of the function, the method, or the operator of an exported program that a node calls."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target.overloadpacket.__name__)
    return str(node.target if node.op == "call_method" else getattr(node.target, "__name__", ""))


def of_a_library(function: object) -> bool:
    """Whether a function is not the user's."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] in LIBRARIES


def in_place(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node may change what it is given."""
    if node.op == "call_module":
        return bool(getattr(network.get_submodule(str(node.target)), "inplace", False))
    name = name_of_call(node)
    changing = (name.endswith("_") and not name.endswith("__")) or node.target in IN_PLACE
    inplace = node.kwargs.get("inplace") is True or any(argument is True for argument in node.args)
    return node.op.startswith("call") and (changing or inplace)


def only_user(node: fx.Node) -> fx.Node | None:
    """The node that uses this one, if there is one alone."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def is_relu(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is a ReLU, however it is written."""
    if node.op == "call_module":  # one shared by several places will do: it has no state
        called = network.get_submodule(str(node.target))
        return type(called) is nn.ReLU and not hooked(called)
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return node.target in (F.relu, torch.relu, torch.relu_)


def is_gelu(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is a GELU, exact or by tanh: the two are nearer to each other than bfloat16's steps."""
    if node.op == "call_module":
        called = network.get_submodule(str(node.target))
        return type(called) is nn.GELU and not hooked(called)
    return node.target is F.gelu


def is_sum_of_maps(node: fx.Node) -> bool:
    """Whether a node is the plain sum of two different maps of one shape."""
    if node.target not in (operator.add, torch.add) or len(node.args) != 2 or node.kwargs:
        return False
    a, b = node.args
    if not isinstance(a, fx.Node) or not isinstance(b, fx.Node) or a is b:
        return False
    shapes = [getattr(term.meta.get("tensor_meta"), "shape", None) for term in (a, b)]
    return shapes[0] is not None and shapes[0] == shapes[1]


def is_stem_pool(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is the max-pool of a residual network's stem: 3x3 windows, stride 2, one pixel of padding."""
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    called = layer(network, node)
    if isinstance(called, nn.MaxPool2d):
        pool = {name: getattr(called, name) for name in names}
    elif node.target in (F.max_pool2d, torch.max_pool2d):
        pool = dict(zip(names, node.args[1:], strict=False)) | dict(node.kwargs)
    else:
        return False
    wanted = {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 1, "ceil_mode": False, "return_indices": False}
    return {"dilation": 1, "ceil_mode": False, "return_indices": False} | pool == wanted


def shortcut_of(network: fx.GraphModule, node: fx.Node) -> tuple[fx.Node, fx.Node, fx.Node] | None:
    """What follows a map: its sum with another, that other one, and the ReLU of the sum; None if nothing such does."""
    total = only_user(node)
    if total is None or not is_sum_of_maps(total):
        return None
    relu, (a, b) = only_user(total), total.args
    if relu is None or not is_relu(network, relu):
        return None
    shortcut = a if b is node else b
    assert isinstance(shortcut, fx.Node)
    later = node.next
    while later is not total:  # a layer that takes the sum is called there, and what it reads may have changed by then
        if in_place(network, later):
            return None
        later = later.next
    return total, shortcut, relu
