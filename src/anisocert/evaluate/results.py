"""What a run answered and certified, input by input, whatever file it came from."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.bounds import high_probability_accuracy
from anisocert.certificate import ABSTAIN
from anisocert.data.dataset import UNLABELLED
from anisocert.errors import ArgumentError
from anisocert.evaluate.metrics import average_certified_radius, certified_accuracy, median_certified_radius
from anisocert.evaluate.protection import Stage, whom
from anisocert.optimize import FOR_EVERYONE, ROUND

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

Size = Literal["radius", "proxy_radius"]
SIZES: tuple[Size, Size] = ("radius", "proxy_radius")
UNKNOWN = "unknown"
NO_LABELS = "The inputs have no labels: accuracy and correct stand for whatever was answered, right or wrong."


@dataclass(frozen=True, eq=False)
class Results:
    """Answers and certificates of one run, or chosen from several. Arrays have one entry per input, in order of id.

    Sizes that the source does not say are NaN.

    Args:
        label: what tells it apart from the results beside it.
        method: how theta was chosen.
        norm: of the regions, "l2" or "l1".
        sigma: the noise the search started from (l1: the half-width); None where runs of several were put together.
        stage: whether these are the answers before or after a memory, or of a method that needs none.
        protects: whom, one of the phrases of `protection`.
        alpha: the probability that one certificate is wrong; None where the source does not say.
        ids: of the inputs.
        labels: their true classes.
        prediction: the answers, -1 where there is none.
        radius: of the largest ball inside each region.
        proxy_radius: of the ball of each region's volume.
    """

    label: str
    method: str
    norm: str
    sigma: float | None
    stage: Stage
    protects: str
    alpha: float | None
    ids: NDArray[np.int64] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    prediction: NDArray[np.int64] = field(repr=False)
    radius: NDArray[np.float64] = field(repr=False)
    proxy_radius: NDArray[np.float64] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.ids) == 0:
            raise ArgumentError(f"expected results of at least one input, got none in {self.label}")
        if (np.diff(self.ids) <= 0).any():
            raise ArgumentError(f"expected distinct ids in rising order, got others in {self.label}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> bool:
        """Whether the inputs have labels; where they have none, `correct` is whatever was answered."""
        return bool((self.labels != UNLABELLED).any())

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the answer is the label; an abstention never is."""
        answered: NDArray[np.bool_] = self.prediction != ABSTAIN
        return (self.prediction == self.labels) & answered if self.labelled else answered

    @property
    def answered(self) -> str:
        """What `correct` means, in words."""
        return "answered correctly" if self.labelled else "answered (correctly or not)"

    @property
    def abstention(self) -> float:
        """Share of inputs without an answer."""
        return float((self.prediction == ABSTAIN).mean())

    def knows(self, size: Size) -> bool:
        """Whether the source says this size of every correct answer."""
        return not bool(np.isnan(self._sizes(size)[self.correct]).any())

    def certified(self, size: Size = "radius") -> NDArray[np.float64]:
        """Size of each correct answer's region, 0 where the answer is wrong or missing."""
        return np.where(self.correct, self._sizes(size), 0.0)

    def accuracy(self, at: ArrayLike, size: Size = "radius") -> NDArray[np.float64]:
        """Certified accuracy at each of some sizes."""
        return certified_accuracy(self.certified(size), self.correct, at)

    def curve(self, size: Size = "radius") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(sizes, certified accuracy there): 0, and every size beyond which it is lower."""
        at = np.unique(np.append(self.certified(size), 0.0))
        return at, self.accuracy(at, size)

    def mean(self, size: Size = "radius") -> float:
        """ACR, or ACR~ of proxy radii."""
        return average_certified_radius(self.certified(size), self.correct)

    def median(self, size: Size = "radius") -> float:
        """The largest size that half of the inputs reach."""
        return median_certified_radius(self.certified(size), self.correct)

    def claim(self, at: ArrayLike, rho: float = 0.001, size: Size = "radius") -> NDArray[np.float64]:
        """Certified accuracy on these inputs that holds with probability 1 - rho although certificates may fail.

        Not after a memory: one wrong entry may be inherited by many inputs, which then fail together.
        """
        if self.stage == "after":
            raise ArgumentError(f"expected results before any memory, whose failures are independent, got {self.label}")
        if self.alpha is None:
            raise ArgumentError(f"expected results with a known alpha, got {self.label}")
        counts = np.rint(self.accuracy(at, size) * len(self)).astype(np.int64)
        return np.asarray(high_probability_accuracy(counts, len(self), min(self.alpha, 1 - 1e-12), rho))

    def only(self, ids: ArrayLike) -> "Results":
        """These results for some of the inputs."""
        keep = np.isin(self.ids, ids)
        names = ("ids", "labels", "prediction", "radius", "proxy_radius")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})

    def _sizes(self, size: Size) -> NDArray[np.float64]:
        return self.radius if size == "radius" else self.proxy_radius


def results_of(run: "StoredRun", *, memory: bool = False, label: str | None = None) -> Results:
    """A run's results before the memory, or after it."""
    method, norm = str(run.said("method") or UNKNOWN), str(run.said("norm") or UNKNOWN)
    if memory and not run.has_memory:
        raise ArgumentError(f"expected a run that went through a memory, got {run.folder}")
    prefix = "memory_" if memory else ""
    stage: Stage = "after" if memory or run.answered else "not needed" if method in FOR_EVERYONE else "before"
    radius, proxy = (numbers(run, f"{prefix}{name}") for name in ("radius", "proxy_radius"))
    if np.isnan(proxy).all() and method in ROUND:
        proxy = radius  # a ball is its own proxy; the field's oldest format has no column for it
    return Results(
        label=label or method, method=method, norm=norm, sigma=number(run, "sigma"),
        stage=stage, protects=whom(run, stage), alpha=_alpha(run), ids=numbers(run, "idx").astype(np.int64),
        labels=_classes(run, "label"), prediction=_classes(run, f"{prefix}prediction"), radius=radius,
        proxy_radius=proxy,
    )  # fmt: skip


