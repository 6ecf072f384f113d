"""What a function's code reads beyond its arguments: globals, and what it takes from modules."""

import dis
import importlib.util
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from anisocert.engine.identity._own_code import codes, is_installed, is_installed_file

NOT_IMPORTED = object()
IMPORT = "import "  # before the name of a module that code imports as it runs
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
TAKE = ("LOAD_ATTR", "LOAD_METHOD")
# By which code reads what it does not name.
ANYTHING = {"eval", "exec", "globals", "__import__", "import_module"}
ANYTHING_OF = {"import_module", "__globals__", "__builtins__", "f_globals"}
ANYTHING_FROM = {"sys.modules", "importlib.import_module", *(f"builtins.{name}" for name in ANYTHING)}
REACHING = (eval, exec, globals, __import__, importlib.import_module, sys.modules)  # under whatever name
TORCH_OPERATORS = ("aten", "prim", "prims", "quantized", "torchvision")


def globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function's code reads beyond its arguments, by name: globals, and what it takes from modules.

    A module of the user's own, also one that the code imports as it runs, counts by those of its attributes that the
    code names. What one that is not imported yet would bring is unknown: NOT_IMPORTED.
    """
    own = list(codes(function.__code__))
    attributes = {name for code in own for name in code.co_names}
    # without the prefixes that widen an argument, whose number depends on how large the function is
    listings = [[op for op in dis.get_instructions(code) if op.opname != "EXTENDED_ARG"] for code in own]
    meant = _meant(listings, function.__globals__)
    handed, values = _handed(listings, function.__globals__, meant), dict[str, Any]()

    def whole(name: Any) -> str:
        module = function.__globals__.get(name)
        return str(module.__name__ if isinstance(module, ModuleType) else meant.get(name, name))

    values |= dict.fromkeys(ANYTHING_FROM.intersection(meant.values()), NOT_IMPORTED)
    for instructions in listings:
        for at, op in enumerate(instructions):
            name, is_global, is_taken = str(op.argval), op.opname in GLOBAL, op.opname in TAKE
            if is_global and name in function.__globals__:
                value = function.__globals__[name]
                values[name] = NOT_IMPORTED if any(value is way for way in REACHING) else value
            elif (is_global and name in ANYTHING) or (
                is_taken and (name in ANYTHING_OF or f"{whole(instructions[at - 1].argval)}.{name}" in ANYTHING_FROM)
            ):
                values[name] = NOT_IMPORTED
            elif op.opname == "IMPORT_NAME":
                values |= _imported(name, instructions[at - 2].argval, function.__globals__.get("__package__"))
    for name in sorted(values):
        value = values[name]
        if isinstance(value, ModuleType) and name.removeprefix(IMPORT) not in handed:
            yield from _taken(name, value, attributes, handed, set())
        else:
            yield name, value
            if value is torch:
                yield from _other_operators(name, value, attributes, handed)


def _meant(listings: list[list[dis.Instruction]], namespace: dict[str, Any]) -> dict[str, str]:
    """What names stand for that imports give, as code runs. namespace: globals."""
    meant = dict[str, str]()
    for instructions in listings:
        whole, names, imported = "", None, ""
        for at, op in enumerate(instructions):
            if op.opname == "IMPORT_NAME":
                whole = _whole(op.argval, instructions[at - 2].argval, namespace.get("__package__"))
                names, imported = instructions[at - 1].argval, whole.partition(".")[0]
            elif op.opname == "IMPORT_FROM":
                imported = f"{whole}.{op.argval}" if names else whole
            elif op.opname.startswith("STORE_") and imported:
                meant[str(op.argval)], imported = imported, ""
    return meant


def _handed(listings: list[list[dis.Instruction]], namespace: dict[str, Any], meant: dict[str, str]) -> set[str]:
    """What is not only asked for an attribute: other code may take anything from a module that it is given.

    namespace: globals; meant: see `_meant`. By name with dots, from a global or an import on; of anything else it
    begins with a dot.
    """
    chains = set[str]()
    for instructions in listings:
        chain = ""
        for op, follows in zip(instructions, [*instructions[1:], None], strict=True):
            if op.opname in TAKE:
                chain += f".{op.argval}"
            elif op.opname in GLOBAL:
                chain = str(op.argval)
            elif op.opname.startswith("LOAD_") and op.opname not in ("LOAD_CONST", "LOAD_CLOSURE"):
                *earlier, chain = op.argval if isinstance(op.argval, tuple) else (op.argval,)  # some load two
                chains |= meant.keys() & set(earlier)
                chain = chain if chain in meant else ""
            else:
                chain = ""
            if follows is None or follows.opname not in TAKE or follows.argval == "__dict__":
                chains.add(chain)
    chains |= {
        meant[first] + dot + more for first, dot, more in (name.partition(".") for name in chains) if first in meant
    }
    if any(name.startswith(".") and name.endswith(".ops") for name in chains):  # of torch under another name, perhaps
        chains |= {f"{name}.ops" for name in chains if name == "torch" or namespace.get(name) is torch}
    return chains


def _imported(name: str, level: Any, package: str | None) -> dict[str, Any]:
    """The modules that an import statement brings, as far as they are loaded."""
    whole = _whole(name, level, package)
    parts = whole.split(".")
    modules = {".".join(parts[: n + 1]): sys.modules.get(".".join(parts[: n + 1])) for n in range(len(parts))}
    if modules[whole] is not None or _is_findable_library(parts[0]):
        return {f"{IMPORT}{part}": module for part, module in modules.items() if module is not None}
    return {f"{IMPORT}{whole}": NOT_IMPORTED}


def _whole(name: str, level: Any, package: str | None) -> str:
    return importlib.util.resolve_name("." * level + name, package or "") if level else name


def _is_findable_library(top: str) -> bool:
    """Whether importing a module of this name would bring a library's; it is not imported for that."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    return spec is not None and (spec.origin in ("built-in", "frozen") or is_installed_file(spec.origin or ""))


