"""What can go wrong with a memory, by whose fault it is."""

from anisocert.errors import AnisocertError, ArgumentError


class BrokenMemoryError(AnisocertError):
    """The stored promises contradict each other, or the file is damaged: nothing may be answered from it."""


class ChangedError(ArgumentError):
    """The memory is no longer what was opened: its promises were moved, or it has another policy. Open it again."""


class NoFolderError(ArgumentError, FileNotFoundError):
    """There is no folder for the file of a memory."""


class ShapeError(ArgumentError):
    """An input is not of the shape of those in the memory."""


class UnavailableError(AnisocertError):
    """The memory cannot be reached or is busy. Nothing was stored: ask again."""


class UnknownOutcomeError(UnavailableError):
    """The connection was lost in the last moment: it was stored, or it was not. Ask again, with the same certificate.

    A certificate whose promise is stored gets that promise as the answer.
    """
