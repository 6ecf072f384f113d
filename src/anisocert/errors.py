"""Every error this package raises on purpose, under one root."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager


class AnisocertError(Exception):
    """Root of all errors that anisocert raises on purpose."""


class ArgumentError(AnisocertError, ValueError):
    """An argument is not what it may be; the message names it, what was expected and what was given."""


class ModelError(AnisocertError):
    """The network does something a certificate cannot rest on: wrong shape, NaN, training mode."""


class MissingExtraError(AnisocertError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class AnisocertWarning(UserWarning):
    """Something allowed but probably not intended, reported before the work starts."""


def expect_one_of(name: str, value: object, known: Collection[str]) -> None:
    """An error unless a value, which may be anything, is one of the known names."""
    if not isinstance(value, str) or value not in known:
        raise ArgumentError(f"expected {name} to be one of {', '.join(known)}, got {repr(value)[:100]}")


@contextmanager
def from_extra(extra: str, what: str) -> Iterator[None]:
    """For imports of what an extra brings: an error that names it if they fail. what: as in "a run needs pyarrow"."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{what}: pip install 'anisocert[{extra}]'") from error
