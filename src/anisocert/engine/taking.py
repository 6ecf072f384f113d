"""Errors from inside a network, in words that name its inputs."""

from collections.abc import Iterator
from contextlib import contextmanager

from anisocert.engine.numerics import out_of_memory
from anisocert.errors import AnisocertError, ModelError


@contextmanager
def taking(shape: tuple[int, ...]) -> Iterator[None]:
    """For a network's first call with inputs of a shape: whatever it raises there, most often it cannot take them."""
    try:
        yield
    except Exception as error:
        if isinstance(error, AnisocertError) or out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or repr(error)
        raise ModelError(f"expected a network that takes inputs of shape {shape}, got: {reason}") from error
