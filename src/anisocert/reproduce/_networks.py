"""The networks of an experiment, some of which begin with others: denoisers in front of them, fine-tuned ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from anisocert.data import CATALOG, cache, prepared
from anisocert.errors import ArgumentError
from anisocert.train import RECIPES

# Recipes whose networks begin with others; a selector is certified by other options than a network.
FROM_OTHERS = tuple(recipe.name for recipe in RECIPES.values() if recipe.needs_classifier and recipe.answers)


@dataclass(frozen=True)
class Network:
    """What is certified: weights, the denoiser in front of them, if any, and the stages that make both.

    files: of the user's, which it began with.
    """

    weights: str
    denoise: str | None = None
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @classmethod
    def made(cls, recipe: str, weights: str, other: Self | None, stage: str) -> "Network":
        """What a training makes: its weights, and what stands in front of them or behind them."""
        if other is None:
            return cls(weights, None, (stage,))
        two = (other.weights, weights) if RECIPES[recipe].in_front else (weights, other.denoise)
        return cls(*two, (*other.needs, stage), other.files)

    def given(self) -> dict[str, Any]:
        """Options of a training that begins with it."""
        return {"classifier": self.weights} | ({} if self.denoise is None else {"denoise": self.denoise})


def begun_with(file: Path, group: Mapping[str, Any], made: Mapping[str, Network]) -> Network | None:
    """What a group's networks begin with: a network made above it, or one in a file; None for most recipes."""
    of, recipe = group.get("of"), group["recipe"]
    if (recipe in FROM_OTHERS) != (of is not None):
        raise ArgumentError(
            f"{file}: expected of, a network, in networks with recipe {' or '.join(FROM_OTHERS)} and with no other, "
            f"got {of or 'none'!r} with {recipe!r}"
        )
    if of is None or of in made:
        return None if of is None else made[of]
    if not Path(of).is_file():
        raise ArgumentError(
            f"{file}: expected of in networks, one of those above it ({', '.join(made) or 'none'}) or a file of "
            f"weights, got {of!r}, which is not in {Path.cwd()}"
        )
    path = str(Path(of).resolve())
    return Network(path, files=(path,))


def data_files(data: str) -> tuple[str, ...]:
    """Files by which data is known from other data: its one file, or of prepared arrays all but the large ones."""
    place = cache.root() / data if data in CATALOG else Path(data).expanduser().resolve()
    if place.is_file():
        return (str(place),)
    small = (place / name for name in sorted(prepared.FILES) if not name.startswith("x_"))
    return tuple(str(path) for path in small if prepared.holds(place) and path.is_file())
