"""A network as a graph, which is the network on every input and not on the tried ones alone.

torch.fx runs `forward` on stand-ins for tensors. Code can tell these from tensors (`isinstance(x, Tensor)`, an
exception of theirs that it catches) and do something else, perhaps on rare inputs alone, where no trial finds it. But
whatever a network computes of its input, the values that it decides by included, it computes by operators: so the graph
must have all of those that the network has.
"""

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from anisocert.errors import ModelError

Operations = list[tuple[str, tuple[tuple[int, ...], ...]]]


def traced(model: nn.Module, sample: Tensor) -> fx.GraphModule:
    """The graph of a model; an error where it would not be the model. sample: `b x *shape`, which stays as it is."""
    before = _state(model)
    network = fx.symbolic_trace(model)
    if _state(model) != before:
        raise ModelError("its forward changes it, which a graph would not")
    if _operations(model, sample) != _operations(network, sample):
        raise ModelError("its forward does other things with what traces it than with tensors")
    return network


def _state(model: nn.Module) -> list[object]:
    """What tells whether a model has changed: which tensors it has, how often they were written, and its numbers."""
    tensors = [(id(one), one._version) for one in (*model.parameters(), *model.buffers())]
    numbers = [
        (name, value if isinstance(value, int | float) else None)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, int | float | fx.Proxy)
    ]
    return [*tensors, *numbers]


def _operations(call: nn.Module, sample: Tensor) -> Operations:
    watch = _OfInput(sample.clone())
    with torch.no_grad(), watch:
        call(watch.x)
    return watch.operations


class _OfInput(TorchDispatchMode):
    """Keeps the operators that are given something of the input, in order, with the shapes of what they are given.

    Others compute with weights and constants; those a graph may have computed once.
    """

    supports_higher_order_operators = True

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x, self.operations = x, Operations()
        self.alive = {x.untyped_storage()._cdata: x.untyped_storage()}  # of the input and what is made of it

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would import its compiler here, for more than a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        of_input = any(one.untyped_storage()._cdata in self.alive for one in given)
        out = func(*args, **(kwargs or {}))
        if of_input:
            name = str(func).replace("_.", ".", 1)  # torch.fx makes y + x of y += x
            self.operations.append((name, tuple(tuple(one.shape) for one in given)))
            for made in tree_leaves(out):
                if isinstance(made, Tensor):
                    storage = made.untyped_storage()
                    self.alive[storage._cdata] = storage
        return out
