"""The report: one HTML file that holds everything it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anisocert.appearance import APPEARANCES, OTHER
from anisocert.durable import write_whole
from anisocert.evaluate import LEFT, NO_LABELS, Comparison, Table, compare, paper_source, published, summary, tables_of
from anisocert.evaluate.beside_paper import RULES
from anisocert.evaluate.protection import MEANING
from anisocert.report._charts import curves, histograms
from anisocert.report._html import fill
from anisocert.report._inputs import Inputs, inputs_of
from anisocert.report._provenance import provenance
from anisocert.report._sampling import chosen
from anisocert.report._verdict import Verdict, verdict
from anisocert.report.gallery import Card, cards

if TYPE_CHECKING:
    from anisocert.runs import StoredRun


@dataclass(frozen=True, eq=False)
class Part:
    """What the report shows of one comparison. by_volume: the first table once more, at proxy radii."""

    comparison: Comparison
    inputs: Inputs
    verdict: Verdict
    cautions: tuple[str, ...]
    curves: dict[str, Any]
    histograms: list[dict[str, Any]]
    tables: list[Table]
    by_volume: Table
    cards: list[Card]

    @property
    def attacked(self) -> str:
        """What the circles among its curves are, where there are any."""
        drawn = any(curve["attacked"] for level in self.curves["levels"] for curve in level["series"])
        return LEFT if drawn else ""

    @property
    def certified(self) -> str:
        """What the curves show, and the words for it."""
        return "certified accuracy" if self.comparison.headline.before.labelled else "certified share"

    @property
    def answered(self) -> str:
        """How the inputs that the curves count are answered."""
        return self.comparison.headline.before.answered

    @property
    def name(self) -> str:
        """Data and norm, by which the page refers to it."""
        return f"{self.comparison.data}, {self.comparison.norm}"


def write_report(
    runs: Sequence[StoredRun], out: Path, gallery: int = 24, on_runs: Callable[[int], None] = lambda _: None
) -> tuple[Comparison, ...]:
    """Write the report on some runs, and return what it compares.

    gallery: how many inputs of each comparison are shown one by one. on_runs: called with how many more runs are in it.
    """
    comparisons = compare(runs)
    text = page(comparisons, gallery, on_runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, lambda part: part.write_text(text, "utf-8"))
    return comparisons


def page(comparisons: Sequence[Comparison], gallery: int = 24, on_runs: Callable[[int], None] = lambda _: None) -> str:
    """The report as HTML."""
    parts = []
    for comparison in comparisons:
        parts.append(_part(comparison, gallery))
        on_runs(len(comparison.entries))
    in_paper = any(published(c.data, c.norm, c.entries[0].recipe) for c in comparisons)
    names = ", ".join(dict.fromkeys(comparison.data for comparison in comparisons))
    return fill(
        "report.html", "page.js", title=f"Robustness certificates: {names}",
        subtitle=_subtitle(comparisons), parts=parts, runs=list(provenance(comparisons)),
        paper=paper_source() if in_paper else "", phrases=MEANING, rules=RULES, left=LEFT,
        methods=APPEARANCES | {"other": OTHER},
        numbers=[part.curves | {"histograms": part.histograms} for part in parts],
    )  # fmt: skip


def _part(comparison: Comparison, gallery: int) -> Part:
    tags = chosen(comparison, gallery)
    inputs = inputs_of(comparison, list(tags))
    conclusion = verdict(comparison, inputs.dim, inputs.unit_range)
    return Part(
        comparison, inputs, conclusion, (*conclusion.cautions, *_unbacked(comparison)), curves(comparison),
        histograms(comparison), tables_of(comparison), summary(comparison, size="proxy_radius"),
        cards(comparison, tags, inputs),
    )  # fmt: skip


def _unbacked(comparison: Comparison) -> list[str]:
    """What the numbers lack: labels, or memories from which they could be derived again."""
    from anisocert.verify import memory_backing  # here, because reading runs needs more than importing this room

    labels_by_line: dict[str, list[str]] = {}
    for entry in comparison.entries:
        if (line := memory_backing(entry.run)) is not None:
            labels_by_line.setdefault(line, []).append(entry.label)
    unlabelled = [] if comparison.headline.before.labelled else [NO_LABELS]
    return [*unlabelled, *(f"{', '.join(labels)}: {line}" for line, labels in labels_by_line.items())]


def _subtitle(comparisons: Sequence[Comparison]) -> str:
    count = sum(len(comparison.entries) for comparison in comparisons)
    methods = dict.fromkeys(entry.before.method for c in comparisons for entry in c.entries)
    inputs = " and ".join(dict.fromkeys(f"{len(c):,}" for c in comparisons))
    return f"{inputs} inputs · {count} run{'s' if count > 1 else ''} · {', '.join(methods)} noise"
