"""A limit on the bytes that all requests hold together: limits per request do not bound a key with many connections.

The requests of one key may hold half of the total, so that no key keeps the others out; a single request may hold all.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anisocert.service.errors import RefusedError


class Budget:
    """The bytes that requests in progress share. Only the event loop's thread uses it."""

    def __init__(self, most: int) -> None:
        self._left, self._half = most, most // 2
        self._held = Counter[str]()  # by key

    @contextmanager
    def share(self, key: str) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes bytes for one request of a key; they are returned when the request ends."""
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
