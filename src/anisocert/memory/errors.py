"""The error of a memory that can no longer be trusted."""

from anisocert.errors import AnisocertError


class BrokenMemoryError(AnisocertError):
    """The stored promises contradict each other, or the file is damaged: nothing may be answered from it."""
