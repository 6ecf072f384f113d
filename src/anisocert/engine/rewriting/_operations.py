"""The operators that a network applies to its input, with all that they are given: what it is on every input."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from anisocert.engine._watching import Watch
from anisocert.errors import ModelError

# Operators whose results Python can look at, or that draw: a graph has them, but not what they decide, nor their seed.
UNSEEN = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded}
# The same without an operator.
TO_PYTHON = {
    "tolist", "numpy", "__array__", "data_ptr", "storage", "untyped_storage", "__dlpack__", "to_dlpack", "tensor",
    "apply_", "map_", "__repr__", "__str__", "__format__",
}  # fmt: skip
BY_PLACE = "aten.as_strided.default"  # reads memory by its places, which another layout changes
FRAGILE = ("aten.view.default", "aten._reshape_alias.default")  # views in one layout that are copies in another


class Operation(NamedTuple):
    """An operator that is given something of the input. given: see `_OfInput`; constants: tensors not made of it."""

    name: str
    given: tuple[object, ...]
    constants: tuple[Tensor, ...] = ()

    def same(self, other: "Operation") -> bool:
        """Whether it is the same operator, given the same."""
        if (self.name, self.given) != (other.name, other.given):
            return False
        return all(_same(*pair) for pair in zip(self.constants, other.constants, strict=True))


def operations(call: nn.Module, sample: Tensor) -> list[Operation]:
    """The operators of a call, and what it returns; an error where these do not define it. sample: not changed."""
    watch = _OfInput(sample.clone())
    with torch.no_grad(), _ToPython(watch), watch:
        returned = tree_leaves(call(watch.x))
    if watch.refused is not None:  # which the call may have caught
        raise watch.refused
    if not any(isinstance(leaf, Tensor) and watch.knows(leaf) for leaf in returned):
        raise ModelError("its scores are not made of its input by operators alone")
    return [*watch.operations, Operation("returned", watch.seen(returned))]


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether constants are the same: weights, say, or the results of the same calculation."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return (one.data_ptr() == other.data_ptr() and one.stride() == other.stride()) or torch.equal(one, other)


class _Write(NamedTuple):
    """A write in place: by which operator, through which tensor, and whether that is a fragile view."""

    operator: int
    through: Tensor
    fragile: bool


class _ToPython(TorchFunctionMode):
    """Refuses what hands values of the input to Python."""

    def __init__(self, watch: "_OfInput") -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        leaves = tree_leaves((args, kwargs)) if name in TO_PYTHON else ()
        if any(isinstance(leaf, Tensor) and self._watch.knows(leaf) for leaf in leaves):
            self._watch.refuse(f"its forward calls {name}, and a graph does not see what that decides")
        return func(*args, **(kwargs or {}))


class _OfInput(Watch):
    """Keeps the operators that are given something of the input, in order, with all that they are given.

    Of what is made of the input that is which result of which operator wrote it last, and which part of its memory it
    is: where a network writes in place, torch.fx often does not, which only other views of that memory would show.
    Operators that are given nothing of it compute with weights and constants, and a graph may have computed them once.
    """

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x, self.operations = x, list[Operation]()
        storage = x.untyped_storage()
        self.alive = {storage._cdata: storage}  # of the input and what is made of it
        self.written: dict[int, tuple[int, int]] = {storage._cdata: (0, 0)}  # by which result of which operator
        self.writes: dict[int, list[_Write]] = {storage._cdata: []}  # in place
        self.born = {id(x): (x, 0, False)}  # tensors; after which operator, and whether fragile
        self.nesting = _nesting()
        self.refused: ModelError | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        constants = tuple(tensor for tensor in tensors if not self.knows(tensor))
        if len(constants) == len(tensors):
            out = func(*args, **(kwargs or {}))
            self._born(func, tensors, out)  # something of the input may be written to it
            return out
        if _nesting() != self.nesting:
            self.refuse("its forward sets autocast, which a graph would not")
        if UNSEEN.intersection(getattr(func, "tags", ())) and "attention" not in str(func):
            self.refuse(f"its forward calls {func}, and a graph does not see what that decides")
        if str(func) == BY_PLACE:
            self.refuse("its forward reads memory by its places")
        self._refuse_aliases(tensor for tensor in tensors if self.knows(tensor))
        given = self.seen(leaves)  # before it may write to them
        out = func(*args, **(kwargs or {}))
        name = str(func).replace("_.", ".", 1)  # torch.fx makes y + x of y += x
        self.operations.append(Operation(name, given, constants))
        number, results = len(self.operations), [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        for tensor in written(func, args, kwargs or {}):
            self._note(tensor, number, 0)
            _, _, fragile = self.born.setdefault(id(tensor), (tensor, number, False))
            self.writes[tensor.untyped_storage()._cdata].append(_Write(number, tensor, fragile))
        for at, tensor in enumerate(results):
            if not self.knows(tensor):
                self._note(tensor, number, at)
        self._born(func, tensors, out)
        return out

    def _born(self, func: Any, tensors: list[Tensor], out: Any) -> None:
        """Remember what an operator has made. tensors: that it was given."""
        storages = {tensor.untyped_storage()._cdata for tensor in tensors}
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                shares = leaf.untyped_storage()._cdata in storages  # else it has memory of its own
                fragile = shares and (str(func) in FRAGILE or any(self._is_fragile(tensor, leaf) for tensor in tensors))
                self.born.setdefault(id(leaf), (leaf, len(self.operations), fragile))

    def refuse(self, why: str) -> None:
        """Raise an error, and remember it."""
        self.refused = ModelError(why)
        raise self.refused

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor is of the input."""
        return tensor.untyped_storage()._cdata in self.alive

    def seen(self, leaves: list[Any]) -> tuple[object, ...]:
        """What tells leaves of arguments from others; constants are compared by themselves."""
        return tuple(map(self._seen, leaves))

    def _seen(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return repr(leaf)
        if not self.knows(leaf):
            return "constant"
        writer = self.written[leaf.untyped_storage()._cdata]
        return writer, leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.storage_offset()

    def _note(self, tensor: Tensor, number: int, at: int) -> None:
        storage = tensor.untyped_storage()
        self.alive[storage._cdata], self.written[storage._cdata] = storage, (number, at)
        self.writes.setdefault(storage._cdata, [])

    def _is_fragile(self, source: Tensor, view: Tensor) -> bool:
        """Whether a view's memory is that of a fragile view."""
        _, _, fragile = self.born.get(id(source), (source, 0, False))
        return fragile and source.untyped_storage()._cdata == view.untyped_storage()._cdata

    def _refuse_aliases(self, tensors: Iterator[Tensor]) -> None:
        for tensor in tensors:
            _, born, fragile = self.born.get(id(tensor), (tensor, 0, False))
            for write in self.writes[tensor.untyped_storage()._cdata]:
                if write.operator > born and write.through is not tensor and (fragile or write.fragile):
                    self.refuse("its forward writes through a view that is a copy in another layout")


def _nesting() -> int:
    """How many contexts of autocast there are around."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """What an operator writes to, of what it is given."""
    schema = getattr(func, "_schema", None)  # operators that take functions have none, and write to nothing
    for at, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            yield from (leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))