def _taken(
    path: str, module: ModuleType, attributes: set[str], handed: set[str], seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """What code that names these attributes can take from a module."""
    yield from _other_operators(path, module, attributes, handed)
    if is_installed(module):
        yield path, f"module {module.__name__}"
        return
    if id(module) in seen:
        return
    seen.add(id(module))
    for name in sorted((attributes | {"__getattr__"}) & vars(module).keys()):
        value = vars(module)[name]
        if isinstance(value, ModuleType) and (
            f"{path}.{name}".removeprefix(IMPORT) not in handed or is_installed(value)
        ):
            yield from _taken(f"{path}.{name}", value, attributes, handed, seen)
        else:
            yield f"{path}.{name}", value


def is_other_operators(value: Any) -> bool:
    """Whether this is torch.ops, or a part of it whose operators are not torch's own."""
    return value is torch.ops or (isinstance(value, torch._ops._OpNamespace) and value.name not in TORCH_OPERATORS)


def _other_operators(
    path: str, module: ModuleType, attributes: set[str], handed: set[str]
) -> Iterator[tuple[str, Any]]:
    """What is not torch's own of the operators that code which names these attributes can take from a module."""
    if module is torch and f"{path}.ops".removeprefix(IMPORT) in handed:
        yield f"{path}.ops", torch.ops
    elif module is torch.ops or (module is torch and "ops" in attributes):
        yield from _operators(attributes)
    elif is_other_operators(module):
        yield path, module


def _operators(attributes: set[str]) -> Iterator[tuple[str, Any]]:
    """Operators that are not torch's own, which anybody may have put under torch.ops."""
    for name in sorted({full.partition(".")[0] for full in torch._C._dispatch_get_all_op_names()}):
        namespace, _, operator = name.partition("::")
        if {namespace, operator} <= attributes and namespace not in TORCH_OPERATORS:
            yield f"torch.ops.{namespace}.{operator}", getattr(getattr(torch.ops, namespace), operator)
