"""Every error this package raises on purpose, under one root."""


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
