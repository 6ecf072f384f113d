"""Some inputs one by one: what was promised about each, by which run, and what the memory did with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN
from anisocert.data.dataset import in_words
from anisocert.evaluate import Cell, Column, Comparison, Entry, Table, down, times
from anisocert.evaluate.protection import either
from anisocert.evaluate.results import numbers
from anisocert.geometry import Region
from anisocert.memory import ABSTAINED, INHERITED, KEPT, SHRUNK
from anisocert.report._beyond import beyond_ball
from anisocert.report._inputs import Inputs
from anisocert.report._pictures import Picture, drawn, pictures_of

NOTES = {
    KEPT: "The memory kept the region as it was.",
    SHRUNK: "The memory shrank the region, to make room for an earlier one of another class.",
    INHERITED: "The input lies in a region promised earlier: the memory answers that region's class.",
    ABSTAINED: "The memory gives no answer here.",
}


@dataclass(frozen=True)
class Card:
    """One input. tags: what it is an example of."""

    id: int
    title: str
    mood: str
    radius: str
    tags: tuple[str, ...]
    pictures: tuple[Picture, ...]
    lines: tuple[str, ...]
    table: Table


def cards(comparison: Comparison, tags: dict[int, list[str]], inputs: Inputs) -> list[Card]:
    """A card for each of the chosen inputs."""
    rows = [_rows(entry, tags) for entry in comparison.entries]
    maker = _Maker(comparison, inputs, comparison.entries.index(comparison.headline), rows)
    return [maker.card(number, tuple(names)) for number, names in tags.items()]


def _rows(entry: Entry, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """The chosen rows of a run, by id."""
    places = np.flatnonzero(np.isin(numbers(entry.run, "idx"), list(ids)))
    return {int(row["idx"]): row for row in entry.run.table.take(places).to_pylist()}


@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes cards. main: which run the pictures and sentences are of. rows: of each run, by id."""

    comparison: Comparison
    inputs: Inputs
    main: int
    rows: list[dict[int, dict[str, Any]]]

    @property
    def entry(self) -> Entry:
        return self.comparison.entries[self.main]

    def card(self, number: int, tags: tuple[str, ...]) -> Card:
        results, entry, row = self.entry.binding, self.entry, self.rows[self.main][number]
        place = int(np.searchsorted(results.ids, number))
        answer, label = int(results.prediction[place]), int(results.labels[place])
        if answer == ABSTAIN:
            mood, title = "abstained", f"no answer{f'; the label is {self._name(label)}' if results.labelled else ''}"
        elif results.correct[place]:  # without a label every answer is, and none is known to be
            mood, title = "right" if results.labelled else "answered", self._name(answer)
        else:
            mood, title = "wrong", f"{self._name(answer)}; the label is {self._name(label)}"
        theta = entry.run.thetas.get(number)
        pictures, lines = pictures_of(number, theta, self.inputs), list[str]()
        radius = "" if answer == ABSTAIN else down(float(results.radius[place]))
        if number in self.inputs.names:
            lines.append(f"Its file is {self.inputs.names[number]}.")
        if radius:
            lines.append(f"The radius of {radius} is {results.protects}.")
        its = "Its region" if entry.after is None else "Before the memory its region"
        region = self._region(number, theta, row)
        if region is not None and region.radius == region.enclosing_radius:
            lines.append(f"{its} is a ball of {self.comparison.norm} radius {down(region.radius)}.")
        elif region is not None:
            lines.append(
                f"{its} reaches {down(region.radius)} in the most sensitive direction and "
                f"{down(region.enclosing_radius)} in the most tolerant one; it has the volume of a ball of "
                f"{self.comparison.norm} radius {down(region.proxy_radius)}."
            )
            picture, line = self._beyond(number, region)
            pictures += [picture] if picture else []
            lines.append(line)
        if row.get("reason"):
            lines.append(f"Why there is no certificate: {row['reason']}.")
        if entry.after is not None:
            note = str(row["memory_note"])
            lines.append(NOTES.get(note, f"The memory: {note}."))
        return Card(number, title, mood, radius, tags, tuple(pictures), tuple(lines), self._table(number))

    def _region(self, number: int, theta: NDArray[np.float32] | None, row: dict[str, Any]) -> Region | None:
        """The certificate's region before the memory; around zero where the input is not known."""
        if theta is None or theta.ndim == 0 or not (row.get("gap") or 0) > 0:
            return None
        x = self.inputs.x.get(number, np.zeros(theta.shape))
        if x.shape != theta.shape:
            return None
        return self.entry.run.region(number, x)

    def _beyond(self, number: int, region: Region) -> tuple[Picture | None, str]:
        """An x + delta that the region covers and the round certificate of the same input does not."""
        radius, words = self._ball(number)
        if radius is None:
            radius, words = region.radius, "the largest ball inside it"
        beyond = beyond_ball(region, radius, self.inputs.domain if self.inputs.x else None, seed=number)
        if beyond is None:
            reach = "No point of it lies outside" if region.enclosing_radius <= radius else "It hardly reaches beyond"
            return None, f"{reach} {words}, of radius {down(radius)}."
        line = f"Example: a change δ of {self.comparison.norm} length {down(beyond.length)} that the region covers"
        if radius > 0:
            line += f", {times(beyond.length / radius, 2)} times as long as {words} allows ({down(radius)})."
        else:
            line += f"; {words} certifies nothing here."
        if self.entry.after is not None:
            line += " Both are certificates before the memory."
        if number not in self.inputs.x:
            return None, line
        return drawn(beyond.point, self.inputs, "input + δ, covered by the region"), line

    def _ball(self, number: int) -> tuple[float | None, str]:
        """Radius of the isotropic certificate of this input at the same noise level, or of the fixed one."""
        for method, words in (("isotropic", "the isotropic ball"), ("fixed", "the ball of fixed noise")):
            if (entry := self.comparison.beside(self.entry, method)) is not None:
                return float(entry.before.radius[np.searchsorted(entry.before.ids, number)]), words
        return None, ""

    def _table(self, number: int) -> Table:
        """All runs' certificates of one input, the largest and the smallest marked."""
        entries = self.comparison.entries
        place = int(np.searchsorted(entries[0].before.ids, number))
        sizes = [float(entry.before.radius[place]) for entry in entries]
        ends = {max(sizes): " (largest)", min(sizes): " (smallest)"} if max(sizes) > min(sizes) else {}
        memory = any(entry.after is not None for entry in entries)
        rows = []
        for entry, size, run_rows in zip(entries, sizes, self.rows, strict=True):
            row, after = run_rows[number], entry.after
            votes = None if row.get("bound_n") is None else f"{row['bound_k']:,} of {row['bound_n']:,}"
            cells = [
                Cell(entry.label), Cell(_answer(int(entry.before.prediction[place]))),
                Cell(down(size) + ends.get(size, "")), Cell(float(entry.before.proxy_radius[place])),
                Cell(row.get("gap")), Cell(votes),
            ]  # fmt: skip
            if memory and after is None:
                cells += [Cell("not needed" if entry.before.stage == "not needed" else "none"), Cell(None), Cell(None)]
            elif after is not None:
                cells += [
                    Cell(str(row["memory_note"])), Cell(_answer(int(after.prediction[place]))),
                    Cell(float(after.radius[place])),
                ]  # fmt: skip
            rows.append(tuple(cells))
        columns = [
            Column("run"), Column("class"), Column("radius"), Column("proxy radius", "length"),
            Column("gap", "length"), Column("votes"),
        ]  # fmt: skip
        if memory:
            columns += [Column("memory"), Column("class", group="after it"), Column("radius", "length", "after it")]
        caption = f"Radius: {either(entry.before.protects for entry in entries)}."
        if memory:
            caption += f" After it: {either(entry.after.protects for entry in entries if entry.after is not None)}."
        return Table("", tuple(columns), tuple(rows), caption)

    def _name(self, label: int) -> str:
        return in_words(label, self.inputs.class_names)


def _answer(prediction: int) -> str:
    return "abstains" if prediction == ABSTAIN else str(prediction)
