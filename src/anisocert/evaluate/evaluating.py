"""From certificates to numbers: `ac.evaluate`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError
from anisocert.evaluate.comparison import Comparison, compare
from anisocert.evaluate.render import render
from anisocert.evaluate.results import Results
from anisocert.evaluate.table import Table
from anisocert.evaluate.tables import summary, tables_of
from anisocert.inputs import told
from anisocert.memory import Memory

Certificates = Sequence[Certificate]
WIDTH = 120  # of a table that is printed where there is no terminal


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What some certificates say about a network on labelled inputs; printed, it is the table.

    comparisons: one per norm, of the lists of certificates that have it; `ac.report` makes a report of them.
    """

    comparisons: tuple[Comparison, ...]

    @property
    def results(self) -> list[Results]:
        """One per list of certificates, with `accuracy(radii)`, `curve()`, `mean()`, `median()` and `protects`."""
        return [results for comparison in self.comparisons for results in comparison.stages()]

    @property
    def tables(self) -> list[Table]:
        """Every table that these certificates can fill; `anisocert.evaluate.render` makes text of one."""
        return [table for comparison in self.comparisons for table in tables_of(comparison)]

    def table(self, style: str = "terminal", width: int | None = None) -> str:
        """Certified accuracy at several radii, means and medians, each line with the words for whom it protects.

        Args:
            style: "terminal", "markdown", "latex" or "csv".
            width: columns of the terminal. Default: as many as it takes.
        """
        return "\n".join(render(summary(comparison), style, width) for comparison in self.comparisons)

    def __repr__(self) -> str:
        return f"Evaluation({'; '.join(summary(comparison).title for comparison in self.comparisons)})"

    def __str__(self) -> str:
        return self.table(width=shutil.get_terminal_size((WIDTH, 24)).columns)

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        return self.table("markdown")


def evaluate(
    certificates: Certificates | Mapping[str, Certificates] | str | Path,
    labels: ArrayLike | None = None,
    *,
    data: str = "inputs",
    sigma: float | None = None,
    memory: Memory | None = None,
) -> Evaluation:
    """Certified accuracy, mean and median radius of certificates, and whom these numbers protect.

    Needs `pip install 'anisocert[cli]'`.

    Args:
        certificates: as `ac.certify` returns them, or as a memory or a `System` answered; of one call, or of several
            with the same model, smoothing and method (of two Gaussian mixtures with one theta it is not seen that
            they are two). Several lists, as in `{"fixed": ..., "anisotropic": ...}`, are
            compared on the same inputs. Or the folder of a finished run, which has its own labels and names.
        labels: the true class of each input, in the same order.
        data: what the inputs are called.
        sigma: the noise level that the search for theta started from, which certificates do not hold; for tables.
        memory: the one that answered, where the certificates are its answers: what they promise depends on its
            policy. Answers that it does not hold are refused.

    Returns:
        An `Evaluation`: print it, take numbers from its `results`, or pass it to `ac.report`.
    """
    if isinstance(certificates, str | Path):
        return _of_run(Path(certificates), labels=labels, sigma=sigma, memory=memory)
    lists = _lists(certificates)
    classes = _labels(labels, lists)
    _expect_same_inputs(lists)
    if not isinstance(memory, Memory | None):
        raise ArgumentError(f"expected memory as in memory=system.memory, got {told(memory)}")
    if not isinstance(data, str) or not data:
        raise ArgumentError(f"expected data as the name of the inputs, got {told(data)}")
    if not (sigma is None or (isinstance(sigma, int | float) and sigma > 0)):
        raise ArgumentError(f"expected sigma, a number > 0, got {told(sigma)}")
    from anisocert.runs.held import held  # here, because it needs more than the core

    ids, description = _ids(list(lists.values())), {"data": data, "sigma": None if sigma is None else float(sigma)}
    return Evaluation(
        compare([held(group, classes, ids, description | {"name": name}, memory) for name, group in lists.items()])
    )


def _of_run(folder: Path, **arguments: object) -> Evaluation:
    """A run on disk; an error if something is given that it knows itself."""
    for name, value in arguments.items():
        if value is not None:
            raise ArgumentError(f"expected no {name} beside the folder of a run, which has its own, got {told(value)}")
    from anisocert.runs import read_run  # here, because it needs more than the core

    return Evaluation(compare([read_run(folder)]))


