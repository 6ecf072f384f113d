"""What a stranger who comes first leaves: runs that `anisocert attack RUN --first` has measured, kept as a small table.

    python experiments/first.py RUN... --write experiments/results/attacked-first.tsv

puts the lines of these runs into the file, in place of those of the same networks and methods; without --write it
prints them. A run that was not measured is named, and makes the exit code 1. experiments/tables.py draws the file,
beside the committed rows of the same data and recipe: --data and --recipe name these where the runs do not. A folder
of results of its own, as results/denoised, has a file of its own, with its networks' names as recipes.
"""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from anisocert.durable import write_whole
from anisocert.errors import ArgumentError
from anisocert.evaluate import Withstood, compare, withstood
from anisocert.evaluate.labels import algorithm
from anisocert.evaluate.protection import MEANING
from anisocert.runs import StoredRun, read_run

FILE = "attacked-first.tsv"
REGION = "region"  # in place of a radius, where the limit was the input's own region


Run = tuple[str, str, str, float, str]
"""Data, recipe, norm, sigma and method."""


@dataclass(frozen=True)
class Measured:
    """One run at one radius. n, alpha: of each question to the system; starts, steps, samples: of the search."""

    data: str
    recipe: str
    norm: str
    sigma: float
    method: str
    protects: str
    line: Withstood
    n: int
    alpha: float
    seed: int
    starts: int
    steps: int
    samples: int
    model_hash: str

    @property
    def of(self) -> Run:
        """Which run, of several sessions, the line is of."""
        return self.data, self.recipe, self.norm, self.sigma, self.method


_HEAD = ("data", "recipe", "norm", "sigma", "method", "protects")
_COUNTS = tuple(field.name for field in fields(Withstood))
_EFFORT = ("n", "alpha", "seed", "starts", "steps", "samples", "model_hash")
COLUMNS = (*_HEAD, *_COUNTS, *_EFFORT)


def measured(run: StoredRun) -> list[Measured]:
    """A run's lines, in the order of its radii; an error if nobody has attacked it first."""
    attacked, (comparison,) = run.attacked, compare([run])
    (entry,) = comparison.entries
    one = entry.binding
    if attacked is None or one.sigma is None:
        raise ArgumentError(f"expected a run that was attacked first, got {run.folder}: anisocert attack RUN --first")
    effort = {name: getattr(attacked, name) for name in _EFFORT}
    return [
        Measured(
            comparison.data, entry.recipe or "unknown", one.norm, one.sigma, algorithm(run), one.protects, line,
            **effort,
        )
        for line in withstood(entry)
    ]  # fmt: skip


def written(lines: Sequence[Measured]) -> str:
    """The lines as tab-separated text."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        row = asdict(line)
        row |= row.pop("line")
        writer.writerow([REGION if row[name] is None else row[name] for name in COLUMNS])
    return out.getvalue()


def read_lines(path: Path) -> list[Measured]:
    """The lines of such a file, each checked; none where there is no file."""
    if not path.exists():
        return []
    rows = list(csv.reader(io.StringIO(path.read_text("utf-8")), delimiter="\t"))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise ArgumentError(f"expected {path} with the columns {', '.join(COLUMNS)}, got others")
    return [_line(path, number, row) for number, row in enumerate(rows[1:], 2)]


def _line(path: Path, number: int, row: Sequence[str]) -> Measured:
    try:
        values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
        for name in COLUMNS:
            if name in ("sigma", "alpha", "radius"):
                values[name] = None if values[name] == REGION and name == "radius" else float(values[name])
            elif name in _COUNTS or name in _EFFORT[:-1]:
                values[name] = int(values[name])
        line = Withstood(**{name: values[name] for name in _COUNTS})
        measurement = Measured(line=line, **{name: values[name] for name in (*_HEAD, *_EFFORT)})
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{path}, line {number}: {error}") from error
    possible = 0 <= line.right <= line.inputs and line.otherwise + line.abstained <= line.certified <= line.inputs
    if not possible or min(line.otherwise, line.abstained) < 0 or measurement.protects not in MEANING:
        raise ArgumentError(f"{path}, line {number}: expected counts that can be, and whom they protect, got {row}")
    return measurement


def main() -> None:
    """Print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a finished run with attacked-first.json")
    parser.add_argument("--data", help="name of the data, if the runs call it otherwise")
    parser.add_argument("--recipe", help="how the networks were trained, if the runs do not tell")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the file to put them into")
    args = parser.parse_args()
    lines, failed = list[Measured](), False
    for folder in args.runs:
        try:
            lines += measured(read_run(folder))
        except ArgumentError as error:
            failed = True
            print(error, file=sys.stderr)
    names = {name: value for name in ("data", "recipe") if (value := getattr(args, name)) is not None}
    lines = [replace(line, **names) for line in lines]
    runs = {line.of for line in lines}
    lines += [line for line in read_lines(args.write) if line.of not in runs] if args.write else []
    lines.sort(key=lambda line: (line.norm != "l2", line.recipe, line.sigma))  # of one level in the order given
    text = written(lines)
    if args.write is None:
        print(text, end="")
    else:
        write_whole(args.write, partial(Path.write_text, data=text, encoding="utf-8"))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
