"""What a memory says when it cannot be trusted any more."""

from anisocert.errors import AnisocertError


class BrokenMemoryError(AnisocertError):
    """The stored promises contradict each other, or the file is damaged: nothing may be answered from it."""
