"""Who is ahead, at each noise level and by the paper's rule over all: ANCER, ours and as published, and its rivals."""

from collections.abc import Sequence

from anisocert.evaluate import ADMITTED, EVERYONE, OWN, Cell, Column, Comparison, Table, oracle, superset, times
from anisocert.evaluate.paper import published, published_superset
from anisocert.evaluate.results import SIZES, Results, Size
from levels import MEMORIES, OURS, THEIR_START, THEIRS, UNBOUND, after, before, place, their_steps
from paired import Paired, accuracy_gain, average_gain

TIE = 0.01
NAMES = {"radius": "ACR", "proxy_radius": "ACR~"}
PAIRS = {
    "published isotropic / fixed": (THEIR_START, "fixed"),
    "published ANCER / isotropic": (THEIRS, THEIR_START),
    "our isotropic / fixed": ("isotropic", "fixed"),
    "our ANCER / isotropic": (OURS, "isotropic"),
}
MARKS = (
    "✗: the other way round. ≈: within what the choice of inputs explains (the 95 % interval of the difference, input "
    "by input, holds 0)."
)


def largest_table(comparisons: Sequence[Comparison]) -> Table | None:
    """How often ANCER's certificate is at least as large as those of fixed and isotropic noise, beside the paper's."""
    rows = []
    for comparison in comparisons:
        for start, name in ((THEIR_START, THEIRS), ("isotropic", OURS)):
            by_size = {size: _levels(comparison, ("fixed", start, name), size) for size in SIZES}
            for level in by_size["radius"]:
                shares = [superset(by_size[size][level], size, slack)[-1] for slack in (0.0, TIE) for size in SIZES]
                head = (*place(comparison, level), Cell(name), Cell(float(len(comparison))))
                rows.append((*head, *map(Cell, shares)))
        paper_shares = published_superset(comparison.data, comparison.norm, comparison.recipe)
        if paper_shares is not None:
            theirs = (Cell(f"{100 * share:.0f}") for share in paper_shares)
            rows.append((*place(comparison, "oracle"), Cell("paper"), Cell(None), *theirs, Cell(None), Cell(None)))
    columns = (
        Column("recipe"), Column("noise"), Column("method"), Column("inputs", "count"),
        *(
            Column(size.replace("_", " "), "share", group)
            for group in ("% at least as large as both:", f"% the same, up to {100 * TIE:g} % smaller:")
            for size in SIZES
        ),
    )  # fmt: skip
    caption = (
        "Share of the inputs that one of the three certifies correctly, whose certificate is at least as large as "
        f"those of fixed and of isotropic noise (the published one for the published algorithm), {UNBOUND}. Oracle: of "
        "each method the best noise level for each input, chosen with its label, as in the paper. "
        f"{their_steps(comparisons)}"
    )
    return Table("Whose certificate is the largest", columns, tuple(rows), caption) if rows else None


def gain_table(comparisons: Sequence[Comparison]) -> Table | None:
    """The paper's relative gains, method over method, and ours."""
    rows = []
    for comparison in comparisons:
        for level in (*(f"{sigma:g}" for sigma in comparison.sigmas), "oracle"):
            cells = [_gain(comparison, level, pair, size) for size in SIZES for pair in PAIRS.values()]
            if any(cell.value is not None for cell in cells):
                rows.append((*place(comparison, level), Cell(f"{len(comparison):,} inputs"), *cells))
        paper = published(comparison.data, comparison.norm, comparison.recipe)
        if paper is not None:
            means = [[(row.acr, row.acr_proxy)[i] for row in paper.rows.values()] for i in range(len(SIZES))]
            gains = [(isotropic / fixed, ancer / isotropic) for fixed, isotropic, ancer in means]
            theirs = [(Cell(f"{one:.3f}"), Cell(f"{other:.3f}"), Cell(None), Cell(None)) for one, other in gains]
            rows.append((*place(comparison, "oracle"), Cell("paper"), *theirs[0], *theirs[1]))
    columns = (
        Column("recipe"), Column("noise"), Column("numbers"),
        *(Column(name, "ratio", NAMES[size]) for size in SIZES for name in PAIRS),
    )  # fmt: skip
    caption = (
        f"Ratios of means {UNBOUND}; the paper finds every one above 1. Oracle: the best noise level for each input, "
        f"chosen with its label. {MARKS} {their_steps(comparisons)}"
    )
    return Table("Relative gains", columns, tuple(rows), caption) if rows else None


