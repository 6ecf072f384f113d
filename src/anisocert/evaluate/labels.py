"""Names that tell runs apart."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anisocert.evaluate.results import UNKNOWN

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

AS_PUBLISHED = ", as published"


def algorithm(run: "StoredRun") -> str:
    """The method, and whether by the published algorithm."""
    return str(run.said("method") or UNKNOWN) + (AS_PUBLISHED if run.said("paper") else "")


def searched(run: "StoredRun") -> str:
    """What the search for theta was told that is not usual: which regions to prefer, and the range of valid inputs."""
    prefers = ", preferring volume" if run.said("prefer") == "volume" else ""
    return prefers + ("" if run.domain is None else f", domain {run.domain[0]:g} to {run.domain[1]:g}")


def recipe_of(run: "StoredRun") -> str | None:
    """How the network was trained, if the run knows; behind a denoiser it is not what that recipe makes."""
    recipe = run.said("recipe")
    if run.said("denoise"):
        return f"{recipe or UNKNOWN}, behind a denoiser"
    return str(recipe) if recipe else None


def kept_of(run: "StoredRun") -> str:
    """What a region that must make room in the run's memory keeps most of: volume, which is the usual, or ball."""
    return "volume" if run.memory is None else run.memory.prefer


def labels(runs: Sequence["StoredRun"]) -> list[str]:
    """Names that, with the noise level, tell the runs apart: the algorithm, and as much else as that takes.

    Runs of one algorithm get the same kind of name, so that several noise levels still share one.
    """
    recipes, noises = len({recipe_of(run) for run in runs}) > 1, len({run.noise for run in runs}) > 1
    names = [
        algorithm(run)
        + (f", {run.noise.title} noise" if noises else "")
        + (f", {recipe_of(run) or UNKNOWN}" if recipes else "")
        for run in runs
    ]
    names = _unless_clear(names, [name + searched(run) for name, run in zip(names, runs, strict=True)], runs)
    pairs = list(zip(names, runs, strict=True))
    memories = [name if kept_of(run) == "volume" else f"{name}, memory keeps the {kept_of(run)}" for name, run in pairs]
    folders = _unless_clear([f"{name} ({run.folder.name})" for name, run in pairs],
                            [f"{name} ({run.folder})" for name, run in pairs], runs)  # fmt: skip
    return _unless_clear(_unless_clear(names, memories, runs), folders, runs)


def _unless_clear(names: list[str], longer: list[str], runs: Sequence["StoredRun"]) -> list[str]:
    """The names, each in its longer form where two runs of one noise level share it."""
    counts = Counter(zip(names, (run.said("sigma") for run in runs), strict=True))
    unclear = {name for (name, _), count in counts.items() if count > 1}
    return [long_name if name in unclear else name for name, long_name in zip(names, longer, strict=True)]
