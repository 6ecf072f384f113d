"""What a stranger whose input comes before the clean one leaves of a run's accuracy, beside what the run certifies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anisocert.evaluate.cells import noise
from anisocert.evaluate.comparison import Comparison, Entry
from anisocert.evaluate.intervals import clopper_pearson
from anisocert.evaluate.table import WHOM, Cell, Column, Table, short_down

if TYPE_CHECKING:
    from anisocert.runs import AttackedFirst, StoredRun

STRANGER = "a stranger who comes first"
LEFT = f"left by {STRANGER}"
NEAR = 1.25  # radii that differ by no more than this factor may stand side by side


@dataclass(frozen=True)
class Withstood:
    """Counts at one radius, of `inputs` inputs that were attacked within it before the system had seen them.

    right: still answered with their label. certified: by the run at this radius, with that label; of these,
    otherwise: answered with another class, abstained: with none. radius: None where the limit was not a ball but the
    input's own region: then certified are all that have one, and right those of them whose class held.
    """

    radius: float | None
    inputs: int
    right: int
    certified: int
    otherwise: int
    abstained: int

    @property
    def share(self) -> float:
        """Accuracy under the attack."""
        return self.right / self.inputs

    @property
    def certified_share(self) -> float:
        """Certified accuracy of the same inputs."""
        return self.certified / self.inputs

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the accuracy under this attack, about inputs not seen."""
        low, high = clopper_pearson(self.right, self.inputs, confidence)
        return float(low), float(high)


def withstood(entry: Entry) -> tuple[Withstood, ...]:
    """What a run's system withstood, by radius from 0 on, then inside its regions; empty where nobody measured it.

    Of the inputs that were attacked and are compared.
    """
    attack, results = entry.run.attacked, entry.binding
    kept = None if attack is None else np.isin(attack.ids, results.ids)
    if attack is None or kept is None or not kept.any():
        return ()
    sizes = np.full(len(attack), -1.0)
    sizes[kept] = np.where(results.correct, results.certified(), -1.0)[np.searchsorted(results.ids, attack.ids[kept])]
    lines = counted(attack, sizes, kept)
    return lines if kept.all() else lines[:-1]  # the counts inside regions are of all that were attacked


def counted(
    found: "AttackedFirst", sizes: NDArray[np.float64], kept: NDArray[np.bool_] | None = None
) -> tuple[Withstood, ...]:
    """What an attack left, by radius from 0 on, then inside the regions. kept: the inputs to count, by default all.

    sizes: the radius certified for each of the attacked inputs with its label; -1 without, and where it is not kept.
    """
    lines = []
    for index, radius in enumerate(found.radii.tolist()):
        certified, right = sizes >= radius, found.withstood[:, index] if kept is None else found.withstood[kept, index]
        otherwise, abstained = found.otherwise(index, certified), found.abstained(index, certified)
        lines.append(Withstood(radius, len(right), int(right.sum()), int(certified.sum()), otherwise, abstained))
    regions, otherwise, abstained = int(found.has_region.sum()), found.otherwise_inside(), found.abstained_inside()
    return *lines, Withstood(None, len(found), regions - otherwise - abstained, regions, otherwise, abstained)


def nearest(lines: Sequence[Withstood], radius: float, within: float = NEAR) -> Withstood | None:
    """The line of the ball whose radius is nearest to this one, of two the larger; None where none is near.

    within: the largest factor between the two.
    """
    balls = [(line.radius, line) for line in lines if line.radius and radius / within <= line.radius <= radius * within]
    return min(balls, key=lambda ball: (round(abs(ball[0] - radius), 9), -ball[0]), default=(0.0, None))[1]


def attacked_first(comparison: Comparison) -> Table | None:
    """A line per run and radius at which it was attacked first; None where none was."""
    rows: list[tuple[Cell, ...]] = []
    for entry in comparison.entries:
        results = entry.binding
        rows += [
            (Cell(results.label), noise(results), Cell(results.protects), *line_cells(line))
            for line in withstood(entry)
        ]
    columns = (Column("method"), Column(comparison.symbol), Column(WHOM), *line_columns(comparison.norm))
    caption = f"{CAPTION.format(others=comparison.others)} {_efforts(comparison)}"
    return Table(f"What is {LEFT}", columns, tuple(rows), caption) if rows else None


def effort(run: "StoredRun") -> str:
    """How hard a run was attacked, in words; empty where it was not."""
    if (attack := run.attacked) is None:
        return ""
    inputs = (
        f"all {len(run):,} inputs" if len(attack) == len(run) else f"{len(attack):,} of the run's {len(run):,} inputs"
    )
    within = "" if (domain := run.domain) is None else f", within the domain, {domain[0]:g} to {domain[1]:g}"
    return (
        f"{search_words(attack.starts, attack.steps, attack.samples, attack.n)}, {attack.questions:,} questions, "
        f"{inputs}{within}"
    )


def search_words(starts: int, steps: int, samples: int, n: int) -> str:
    """The settings of an attack."""
    return f"{starts:,} starts of {steps:,} steps with {samples:,} noisy copies, n = {n:,} votes per question"


def _efforts(comparison: Comparison) -> str:
    """How hard each run was attacked; once where that is the same for all."""
    efforts = [(entry.binding, effort(entry.run)) for entry in comparison.entries if withstood(entry)]
    if len({words for _, words in efforts}) == 1:
        return f"The attack: {efforts[0][1]}."
    attacks = (f"{results.label}, {comparison.symbol} = {noise(results).value}: {words}" for results, words in efforts)
    return f"The attacks: {'; '.join(attacks)}."


CAPTION = (
    "The system with an empty memory, attacked before it has seen the clean input: any point within the radius, or in "
    "the input's own certified region, that is answered otherwise. % certified: what the run states about the same "
    "inputs, protecting whom the third column says. % left: answered with their label after the attack, with intervals "
    "of 95 % confidence about {others} (Clopper-Pearson). A stronger attack may leave less. Only of "
    "one classifier for all inputs is there a limit to that: what it certifies for everyone, up to its α and to "
    "abstentions. The numbers are those that the runs' owner measured; anisocert attack RUN --first does so anew."
)


def line_columns(norm: str) -> tuple[Column, ...]:
    """The columns of `line_cells`."""
    return (
        Column(f"{norm} radius"), Column("inputs", "count"), Column("% certified", "share"),
        Column("% left", "share"), Column("answered otherwise", group="of the certified:"),
        Column("not answered", "count", "of the certified:"),
    )  # fmt: skip


def line_cells(line: Withstood) -> tuple[Cell, ...]:
    """A line in numbers; inside regions, where labels play no part, there is no accuracy."""
    ball = line.radius is not None
    return (
        Cell(short_down(line.radius) if line.radius is not None else "own region"), Cell(float(line.inputs)),
        Cell(line.certified_share if ball else None), Cell(line.share, *line.interval()) if ball else Cell(None),
        Cell(f"{line.otherwise:,} of {line.certified:,}"), Cell(float(line.abstained)),
    )  # fmt: skip
