"""What requests may ask for, and what they and the service may take."""

from dataclasses import dataclass

from anisocert.errors import ArgumentError

LONGEST_SECONDS = 86_400.0
HEADER_BYTES = 64 << 10  # of a request, its address included


@dataclass(frozen=True)
class Limits:
    """What a request may ask for. waiting: inputs in the queue. at_once: inputs of one batch. seconds: until an answer.

    Of the body: the most bytes, whatever a key may send, and the seconds in which it must arrive. bodies_bytes: of all
    bodies under way together, and of answers that are being made.
    """

    inputs: int = 256
    waiting: int = 1024
    at_once: int = 64
    seconds: float = 60.0
    body_bytes: int = 64 << 20
    body_seconds: float = 30.0
    bodies_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST_SECONDS:
            raise ArgumentError(
                f"expected a time limit of a request (--time-limit) in (0, {LONGEST_SECONDS:g}] seconds, got "
                f"{self.seconds:g}"
            )
