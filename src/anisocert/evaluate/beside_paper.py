"""Our numbers beside the paper's."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from anisocert.evaluate.cells import accuracies, averages, best_accuracies
from anisocert.evaluate.comparison import Comparison
from anisocert.evaluate.paper import NOTE_L1, PaperTable, Published, published
from anisocert.evaluate.protection import AT_EACH, EVERYONE, NOBODY, OR_ABSTAINS
from anisocert.evaluate.results import Results
from anisocert.evaluate.sigmas import oracle
from anisocert.evaluate.table import WHOM, Cell, Column, Table, down, short_down
from anisocert.optimize import SAME_FOR_ALL

RULES = (
    "Envelope: at each radius the noise level that is best there, chosen on these very inputs with their labels. "
    "Oracle, the ANCER paper's rule: for each input the best level, chosen with its true label; no system can have it. "
    "Of either, the probability that a given input's certificate is wrong is up to the sum of the levels' α."
)


def against_paper(comparison: Comparison, sigma: float | None = None) -> Table | None:
    """The paper's line of each method, and under it ours, before and after a memory.

    sigma: the paper's table of this noise level alone, and our runs of it; without, over all levels by both rules. None
    where the paper has no such data.
    """
    paper = published(comparison.data, comparison.norm, comparison.recipe, sigma)
    if paper is None:
        return None
    chosen = tuple(entry for entry in comparison.entries if sigma in (None, entry.before.sigma))
    families = list(replace(comparison, entries=chosen).families(least=1))
    levels = sorted({results.sigma for family in families for results in family if results.sigma is not None})
    rule = "oracle" if sigma is None else f"{sigma:g}"
    rows: list[tuple[Cell, ...]] = []
    for method, row in paper.rows.items():
        lines = [
            line for family in families if family[0].method == method for line in _ours(family, paper.radii, levels)
        ]
        if lines:
            # its memory abstains; of what it prints for input-dependent noise, more cannot be true
            whom = NOBODY if sigma is None else EVERYONE if method in SAME_FOR_ALL else OR_ABSTAINS
            rows += [
                (Cell(method), Cell("paper"), Cell(rule), Cell("as printed"), Cell(whom), *their_numbers(row)),
                *lines,
            ]
    if not rows:
        return None
    columns = (
        Column("method"), Column("numbers"), Column(f"over {comparison.symbol}"), Column("memory"), Column(WHOM),
        *(Column(short_down(radius), "share", f"% certified at {comparison.norm} radius") for radius in paper.radii),
        Column("ACR", "length"), Column("ACR~", "length"),
    )  # fmt: skip
    title = f"Beside the paper: {comparison.data}, {paper.recipe}, {comparison.norm}, {len(comparison):,} inputs"
    return Table(title, columns, tuple(rows), _caption(paper, levels, comparison.symbol))


def their_numbers(row: Published) -> list[Cell]:
    """A line of the paper: accuracies, which it rounds to per cents, ACR and ACR~."""
    means = (row.acr, row.acr_proxy)
    # 0.722 stays so, although the double nearest to it lies below
    return [*(Cell(f"{100 * share:.0f}") for share in row.accuracy), *(Cell(down(mean + 1e-9)) for mean in means)]


def _ours(family: Sequence[Results], radii: Sequence[float], levels: Sequence[float]) -> Iterator[tuple[Cell, ...]]:
    first = family[0]
    if len(family) == 1:
        yield *_head(first, f"{first.sigma:g}", first.protects), *accuracies(first, radii), *averages(family)
        return
    sigmas = sorted(results.sigma for results in family if results.sigma is not None)
    among = "" if sigmas == list(levels) else f" of {', '.join(f'{level:g}' for level in sigmas)}"
    whom = f"{first.protects}{AT_EACH}"
    yield *_head(first, f"envelope{among}", whom), *best_accuracies(family, radii), Cell(None), Cell(None)
    if all(results.knows("radius") for results in family):
        best = oracle(family)
        head = _head(replace(best, label=first.label), f"oracle{among}", best.protects)
        yield *head, *accuracies(best, radii), *averages(family)


def _head(results: Results, rule: str, whom: str) -> tuple[Cell, ...]:
    return Cell(results.label), Cell("here"), Cell(rule), Cell(results.stage), Cell(whom)


def _caption(paper: PaperTable, levels: Sequence[float], symbol: str) -> str:
    parts = [
        f"Paper: {paper.source}, {paper.recipe} training, {paper.network}, σ "
        f"{', '.join(f'{s:g}' for s in paper.sigmas)}; rounded to nearest there. Here: {symbol} "
        f"{', '.join(f'{level:g}' for level in levels)}; rounded down."
    ]
    if len(levels) > 1:
        parts.append(RULES)
    if paper.norm == "l1":
        parts.append(NOTE_L1)
    return " ".join(parts)