def memory_gain_table(comparisons: Sequence[Comparison]) -> Table | None:
    """Our default against the published algorithm, before and after each memory, and the accuracy it costs."""
    rows = []
    for comparison in comparisons:
        for sigma in comparison.sigmas:
            ours, theirs, fixed = (_stages(comparison, name, sigma) for name in (OURS, THEIRS, "fixed"))
            ratios = [
                _ratio(None if one is None or other is None else average_gain(one, other, size))
                for size in reversed(SIZES)
                for one, other in zip(ours, theirs, strict=True)
            ]
            points = [
                _points(None if one is None or other is None else accuracy_gain(one, other))
                for one, other in zip(ours, fixed, strict=True)
            ]
            if any(cell.value is not None for cell in (*ratios, *points)):
                rows.append((*place(comparison, f"{sigma:g}"), Cell(float(len(comparison))), *ratios, *points))
    stages = ("before memory", *(f"after ({kept})" for kept in MEMORIES))
    columns = (
        Column("recipe"), Column("noise"), Column("inputs", "count"),
        *(Column(stage, "ratio", f"{NAMES[size]}, ours / published:") for size in reversed(SIZES) for stage in stages),
        *(Column(stage, "ratio", "accuracy at 0, ours − fixed (points):") for stage in stages),
    )  # fmt: skip
    caption = (
        f"The aim: ratios above 1, and no accuracy at radius 0 below that of fixed noise, which is {EVERYONE}. Ours "
        f"is {OWN} before the memory and {ADMITTED} after it. {MARKS} After a memory, where answers depend on "
        f"earlier ones, that is approximate. {their_steps(comparisons)}"
    )
    return Table("Ours against the published algorithm", columns, tuple(rows), caption) if rows else None


def duel_table(comparisons: Sequence[Comparison]) -> Table | None:
    """Input by input: how often the published algorithm's certificate is the larger one, and how often ours."""
    rows = []
    for comparison in comparisons:
        for sigma in comparison.sigmas:
            ours, theirs = (before(comparison, name, sigma) for name in (OURS, THEIRS))
            if ours is None or theirs is None:
                continue
            (radius, proxy), (their_radius, their_proxy) = (
                [results.certified(size) for size in SIZES] for results in (ours, theirs)
            )
            shares = (
                radius > their_radius, their_radius > radius, proxy > their_proxy, their_proxy > proxy,
                (their_proxy > proxy) & (their_radius >= radius),
            )  # fmt: skip
            head = (*place(comparison, f"{sigma:g}"), Cell(float(len(comparison))))
            rows.append((*head, *(Cell(float(share.mean())) for share in shares)))
    columns = (
        Column("recipe"), Column("noise"), Column("inputs", "count"),
        *(Column(name, "share", f"% with the larger {size}:") for size in ("radius", "proxy radius")
          for name in ("ours", "published")),
        Column("published, with no smaller radius", "share", "% with the larger proxy radius:"),
    )  # fmt: skip
    caption = (
        f"Correct certificates before the memory ({OWN}); a wrong answer has size 0. On the rest, to 100 %, both "
        f"have the same size. {their_steps(comparisons)}"
    )
    return Table("Ours and the published algorithm, input by input", columns, tuple(rows), caption) if rows else None


def _levels(comparison: Comparison, names: Sequence[str], size: Size) -> dict[str, list[Results]]:
    """Results of each method by noise level, where all were run; if that is at every level, also their oracle."""
    by_level = {}
    for sigma in comparison.sigmas:
        line = [results for name in names if (results := before(comparison, name, sigma)) is not None]
        if len(line) == len(names):
            by_level[f"{sigma:g}"] = line
    whole = len(by_level) == len(comparison.sigmas) > 1
    best = [oracle(levels, size) for levels in zip(*by_level.values(), strict=True)] if whole else []
    return by_level | ({"oracle": best} if best else {})


def _stages(comparison: Comparison, name: str, sigma: float) -> list[Results | None]:
    return [before(comparison, name, sigma), *(after(comparison, name, sigma, kept) for kept in MEMORIES)]


def _gain(comparison: Comparison, level: str, names: tuple[str, str], size: Size) -> Cell:
    one, other = _levels(comparison, names, size).get(level, (None, None))
    return _ratio(None if one is None or other is None else average_gain(one, other, size))


def _ratio(pair: Paired | None) -> Cell:
    return Cell(None) if pair is None else Cell(f"{times(pair.ratio)}{_marks(pair)}")


def _points(pair: Paired | None) -> Cell:
    return Cell(None) if pair is None else Cell(f"{100 * pair.difference:+.1f}{_marks(pair)}")


def _marks(pair: Paired) -> str:
    marks = ("✗" if pair.difference < 0 else "") + ("" if pair.sure else "≈")
    return f" {marks}" if marks else ""