def aligned(results: Sequence[Results]) -> list[Results]:
    """The same results on the inputs that all of them have: files of the field may be short."""
    if not results:
        raise ArgumentError("expected results of at least one run, got none")
    shared = reduce(np.intersect1d, [part.ids for part in results])
    if len(shared) == 0:
        raise ArgumentError(f"expected runs with inputs in common, got none in {', '.join(r.label for r in results)}")
    parts = [part.only(shared) for part in results]
    for part in parts[1:]:
        if not np.array_equal(part.labels, parts[0].labels):
            raise ArgumentError(f"expected the same labels of the same inputs, got others in {part.label}")
    return parts


def numbers(run: "StoredRun", name: str) -> NDArray[np.float64]:
    """A column as float64, NaN where the source does not say it."""
    if name not in run.table.column_names:
        return np.full(len(run), np.nan)
    values = [np.nan if value is None else value for value in run.table[name].to_pylist()]
    return np.asarray(values, np.float64)


def _classes(run: "StoredRun", name: str) -> NDArray[np.int64]:
    values = numbers(run, name)
    if np.isnan(values).any():
        raise ArgumentError(f"expected a {name} for every input, got none for some in {run.folder}")
    return values.astype(np.int64)


def _alpha(run: "StoredRun") -> float | None:
    """The largest alpha of one certificate: where inputs share one, `run.json` says what they share."""
    alphas = numbers(run, "alpha")
    return number(run, "alpha") if np.isnan(alphas).any() else float(alphas.max())


def number(run: "StoredRun", name: str) -> float | None:
    """What a run says, if it says it; anybody may have written anything there."""
    value = run.said(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and abs(value) <= sys.float_info.max):
        raise ArgumentError(f"expected {name} as a finite number in {run.folder}, got {str(value)[:40]!r}")
    return None if value is None else float(value)
