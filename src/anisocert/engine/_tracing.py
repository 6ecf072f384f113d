"""A network as a graph, which is the network on every input and not on the tried ones alone.

torch.fx runs `forward` on stand-ins for tensors. Code can tell these from tensors (`isinstance(x, Tensor)`, an
exception of theirs that it catches) and do something else, perhaps on rare inputs alone, where no trial finds it. But
whatever a network computes of its input, the values that it decides by included, it computes by operators: so the graph
must have all of those that the network has, given the same things.
"""

from collections.abc import Iterator, Sized
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from anisocert.errors import ModelError

OWN = {*vars(nn.Module())}  # attributes that every module has
MADE = "_tensor_constant"  # those that torch.fx adds


class Operation(NamedTuple):
    """An operator that is given something of the input. given: see `_OfInput`; constants: tensors not made of it."""

    name: str
    given: tuple[object, ...]
    constants: tuple[Tensor, ...]

    def same(self, other: "Operation") -> bool:
        """Whether it is the same operator, given the same."""
        if (self.name, self.given) != (other.name, other.given):
            return False
        return all(_same(*pair) for pair in zip(self.constants, other.constants, strict=True))


def traced(model: nn.Module, sample: Tensor) -> fx.GraphModule:
    """The graph of a model; an error where it would not be the model. sample: `b x *shape`, which stays as it is."""
    ones = _operations(model, sample)
    before = _state(model)  # after a first call, in which some networks keep what they need in every call
    network = fx.symbolic_trace(model)
    if _state(model) != before:
        raise ModelError("its forward changes it, which a graph would not")
    others = _operations(network, sample)
    if len(ones) != len(others) or not all(one.same(other) for one, other in zip(ones, others, strict=True)):
        raise ModelError("its forward does other things with what traces it than with tensors")
    return network


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
    return len(value) if isinstance(value, Sized) and not isinstance(value, fx.Proxy) else id(value)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether constants are the same: weights, say, or the results of the same calculation."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return (one.data_ptr() == other.data_ptr() and one.stride() == other.stride()) or torch.equal(one, other)


def _operations(call: nn.Module, sample: Tensor) -> list[Operation]:
    watch = _OfInput(sample.clone())
    with torch.no_grad(), watch:
        call(watch.x)
    return watch.operations


class _OfInput(TorchDispatchMode):
    """Keeps the operators that are given something of the input, in order, with all that they are given.

    Of what is made of the input that is the number of the operator that wrote it last, and which part of its memory it
    is: where a network writes in place, torch.fx often does not, which only other views of that memory would show.
    Operators that are given nothing of it compute with weights and constants, and a graph may have computed them once.
    """

    supports_higher_order_operators = True

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x, self.operations = x, list[Operation]()
        storage = x.untyped_storage()
        self.alive = {storage._cdata: storage}  # of the input and what is made of it
        self.written = {storage._cdata: 0}  # by which operator

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would import its compiler here, for more than a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        constants = tuple(one for one in leaves if isinstance(one, Tensor) and not self._of_input(one))
        if len(constants) == sum(isinstance(one, Tensor) for one in leaves):
            return func(*args, **(kwargs or {}))
        given = tuple(map(self._seen, leaves))  # before it may write to them
        out = func(*args, **(kwargs or {}))
        name = str(func).replace("_.", ".", 1)  # torch.fx makes y + x of y += x
        self.operations.append(Operation(name, given, constants))
        for tensor in _written(func, args, kwargs or {}):
            self._writes(tensor)
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and not self._of_input(tensor):
                self._writes(tensor)
        return out

    def _of_input(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self.alive

    def _writes(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.alive[storage._cdata], self.written[storage._cdata] = storage, len(self.operations)

    def _seen(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return repr(leaf)
        if not self._of_input(leaf):
            return "constant"
        writer = self.written[leaf.untyped_storage()._cdata]
        return writer, tuple(leaf.shape), leaf.stride(), leaf.storage_offset()


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """What an operator writes to, of what it is given."""
    schema = getattr(func, "_schema", None)  # operators that take functions have none, and write to nothing
    for at, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[at] if at < len(args) else kwargs.get(argument.name)
            yield from (one for one in tree_leaves(given) if isinstance(one, Tensor))
