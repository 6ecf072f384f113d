"""A room that is a function too, so that `ac.evaluate(...)` works although a room has that name."""

import sys
from collections.abc import Callable
from inspect import signature
from types import ModuleType
from typing import Any


def callable_room(name: str, function: Callable[..., Any]) -> None:
    """Let the module of a name be called, as this function."""

    class Room(ModuleType):
        __signature__ = signature(function)

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return function(*arguments, **options)

    sys.modules[name].__class__ = Room
