"""A network as a graph, which is the network on every input and not on the tried ones alone.

torch.fx runs `forward` on stand-ins for tensors. Code can tell these from tensors (`isinstance(x, Tensor)`, an
exception of theirs that it catches) and do something else, perhaps on rare inputs alone, where no trial finds it. But
whatever a network computes of its input, the values that it decides by included, it computes by operators: so the graph
must have all of those that the network has, given the same things; and none whose results Python might look at.
"""

from collections.abc import Sized

import torch
from torch import Tensor, fx, nn

from anisocert.engine._graph import in_place, name_of_call
from anisocert.engine._operations import Operation, operations
from anisocert.errors import ModelError

OWN = {*vars(nn.Module())}  # attributes that every module has
MADE = "_tensor_constant"  # those that torch.fx adds
TO_PYTHON = {"item", "tolist", "numpy", "__array__", "data_ptr", "untyped_storage", "__dlpack__"}
# What is a copy in some layouts or types and the tensor itself in others; and what shares the memory it is given.
COPIES = {"contiguous", "to", "type", "type_as", "float", "double", "half", "bfloat16"}
VIEWS = {
    "getattr", "getitem", "view", "view_as", "as_strided", "flatten", "unflatten", "ravel", "reshape", "t", "transpose",
    "adjoint", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "squeeze", "unsqueeze", "narrow", "select",
    "diagonal", "unfold", "chunk", "split", "tensor_split", "unbind", "expand", "expand_as", "detach", "real",
}  # fmt: skip


class Graph(fx.GraphModule):
    """A network that was traced here: a graph that a user brings may be what tracing refuses."""


def traced(model: nn.Module, sample: Tensor, tracer: fx.Tracer | None = None) -> Graph:
    """The graph of a model; an error where it would not be the model. sample: `b x *shape`, which stays as it is.

    tracer: one that tells the model more of its input than torch.fx does.
    """
    samples = [sample] if tracer is None else [sample, torch.cat([sample, sample[:1]])]
    ones = [operations(model, one) for one in samples]
    before = _state(model)  # after a first call, in which some networks keep what they need in every call
    network = Graph(model, (tracer or fx.Tracer()).trace(model))
    if _state(model) != before:
        raise ModelError("its forward changes it, which a graph would not")
    for node in network.graph.nodes:
        if node.op == "call_method" and node.target in TO_PYTHON:
            raise ModelError(f"its forward calls {node.target}, and a graph does not see what that decides")
        if in_place(network, node) and _may_be_copy(node.all_input_nodes[:1]):
            raise ModelError("its forward writes to what is a copy in one layout or type and none in another")
    if not all(_same(one, operations(network, sample)) for one, sample in zip(ones, samples, strict=True)):
        raise ModelError("its forward does other things with what traces it than with tensors")
    return network


def _same(ones: list[Operation], others: list[Operation]) -> bool:
    return len(ones) == len(others) and all(one.same(other) for one, other in zip(ones, others, strict=True))


def _may_be_copy(sources: list[fx.Node]) -> bool:
    names = [(name_of_call(source), source) for source in sources]
    return any(name in COPIES or (name in VIEWS and _may_be_copy(one.all_input_nodes[:1])) for name, one in names)


def _state(model: nn.Module) -> list[object]:
    """What tells whether a model has changed: which tensors it has, how often they were written, and what else."""
    tensors = [_noted(one) for one in (*model.parameters(), *model.buffers())]
    others = [
        (name, _noted(value))
        for module in model.modules()
        for name, value in vars(module).items()
        if name not in OWN and not name.startswith(MADE)
    ]
    return [*tensors, *others]


def _noted(value: object) -> object:
    if isinstance(value, Tensor):
        return id(value), None if value.is_inference() else value._version
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, dict):
        return [(key, _noted(one)) for key, one in value.items()]
    return len(value) if isinstance(value, Sized) and not isinstance(value, fx.Proxy) else id(value)
