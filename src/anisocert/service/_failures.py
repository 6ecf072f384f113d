"""What a client is told when the memory or the network fails: the kind of error. Its message is for the operator."""

from typing import Final

from anisocert.errors import ModelError
from anisocert.memory import BrokenMemoryError, ChangedError, ShapeError, UnavailableError
from anisocert.service.errors import RefusedError

FAILED = "the network or the memory failed: ask again later"
LATE = (
    "the answer was not ready in time. If its votes are being drawn they are counted, and what is promised stays: ask "
    "again later"
)
REASONS: Final[dict[type[Exception], str]] = {
    UnavailableError: "the memory cannot be reached: ask again later",
    BrokenMemoryError: "the memory is damaged: the service answers again once its operator has mended it",
    TimeoutError: "the memory does not answer in time: ask again later",
    ChangedError: "the memory was moved or changed: the service answers again once its operator has restarted it",
}


def late() -> RefusedError:
    """The refusal of a request whose answer is not ready in time."""
    return RefusedError(504, LATE, 1)


def failed(error: Exception) -> RefusedError:
    """The refusal of a request that failed for a reason that no client can mend."""
    reason = next((words for kind, words in REASONS.items() if isinstance(error, kind)), FAILED)
    return RefusedError(503, reason, 5)


def at_fault(error: Exception) -> RefusedError | None:
    """The refusal of inputs that cannot be answered; None if the error is not their fault."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, ModelError):
        return RefusedError(422, "the network gives these inputs no scores that can be certified")
    if isinstance(error, ShapeError):  # another process began with another
        return RefusedError(400, "expected inputs of the shape that the memory holds, got another")
    return None
