"""The model hash: SHA-256 of everything a network's function can depend on, read the way pickle would and never run.

Tensors and arrays by their bytes, settings by their values, objects by what pickle would keep of them; the user's own
classes and functions by their code, with defaults, closures and the globals that they name; those of libraries by
name, so that a new version of one does not end a memory. What cannot be read is refused.
"""

import copyreg
import math
import types
import weakref
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from anisocert.engine.exported import GUARDS
from anisocert.engine.given import Classifier
from anisocert.engine.identity._callables import Callables
from anisocert.engine.identity._content import REMEDY
from anisocert.engine.identity._own_code import is_in_a_library, is_installed, is_of_own_extension, name_in_library
from anisocert.engine.numerics import Precision
from anisocert.errors import ModelError

# Bookkeeping that every module has, or that torch.compile leaves on it: hooks of the forward pass are read separately,
# the others take no part in it.
BOOKKEEPING = {*vars(nn.Module()), "_compiled_call_impl", "_is_torch_compile"} - {
    "_parameters", "_buffers", "_modules", "training",
}  # fmt: skip
TRACED = {"_graph", "_code", "_tracer_cls", "_tracer_extras", "_lineno_map", "_prologue_start", "meta"}
NO_BEHAVIOUR = {
    "__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__orig_bases__",
    "__parameters__", "__type_params__", "__abstractmethods__", "_abc_impl", "__slotnames__",
    "_autograd_function_id",  # how many the process has made
}  # fmt: skip


def name_of(model_id: str, precision: Precision, grid: float) -> str:
    """What stands for a network that its user named: precision and grid are not the user's to remember.

    Both always, so that no two classifiers share a name: the default precision depends on the device.
    """
    return f"{model_id}, {precision} on grid {f'2^{math.log2(grid):g}' if grid else 0}"


def hash_of(model: Classifier, precision: Precision, grid: float) -> str:
    """SHA-256 of a module, its precision and grid: equal where votes mean the same classifier, in any process.

    To be taken before the first call: what a network keeps while it runs is not part of it.

    A class whose instances know their content better than their attributes show it (a session of another runtime) may
    have a method `__identity__`, whose result then stands for those attributes.
    """
    assert isinstance(model, nn.Module)
    if any((_global_forward_hooks, _global_forward_pre_hooks)):
        raise ModelError(f"expected no hooks on all modules of the process, which no hash covers, got some: {REMEDY}")
    reading = _Reading()
    try:
        reading.read(precision, "precision")
        if grid:  # without one the hash is that of networks from before there were grids
            reading.read(grid, "grid")
        reading.read(model, type(model).__name__)
    except RecursionError as error:
        raise ModelError(f"expected a network that can be hashed, got one nested too deeply: {REMEDY}") from error
    return reading.digest.hexdigest()


class _Reading(Callables):
    """A walk that knows modules, classes, functions and other objects."""

    def _read_object(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, nn.Module):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
        elif kind is types.ModuleType:
            self._python_module(value)
        elif kind is weakref.ref:
            self._put("reference")
            self.read(value(), "()")
        elif isinstance(value, Enum):
            self._put("enum", value.name)
            self.read(kind, ".__class__")
            self.read(value.value, ".value")
            self._mapping({name: held for name, held in vars(value).items() if not name.startswith("_")})
        elif not self._callable(value):
            self._object(value)

    def _module(self, module: nn.Module) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            self._script(module)
            return
        if name_in_library(type(module)) == GUARDS:  # they raise, or do nothing
            self._put("guards")
            return
        self._put("module")
        traced = isinstance(module, fx.GraphModule)  # its class is made anew for each, with the graph as generated code
        self.read(type(module).__bases__[0] if traced else type(module), ".__class__")
        if self._knows_itself(module):
            return
        attributes = vars(module)
        left_out = BOOKKEEPING
        if isinstance(module, fx.GraphModule):
            left_out = BOOKKEEPING | TRACED
            python = module.graph.python_code("self")
            self._put("graph", python.src)
            named = {name: value for name, value in python.globals.items() if name in python.src}
            self.read(named, ".graph")
            for node in module.graph.nodes:  # in the code above an operator is a name alone
                if isinstance(node.target, torch._ops.OpOverload):
                    self._expect_torch_operator(node.target)
        for name in ("_parameters", "_buffers", "_modules"):
            self._mapping(attributes[name])
        for name in ("_forward_pre_hooks", "_forward_hooks"):  # their keys count what the process has registered
            with_kwargs, always = attributes[f"{name}_with_kwargs"], attributes["_forward_hooks_always_called"]
            hooks = [(hook, key in with_kwargs, key in always) for key, hook in attributes[name].items()]
            self.read(hooks, f".{name}")
        self._state(module, left_out | {"_parameters", "_buffers", "_modules"})

    def _knows_itself(self, value: Any) -> bool:
        identity = getattr(type(value), "__identity__", None)
        if identity is not None:
            self.read(identity(value), ".__identity__()")
        return identity is not None

    def _state(self, value: Any, left_out: Iterable[str] = ()) -> None:
        """What an object holds, in its dictionary and in slots."""
        held = {name: item for name, item in getattr(value, "__dict__", {}).items() if name not in left_out}
        for kind in type(value).__mro__:
            for name, slot in vars(kind).items():
                if isinstance(slot, types.MemberDescriptorType):
                    with suppress(AttributeError):  # not assigned
                        held[f"{kind.__qualname__}.{name}"] = slot.__get__(value)
        self.alive.append(held)
        self._mapping(held)

    def _class(self, kind: type) -> None:
        if (name := name_in_library(kind)) is not None:
            self._put("class of a library", *name)
            return
        if is_of_own_extension(kind):
            self._refuse(kind, "it is compiled code of your own")
        self._put("class", kind.__qualname__)
        self._sequence("bases", kind.__bases__)
        self.read(type(kind), ".__class__")
        self._mapping({name: value for name, value in vars(kind).items() if name not in NO_BEHAVIOUR})

    def _python_module(self, module: types.ModuleType) -> None:
        self._put("python module", module.__name__)
        if not is_installed(module):
            self._mapping({name: value for name, value in vars(module).items() if not name.startswith("__")})

    def _object(self, value: Any) -> None:
        kind = type(value)
        self._put("object")
        self.read(kind, ".__class__")
        if self._knows_itself(value):
            return
        if name_in_library(kind) is None:  # what it hides from pickle may matter; some is read twice
            self._state(value)
        reducer = copyreg.dispatch_table.get(kind)
        try:
            reduced: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception as error:  # it may be anyone's code
            self._refuse(value, error)
        if isinstance(reduced, str):
            self._named(value, reduced)
            return
        factory, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):
            state = {name: item for name, item in state.items() if name != "_sklearn_version"}
        content = (factory, arguments, state, None if items is None else [*items], None if pairs is None else [*pairs])
        self.alive.append(content)
        for part in content:
            self.read(part, "")

    def _named(self, value: Any, name: str) -> None:
        """A thing that pickle keeps by name alone: it must be what a library has under that name.

        Only the thing itself can say which library: which modules hold it depends on what was imported so far.
        """
        if not is_in_a_library(value, name):
            self._refuse(value, f"it is known by the name {name} alone")
        self._put("named", getattr(value, "__module__", None), name)
