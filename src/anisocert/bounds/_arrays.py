"""What every bound does with its arguments: check, broadcast, hand back a float for scalars, round to the safe side."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError

FloatOrArray = Any
"""A Python float where all arguments were scalars, a float64 array of their broadcast shape otherwise."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def integers(name: str, value: ArrayLike, least: int) -> Integers:
    """`value` as an int64 array, every entry >= `least`. Floats are refused, whole ones too: they hide slips."""
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentError(f"expected {name} to be integers, got {_first(array)!r} ({array.dtype})")
    below = array < least
    if below.any():
        raise ArgumentError(f"expected {name} >= {least}, got {_first(array[below])}")
    return array.astype(np.int64)


def levels(name: str, value: ArrayLike, or_none: bool = False) -> Floats:
    """`value` as a float64 array, every entry in (0, 1). or_none: or below, where nothing may be concluded."""
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iuf":
        raise ArgumentError(f"expected {name} to be numbers, got {_first(array)!r} ({array.dtype})")
    array = array.astype(np.float64)
    outside = ~((array < 1) & (or_none | (array > 0)))
    if outside.any():
        raise ArgumentError(f"expected {name} {'below 1' if or_none else 'in (0, 1)'}, got {_first(array[outside])}")
    return array


def broadcast(**arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """All arrays in their common shape; an error that lists the shapes if there is none."""
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ArgumentError(f"expected shapes that broadcast together, got {shapes}") from None


def at_most(name: str, array: NDArray[Any], limit_name: str, limit: NDArray[Any]) -> None:
    """Every entry of `array` must be <= its partner in `limit` (same shape)."""
    above = array > limit
    if above.any():
        got, bound = _first(array[above]), _first(limit[above])
        raise ArgumentError(f"expected {name} <= {limit_name}, got {name} = {got} with {limit_name} = {bound}")


def tally(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> tuple[Integers, Integers, Floats]:
    """Checked and broadcast: k votes of n, at confidence 1 - alpha."""
    k, n, alpha = broadcast(k=integers("k", k, 0), n=integers("n", n, 1), alpha=levels("alpha", alpha))
    at_most("k", k, "n", n)
    return k, n, alpha


def standing(top_votes: ArrayLike, runner_up_votes: ArrayLike, votes: ArrayLike) -> tuple[Integers, Integers, Integers]:
    """Checked and broadcast: votes of the top class and of the best other one, out of all votes so far."""
    top, runner_up, count = broadcast(
        top_votes=integers("top_votes", top_votes, 0),
        runner_up_votes=integers("runner_up_votes", runner_up_votes, 0),
        votes=integers("votes", votes, 1),
    )
    at_most("top_votes + runner_up_votes", top + runner_up, "votes", count)
    return top, runner_up, count


def unwrap(array: Floats) -> FloatOrArray:
    """A Python float for a zero-dimensional array, the array itself otherwise."""
    return float(array) if array.ndim == 0 else array


def settle(p: Floats, toward: int, holds: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """Move each p toward 0 or 1, by steps that double from one ulp, until `holds(p)`.

    An inverse function is accurate, not one-sided; the forward function, which is simpler, has the last word. Where
    even that gives no proof (NaN, or more than 2^64 ulps away) the answer is the one that claims nothing: 0 or 1.
    """
    step = np.spacing(p) * (1 if toward else -1)
    for _ in range(64):
        unproven = ~holds(p)
        if not unproven.any():
            return p
        p = np.where(unproven, np.clip(p + step, 0.0, 1.0), p)
        step = 2 * step
    return np.where(holds(p), p, float(toward))


def whole(name: str, value: object, least: int, most: int) -> int:
    """One Python int in [least, most]; numpy integers are welcome, bools and floats are not."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise ArgumentError(f"expected {name} to be an integer, got {value!r} ({type(value).__name__})")
    if not least <= value <= most:
        raise ArgumentError(f"expected {name} in [{least}, {most}], got {value}")
    return int(value)


def real(name: str, value: object) -> float:
    """One finite Python float; ints and numpy numbers are welcome, bools are not."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentError(f"expected {name} to be a number, got {value!r} ({type(value).__name__})")
    if not math.isfinite(value):
        raise ArgumentError(f"expected {name} to be finite, got {value}")
    return float(value)


def _first(array: NDArray[Any]) -> Any:
    return array.ravel()[0].item() if array.dtype.kind != "O" else array.ravel()[0]
