"""Functions, and the things that classes make of them, as bytes for a hash: the user's by their code."""

import functools
import types
from typing import Any

import torch

from anisocert.engine.identity._content import Content
from anisocert.engine.identity._globals import NOT_IMPORTED, TORCH_OPERATORS, globals_of, is_other_operators
from anisocert.engine.identity._own_code import (
    is_alone_in_library,
    is_installed,
    is_installed_file,
    name_in_library,
)
from anisocert.engine.identity._script import parts_of_script

DESCRIPTORS = (
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MethodDescriptorType, types.WrapperDescriptorType,
)  # fmt: skip
ADDRESS = "_torchdynamo_wrapper_id"  # where torch.compile's wrapper lies in memory


class Callables(Content):
    """A walk that knows functions, with their defaults, closures and the globals that they name."""

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
            self._expect_torch_operator(value)
            self._put("operator", value)
        elif is_other_operators(value):
            self._refuse(value, "it has operators that are not torch's own")
        elif (name := name_in_library(value)) is not None:  # Cython's functions have no type that Python knows
            self._put("function of a library", *name)
        elif kind is functools._lru_cache_wrapper:
            self._put("wrapped")
            self.read(value.__wrapped__, "")
        else:
            return False
        return True

    def _expect_torch_operator(self, value: Any) -> None:
        if str(value).partition(".")[0] not in TORCH_OPERATORS:
            self._refuse(value, f"{value} is an operator that is not torch's own")

    def _function(self, function: types.FunctionType) -> None:
        compiled = vars(function).get("_torchdynamo_orig_callable")
        # which functools.wraps copies onto the wrappers that a user puts around it
        if compiled is not None and is_installed_file(function.__code__.co_filename):
            self.read(compiled, "")
            return
        if (library_name := name_in_library(function)) is not None:
            self._put("function of a library", *library_name)
            return
        code, attributes = function.__code__, {k: v for k, v in vars(function).items() if k != ADDRESS}
        if is_installed_file(code.co_filename):  # a decorator's, say: what it holds may still be the user's own
            self._put("code of a library", function.__globals__.get("__name__"), code.co_qualname)
        if not is_alone_in_library(function):
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
            if owner is not None and not is_installed(owner):
                self._refuse(value, "it is compiled code of your own")
            name = name_in_library(value) or (getattr(owner, "__name__", value.__module__), value.__qualname__)
            self._put("function of a library", *name)
        else:
            self._put("method", value.__name__)
            self.read(owner, ".__self__")

    def _script(self, value: Any) -> None:
        self._put("script")
        for name, content in parts_of_script(value):
            self._put("part", name)
            self._put_bytes(content)
