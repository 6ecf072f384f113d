"""How many bytes all requests together may hold: limits per key bound nobody who has many connections."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anisocert.service.errors import RefusedError


class Budget:
    """Bytes that are shared by requests under way. Used by one thread, that of the event loop."""

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """What one request calls with the size of all that it holds; it is given back when the request ends."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left:
                raise RefusedError(503, "requests under way hold as many bytes as they may: ask again in a moment", 1)
            self._left -= size
            taken += size

        try:
            yield take
        finally:
            self._left += taken