def _lists(certificates: Any) -> dict[str, list[Certificate]]:
    """Lists of certificates by name; an error that names the remedy for anything else."""
    if isinstance(certificates, Certificate):
        raise ArgumentError("expected certificates, got one: pass [certificate] and [label]")
    if isinstance(certificates, Mapping):
        for name, inner in certificates.items():
            if isinstance(inner, Mapping):
                raise ArgumentError(
                    f"expected a list of certificates as {name!r}, got {told(inner)}: name each of its lists by itself"
                )
        if len({str(name) for name in certificates}) < len(certificates):
            raise ArgumentError(f"expected lists with names that differ as text, got {[*certificates]!r}")
        return {str(name): group for name, inner in certificates.items() for group in _lists(inner).values()} or _none()
    if isinstance(certificates, str | Path) or not hasattr(certificates, "__iter__"):
        raise ArgumentError(f"expected certificates as ac.certify returns them, got {told(certificates)}")
    group = list(certificates)
    for certificate in group:
        if not isinstance(certificate, Certificate):
            raise ArgumentError(f"expected certificates as ac.certify returns them, got {told(certificate)} among them")
    return {"certificates": group} if group else _none()


def _none() -> Any:
    raise ArgumentError("expected at least one certificate, got none")


def _labels(labels: ArrayLike | None, lists: Mapping[str, Certificates]) -> NDArray[np.int64]:
    """The labels as whole numbers, one per certificate of each list."""
    if labels is None:
        raise ArgumentError(
            "expected labels, the true class of each input, got none: ac.evaluate(certificates, labels)"
        )
    try:
        raw = np.asarray(labels.cpu() if hasattr(labels, "cpu") else labels)
    except ValueError as error:  # lists of unequal length
        raise ArgumentError(f"expected labels as whole numbers, one per certificate, got {told(labels)}") from error
    if raw.ndim != 1 or raw.dtype.kind not in "iu":
        description = f"{raw.dtype} of shape {raw.shape}{_numbered(raw)}"
        raise ArgumentError(f"expected labels as whole numbers, one per certificate, got {description}")
    for name, group in lists.items():
        if len(group) != len(raw):
            raise ArgumentError(f"expected one label per certificate, got {len(raw)} for {len(group)} of {name}")
    return raw.astype(np.int64)


def _expect_same_inputs(lists: Mapping[str, Certificates]) -> None:
    """An error if lists that are compared are of other inputs: unless they were given, ids are only places."""
    (first, reference), *others = lists.items()
    for name, certificates in others:
        for place, pair in enumerate(zip(reference, certificates, strict=True)):
            one, other = (c.x if c.region is None else c.region.center for c in pair)
            if one is not None and other is not None and not np.array_equal(one, other):
                raise ArgumentError(
                    f"expected certificates of the same inputs, in the same order, got another input at place {place} "
                    f"of {name} than of {first}: evaluate each by itself"
                )


def _numbered(raw: NDArray[Any]) -> str:
    """The remedy for labels that are no class numbers."""
    if raw.ndim == 2 and raw.shape[1] > 1 and raw.dtype.kind in "iufb":
        return ": of one-hot rows, pass numpy.argmax(labels, 1)"
    if raw.ndim > 1 and raw.size == len(raw):
        return ": pass numpy.ravel(labels)"
    if raw.dtype.kind in "USO" and raw.ndim == 1:
        return ": pass the number of each name, its place among the network's classes, as in names.index(label)"
    whole = raw.dtype.kind == "b" or (raw.dtype.kind == "f" and bool((raw == np.round(raw)).all()))
    return ": pass numpy.asarray(labels, int)" if whole and raw.ndim == 1 else ""


def _ids(lists: Sequence[Certificates]) -> list[int]:
    """The ids of the inputs, where all lists agree on them; else their places."""
    named = [[certificate.id for certificate in certificates] for certificates in lists]
    same = all(ids == named[0] for ids in named) and len(set(named[0])) == len(named[0])
    return named[0] if same else list(range(len(named[0])))
