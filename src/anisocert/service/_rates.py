"""How many inputs a key may send: a bucket per key, which fills with time."""

import math
import threading
import time
from collections.abc import Callable

from anisocert.service.errors import RefusedError
from anisocert.service.keys import Key

MINUTE = 60.0
ROUNDING = 1e-6  # inputs: a key that has waited as long as it was told is not refused for less


class Rates:
    """Lets every key send its inputs per minute, of which a whole minute's worth may come at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}  # by digest: how much there was, and when

    def take(self, key: Key, inputs: int = 1, counted: int = 0) -> None:
        """Count inputs; refused if the key has sent too many, or may never send so many at once.

        counted: how many of them were counted before. If the key must wait, these are given back to it, so that it can
        send all of them again after the seconds that it is told.
        """
        if inputs > key.per_minute:
            raise RefusedError(413, f"expected at most {key.per_minute} inputs from this key per minute, got {inputs}")
        with self._lock:
            now = self._clock()
            left, at = self._left.get(key.sha256, (float(key.per_minute), now))
            left = min(key.per_minute, left + (now - at) * key.per_minute / MINUTE)
            left += counted
            if left < inputs - ROUNDING:
                wait = math.ceil((inputs - left) * MINUTE / key.per_minute)
                self._left[key.sha256] = left, now
                message = f"expected at most {key.per_minute} inputs per minute from this key, got more"
                raise RefusedError(429, f"{message}: ask again in {wait} s", wait)
            self._left[key.sha256] = left - inputs, now
