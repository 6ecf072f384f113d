"""What the ANCER paper reports, as numbers to stand beside one's own. The data and its sources are in `paper.json`."""

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

NOTE_L1 = (
    "The paper's l1 radii and their means are divided by √3 here: it smooths with noise of half-width σ/√3 and reports "
    "the radii multiplied by √3."
)
_SHORT = {"cifar-10": "cifar10", "cifar-10-batches-py": "cifar10", "imagenet-val": "imagenet"}


@dataclass(frozen=True)
class Published:
    """One method's line: accuracy as shares, one per radius."""

    accuracy: tuple[float, ...]
    acr: float
    acr_proxy: float


@dataclass(frozen=True)
class PaperTable:
    """A part of a table of the paper, in true units. rule: how its noise levels were put together."""

    source: str
    data: str
    norm: str
    recipe: str
    network: str
    sigmas: tuple[float, ...]
    rule: str
    radii: tuple[float, ...]
    rows: dict[str, Published]


def published(data: str, norm: str, recipe: str | None = None, sigma: float | None = None) -> PaperTable | None:
    """The paper's results best over its noise levels, or at one of them; without a recipe, of the plainest one.

    None if it has none.
    """
    wanted = (_SHORT.get(data, data), norm, recipe or ("cohen" if norm == "l2" else "stability"))
    for table in paper_tables():
        same_levels = table.rule == "oracle" if sigma is None else table.sigmas == (sigma,)
        if (table.data, table.norm, table.recipe) == wanted and same_levels:
            return table
    return None


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """All published certified accuracies; l1 radii divided by the square root of 3 (see NOTE_L1)."""
    return tuple(_table(entry) for entry in _everything()["certified_accuracy"])


def published_superset(data: str, norm: str, recipe: str | None) -> tuple[float, float] | None:
    """Shares of inputs on which the paper's anisotropic radius, and proxy radius, is at least every other method's."""
    wanted = recipe or ("cohen" if norm == "l2" else "stability")
    for entry in _everything()["superset"]:
        if (entry["data"], entry["norm"], entry["recipe"]) == (_SHORT.get(data, data), norm, wanted):
            return entry["radius"] / 100, entry["proxy_radius"] / 100
    return None


def paper_source() -> str:
    """Where the numbers are from."""
    return str(_everything()["source"])


def _table(entry: dict[str, Any]) -> PaperTable:
    unit = math.sqrt(3) if entry["norm"] == "l1" else 1.0
    rows = {
        method: Published(tuple(share / 100 for share in row["accuracy"]), row["acr"] / unit, row["acr_proxy"] / unit)
        for method, row in entry["rows"].items()
    }
    return PaperTable(
        f"ANCER, {entry['table']}", entry["data"], entry["norm"], entry["recipe"], entry["network"],
        tuple(entry["sigmas"]), entry["rule"], tuple(radius / unit for radius in entry["radii"]), rows,
    )  # fmt: skip


@cache
def _everything() -> dict[str, Any]:
    paper: dict[str, Any] = json.loads(files("anisocert.evaluate").joinpath("paper.json").read_text("utf-8"))
    return paper
