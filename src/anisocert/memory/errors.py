"""What can go wrong with a memory that nobody's argument is to blame for."""

from anisocert.errors import AnisocertError


class BrokenMemoryError(AnisocertError):
    """The stored promises contradict each other, or the file is damaged: nothing may be answered from it."""


class UnavailableError(AnisocertError):
    """The memory cannot be reached or is busy. Nothing was stored: ask again."""


class UnknownOutcomeError(UnavailableError):
    """The connection was lost in the last moment: it was stored, or it was not. Ask again, with the same certificate.

    A certificate whose promise is stored gets that promise as the answer.
    """
