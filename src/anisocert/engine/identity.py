"""The model hash: SHA-256 of everything a network's function can depend on, read the way pickle would and never run.

Tensors and arrays by their bytes, settings by their values, objects by what pickle would keep of them; the user's own
classes and functions by their code, with defaults, closures and the globals that they name; those of libraries by
name, so that a new version of one does not end a memory. What cannot be read is refused.
"""

import copyreg
import functools
import types
import weakref
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from anisocert.engine.content import REMEDY, Content
from anisocert.engine.given import Classifier
from anisocert.engine.numerics import Precision
from anisocert.engine.own_code import (
    NOT_IMPORTED,
    globals_of,
    is_in_a_library,
    is_installed,
    is_installed_file,
    name_in_library,
)
from anisocert.engine.script import parts_of_script
from anisocert.errors import ModelError

DESCRIPTORS = (
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MethodDescriptorType, types.WrapperDescriptorType,
)  # fmt: skip
# Bookkeeping that every module has: hooks of the forward pass are read separately, the others take no part in it.
BOOKKEEPING = {*vars(nn.Module()), "_compiled_call_impl"} - {"_parameters", "_buffers", "_modules", "training"}
TRACED = {"_graph", "_code", "_tracer_cls", "_tracer_extras", "_lineno_map", "_prologue_start", "meta"}
NO_BEHAVIOUR = {
    "__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__orig_bases__",
    "__parameters__", "__type_params__", "__abstractmethods__", "_abc_impl", "__slotnames__",
}  # fmt: skip
TORCH_OPERATORS = ("aten", "prim", "prims", "quantized", "torchvision")


def hash_of(model: Classifier, precision: Precision | None) -> str:
    """SHA-256 of a module and its precision: equal where votes mean the same classifier, in any process.

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
        reading.read(model, type(model).__name__)
    except RecursionError as error:
        raise ModelError(f"expected a network that can be hashed, got one nested too deeply: {REMEDY}") from error
    return reading.digest.hexdigest()


class _Reading(Content):
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
        self._put("module")
        traced = isinstance(module, fx.GraphModule)  # its class is made anew for each, with the graph as generated code
        self.read(type(module).__bases__[0] if traced else type(module), ".__class__")
        if self._knows_itself(module):
            return
        known = vars(module)
        left_out = BOOKKEEPING
        if isinstance(module, fx.GraphModule):
            left_out = BOOKKEEPING | TRACED
            python = module.graph.python_code("self")
            self._put("graph", python.src)
            named = {name: value for name, value in python.globals.items() if name in python.src}
            self.read(named, ".graph")
        for name in ("_parameters", "_buffers", "_modules"):
            self._mapping(known[name])
        for name in ("_forward_pre_hooks", "_forward_hooks"):  # their keys count what the process has registered
            with_kwargs, always = known[f"{name}_with_kwargs"], known["_forward_hooks_always_called"]
            hooks = [(hook, key in with_kwargs, key in always) for key, hook in known[name].items()]
            self.read(hooks, f".{name}")
        self._state(module, left_out | {"_parameters", "_buffers", "_modules"})

    def _script(self, value: Any) -> None:
        self._put("script")
        for name, content in parts_of_script(value):
            self._put("part", name)
            self._put_bytes(content)

    def _knows_itself(self, value: Any) -> bool:
        said = getattr(type(value), "__identity__", None)
        if said is not None:
            self.read(said(value), ".__identity__()")
        return said is not None

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
        self._put("class", kind.__qualname__)
        self._sequence("bases", kind.__bases__)
        self.read(type(kind), ".__class__")
        self._mapping({name: value for name, value in vars(kind).items() if name not in NO_BEHAVIOUR})

    def _python_module(self, module: types.ModuleType) -> None:
        self._put("python module", module.__name__)
        if not is_installed(module):
            self._mapping({name: value for name, value in vars(module).items() if not name.startswith("__")})

    def _callable(self, value: Any) -> bool:
        """Functions and the things that classes make of them; False for anything else."""
        kind = type(value)
        if kind is types.FunctionType:
            self._function(value)
        elif kind is types.MethodType:
            self._put("method")
            self.read(value.__func__, "")
            self.read(value.__self__, ".__self__")
        elif kind in (types.BuiltinFunctionType, types.MethodWrapperType):
            self._builtin(value)
        elif kind in DESCRIPTORS:
            self._put("descriptor", value.__name__)
            self.read(value.__objclass__, ".__objclass__")
        elif kind is types.CodeType:
            self._code(value)
        elif kind in (staticmethod, classmethod):
            self._put(kind.__name__)
            self.read(value.__func__, "")
        elif kind is property:
            self._sequence("property", (value.fget, value.fset, value.fdel))
        elif kind is functools.cached_property:
            self._put("cached property")
            self.read(value.func, "")
        elif isinstance(value, torch.jit.ScriptFunction):
            self._script(value)
        elif isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            if str(value).partition(".")[0] not in TORCH_OPERATORS:
                self._refuse(value, f"{value} is an operator that is not torch's own")
            self._put("operator", value)
        elif (name := name_in_library(value)) is not None:  # Cython's functions have no type that Python knows
            self._put("function of a library", *name)
        elif kind is functools._lru_cache_wrapper:
            self._put("wrapped")
            self.read(value.__wrapped__, "")
        else:
            return False
        return True

    def _function(self, function: types.FunctionType) -> None:
        compiled = vars(function).get("_torchdynamo_orig_callable")
        # which functools.wraps copies onto the wrappers that a user puts around it
        if compiled is not None and is_installed_file(function.__code__.co_filename):
            self.read(compiled, "")
            return
        if (known := name_in_library(function)) is not None:
            self._put("function of a library", *known)
            return
        code, attributes = function.__code__, dict(vars(function))
        if is_installed_file(code.co_filename):  # a decorator's, say: what it holds may still be the user's own
            self._put("code of a library", code.co_qualname)
        else:
            self._code(code)
        self._sequence("defaults", (function.__defaults__, function.__kwdefaults__, attributes))
        self._put("closure", len(function.__closure__ or ()))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                self._put("empty")
            else:
                self.read(content, f"<{name}>")
        if is_installed_file(code.co_filename):
            return
        for name, value in globals_of(function):
            self._put("global", name)
            if value is NOT_IMPORTED:
                self._refuse(function, f"{name} happens only when it runs")
            self.read(value, f"<{name}>")

    def _code(self, code: types.CodeType) -> None:
        """What it does, not where it is: no file, no line."""
        self._put(
            "code", code.co_code, code.co_exceptiontable, code.co_flags, code.co_argcount, code.co_posonlyargcount,
            code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        )  # fmt: skip
        self._sequence("constants", code.co_consts)

    def _builtin(self, value: Any) -> None:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            name = name_in_library(value) or (getattr(owner, "__name__", value.__module__), value.__qualname__)
            self._put("function of a library", *name)
        else:
            self._put("method", value.__name__)
            self.read(owner, ".__self__")

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
        made, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):
            state = {name: item for name, item in state.items() if name != "_sklearn_version"}
        content = (made, arguments, state, None if items is None else [*items], None if pairs is None else [*pairs])
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
