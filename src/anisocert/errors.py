"""Every error this package raises on purpose, under one root."""


class AnisocertError(Exception):
    """Root of all errors that anisocert raises on purpose."""


class ArgumentError(AnisocertError, ValueError):
    """An argument is outside what it may be; the message names it, what was expected and what came."""


class ModelError(AnisocertError):
    """The network does something a certificate cannot stand on: wrong shape, NaN, training mode."""


class MissingExtraError(AnisocertError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class AnisocertWarning(UserWarning):
    """Something that is allowed and probably not what was meant, said before the work starts."""
