"""How many bytes all requests together may hold: limits per key bound nobody who has many connections.

One key's may hold half of that together, so that no key keeps the others out; a single request may hold all.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anisocert.service.errors import RefusedError


class Budget:
    """Bytes that are shared by requests under way. Used by one thread, that of the event loop."""

    def __init__(self, most: int) -> None:
        self._left, self._half = most, most // 2
        self._held = Counter[str]()  # by key

    @contextmanager
    def share(self, key: str) -> Iterator[Callable[[int], None]]:
        """What a key's request calls with the size of all that it holds; it is given back when the request ends."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            held = self._held[key]
            if size > self._left or (held > taken and held + size > self._half):
                raise RefusedError(503, "requests under way hold as many bytes as they may: ask again in a moment", 1)
            self._left -= size
            self._held[key] += size
            taken += size

        try:
            yield take
        finally:
            self._left += taken
            self._held[key] -= taken
            self._held += Counter()  # which drops those that hold nothing
