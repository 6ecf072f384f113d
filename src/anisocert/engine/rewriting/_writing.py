"""Whether what a network writes in place is the same memory in every layout and type in which it may run."""

from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from anisocert.engine._watching import Watch
from anisocert.engine.rewriting._operations import written
from anisocert.engine.rewriting.graph import name_of_call, of_a_library
from anisocert.errors import ModelError

# What is a copy in some layouts or types and the tensor itself in others.
COPIES = {"contiguous", "to", "type", "type_as", "float", "double", "half", "bfloat16", "as_tensor", "asarray"}
ITSELF = "dropout"  # in the names of those that, in evaluation mode, are the tensor itself always


def expect_writes_alike(network: fx.GraphModule, sample: Tensor) -> None:
    """An error where a network writes to what is a copy in one layout or type and none in another."""
    watch = _Writes()
    with torch.no_grad(), watch:
        _Nodes(network, watch).run(sample.clone())


class _Writes(Watch):
    """Knows which memory operators have written to, and whether there were any."""

    def __init__(self) -> None:
        super().__init__()
        self.ran, self.storages = False, set[int]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran = True
        self.storages |= _storages(list(written(func, args, kwargs or {})))
        return func(*args, **(kwargs or {}))


class _Nodes(fx.Interpreter):
    """Runs a graph node by node; all that is made stays, so that no memory is another's before."""

    def __init__(self, network: fx.GraphModule, watch: _Writes) -> None:
        super().__init__(network, garbage_collect_values=False)
        self._watch, self._doubtful = watch, set[int]()

    def run_node(self, n: fx.Node) -> Any:
        """See Interpreter."""
        self._watch.ran = False
        self._watch.storages.clear()
        result = super().run_node(n)
        inputs, outputs = _storages([self.env[node] for node in n.all_input_nodes]), _storages(result)
        unseen = n.op == "call_function" and not of_a_library(n.target)  # its code is not looked into
        if self._watch.storages & (self._doubtful | (inputs if unseen else set())):
            raise ModelError("its forward writes to what is a copy in one layout or type and none in another")
        if n.op in ("call_function", "call_method"):
            name = name_of_call(n)
            same = outputs & inputs if not self._watch.ran and ITSELF not in name else set()
            self._doubtful |= inputs | outputs if name in COPIES else same
        return result


def _storages(value: Any) -> set[int]:
    return {leaf.untyped_storage()._cdata for leaf in tree_leaves(value) if isinstance(leaf, Tensor)}
