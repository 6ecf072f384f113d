"""A network from the user's own code, `package.module:function`: imported, called, with errors that name the cause."""

import copy
import importlib
import inspect
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.export import ExportedProgram
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from anisocert.engine.exported import expect_copied_whole, has_exported, training_parts
from anisocert.engine.given import of_estimator
from anisocert.errors import ArgumentError, ModelError
from anisocert.inputs import told

BY_MODE = (_DropoutNd, _NormBase, nn.RReLU, nn.MultiheadAttention)  # layers of torch that know their mode


def from_function(text: str) -> tuple[nn.Module, tuple[str, ...]]:
    """The module that the user's function returns, or that they name, and what is worth knowing about it.

    It may be defined in the current folder.
    """
    module, _, name = text.partition(":")
    sys.path.insert(0, "")
    try:
        attribute = _named(module, name)
        model = attribute if isinstance(attribute, nn.Module) else _called(attribute, text)
    finally:
        sys.path.remove("")
    if not isinstance(model, nn.Module):
        raise ModelError(f"expected an nn.Module from {text}, got {told(model)}{_wrapping(model)}")
    training = next(filter(partial(_mode_matters, model), training_parts(model)), None)
    note = f"{text} is in training mode (for example {training}), and is used in evaluation mode" if training else ""
    if has_exported(model):
        expect_copied_whole(model)
        model = copy.deepcopy(model)  # which, unlike the program itself, can be put into evaluation mode
    return model, (note,) if note else ()


def _mode_matters(model: nn.Module, name: str) -> bool:
    """Whether a part may answer otherwise in evaluation mode; a wrapper's `training` says nothing about its parts."""
    part = dict(model.named_modules(remove_duplicate=False)).get(name, model)
    if isinstance(part, nn.RNNBase):
        return part.dropout > 0
    custom = not type(part).__module__.startswith("torch.nn.") and next(part.children(), None) is None
    return custom or isinstance(part, BY_MODE)


def _wrapping(value: Any) -> str:
    """How to make a network of something else."""
    if wrapped := of_estimator(value):
        return f": return {wrapped}"
    if isinstance(value, ExportedProgram):
        return ": return program.module()"
    if isinstance(value, type):
        return f": return {value.__name__}(), with its weights loaded"
    if value is None:
        return ": does it lack a return?"
    if isinstance(value, Mapping):
        return ": put weights into the network, with network.load_state_dict(...), and return that"
    if isinstance(value, tuple) and value and isinstance(value[0], nn.Module):
        return " that begins with one: return that alone"
    if callable(value):
        return ": a bare callable has no weights to hash; give it to anisocert.certify in Python with a model_id"
    return ""


def _named(module: str, name: str) -> Any:
    if module.endswith(".py") and Path(module).is_file():
        raise ArgumentError(
            f"expected a Python module, got the file {module}: write {module.removesuffix('.py')}:{name}"
        )
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # user code may raise anything
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ArgumentError(
                f"expected a Python module {module}, in the current folder or installed, got none in {Path.cwd()}: "
                "go to the folder that holds it, or name that folder in the variable PYTHONPATH"
            ) from error
        raise ModelError(f"expected {module} to be imported, got what that raised: {_raised(error)}") from error
    try:
        return getattr(imported, name)
    except AttributeError as error:
        source = getattr(imported, "__file__", None) or module
        raise ArgumentError(f"expected a function {module}:{name}, got no such name in {source}") from error


def _called(function: Any, text: str) -> Any:
    if function is None:
        raise ModelError(f"expected {text} to be a function, got None, as where an import failed and was caught")
    try:
        inspect.signature(function).bind()
    except TypeError as error:  # not callable, or one that wants arguments
        raise ModelError(
            f"expected {text} to be a function without arguments, or an nn.Module, got {type(function).__name__}: "
            f"{str(error)[:200]}"
        ) from error
    except ValueError:  # builtins may have no signature
        pass
    try:
        return function()
    except Exception as error:  # user code may raise anything
        raise ModelError(f"expected {text}() to return an nn.Module, got what it raised: {_raised(error)}") from error


def _raised(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:  # which its repr leaves out
        return f"{type(error).__name__}: {error}"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return f"{error!r}{f': install {missing}' if missing else ''}"
