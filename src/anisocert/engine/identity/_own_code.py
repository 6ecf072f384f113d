"""Whose code it is: libraries' functions and classes stand for themselves by name, the user's own by what they do."""

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

PACKAGES = ("site-packages", "dist-packages")
BY_C = (
    BuiltinFunctionType, ClassMethodDescriptorType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType,
)  # fmt: skip
OF_ALL = ("__dict__", "__weakref__")  # which classes of Python have, too


@cache
def _installed() -> tuple[str, ...]:
    """Folders of Python's own modules, of installed packages and of this one."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[2])}
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)


def is_installed_file(name: str) -> bool:
    """Whether code comes from a library's file, according to its code object.

    A .pth file may lead to the packages of another environment: those are known by the name of their folder. Where it
    leads to the user's sources, as an editable installation does, these stay the user's.
    """
    if name.startswith("<"):  # no file, wherever the process is: what was typed, or made as it runs
        return name.startswith("<frozen ")
    path = os.path.realpath(name)
    return path.startswith(_installed()) or any(f"{os.sep}{folder}{os.sep}" in path for folder in PACKAGES)


def is_installed(module: ModuleType) -> bool:
    """Whether a module is part of Python, of an installed package or of this one."""
    file = getattr(module, "__file__", None)
    if file is not None:
        return is_installed_file(file)
    if getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen"):
        return True
    # a part of a compiled library has no file of its own, and a namespace package only folders
    folders = list(getattr(module, "__path__", ()))
    top = sys.modules.get(module.__name__.partition(".")[0])
    if folders or top is None or top is module:
        return bool(folders) and all(is_installed_file(os.path.join(folder, "")) for folder in folders)
    return is_installed(top)


def name_in_library(value: Any) -> tuple[str, str] | None:
    """Module and name of a library's class or function, if that is what the library has under this name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or not is_installed(module):
        return None
    for name in (getattr(value, "__qualname__", ""), getattr(value, "__name__", "")):
        member: Any = module
        for part in name.split("."):
            member = getattr(member, part, None)
        if member is value:
            return module.__name__, name
    return None


def is_alone_in_library(function: FunctionType) -> bool:
    """Whether a function that one of a library's has made is the only one of its name in there.

    Else its name says too little: each lambda, for one, is called the same.
    """
    code = function.__code__
    outer: Any = sys.modules.get(function.__globals__.get("__name__", ""))
    for part in code.co_qualname.partition(".<locals>.")[0].split("."):
        outer = getattr(outer, part, None)
    inside = codes(outer.__code__) if isinstance(outer, FunctionType) and is_installed_file(code.co_filename) else ()
    return [inner for inner in inside if inner.co_qualname == code.co_qualname] == [code]


def is_of_own_extension(kind: type) -> bool:
    """Whether a class is of an extension module of the user's own: one of Python defines none of C's descriptors."""
    module = sys.modules.get(kind.__module__)
    # without a file: what several libraries share
    if module is None or getattr(module, "__file__", None) is None or is_installed(module):
        return False
    for name, value in vars(kind).items():
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        owner = "__self__" if isinstance(function, BuiltinFunctionType) else "__objclass__"
        if isinstance(function, BY_C) and name not in OF_ALL and getattr(function, owner) is kind:
            return True
    return False


def is_in_a_library(value: Any, name: str) -> bool:
    """Whether some library that is loaded has a value under this name."""
    first, _, rest = name.partition(".")
    for module in list(sys.modules.values()):
        member = getattr(module, "__dict__", {}).get(first)
        for part in filter(None, rest.split(".")):
            member = getattr(member, part, None)
        if member is value and is_installed(module):
            return True
    return False


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions and classes inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)
