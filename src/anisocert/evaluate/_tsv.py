"""The field's files: tab-separated, one line per input, in the layouts of three published codes.

Cohen et al. (2019): idx label predict radius correct time. Data-dependent smoothing (Alfarra et al. 2022): with sigma,
the noise chosen for the input. ANCER (Eiras et al. 2022): with the proxy radius and the smallest sigma. An abstention
is predict -1, radius 0.0, correct 0. Files of ours say norm and method too, in columns after these: scripts of the
field look columns up by name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import ROUND_FLOOR, Decimal
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from anisocert.certificate import ABSTAIN
from anisocert.data.dataset import UNLABELLED
from anisocert.durable import write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import regular_file

Format = Literal["cohen", "ddrs", "ancer"]
HEADERS: dict[Format, tuple[str, ...]] = {
    "cohen": ("idx", "label", "predict", "radius", "correct", "time"),
    "ddrs": ("idx", "label", "predict", "radius", "correct", "sigma", "time"),
    "ancer": ("idx", "label", "predict", "radius", "radius_proxy", "correct", "min_sigma", "time"),
}
SIZES = {name for names in HEADERS.values() for name in names} - {"time"}
"""Columns whose numbers would be others, and certificates larger, if a line ended inside them: 1.3e-05, cut to 1.3."""
OURS = ("norm", "method")
"""Columns that tell what the radii are of, and whom they protect."""
ANSWERED = "answered_by"
"""A column of files that hold a memory's answers: the radii are of its regions, not of an input's own classifier."""
MOST = 1e30  # of any number: more is no radius, and tables have no room for it
CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+):([0-5]?\d):([0-5]?\d(?:\.\d*)?)")


@dataclass(frozen=True)
class Line:
    """One input. seconds: the time it took. Columns that a layout does not have are None."""

    idx: int
    label: int
    predict: int
    radius: float
    correct: bool
    seconds: float
    radius_proxy: float | None = None
    sigma: float | None = None
    min_sigma: float | None = None

    def __post_init__(self) -> None:
        if self.idx < 0 or self.predict < ABSTAIN or self.label < UNLABELLED:
            values = f"{self.idx}, {self.predict} and {self.label}"
            raise ArgumentError(f"expected idx >= 0, predict >= -1 and label >= -1, got {values}")
        sizes = [size for size in (self.radius, self.radius_proxy) if size is not None]
        if not all(isfinite(size) and size >= 0 for size in sizes):
            raise ArgumentError(f"expected radii that are finite and not negative, got {sizes}")
        if any(noise < 0 for noise in self.noises):
            raise ArgumentError(f"expected sigmas of at least 0, got {self.noises}")
        if self.predict == ABSTAIN and any(sizes):
            raise ArgumentError(f"expected radius 0 with an abstention, got {sizes}")
        if self.correct != (self.predict == self.label and self.predict != ABSTAIN):
            raise ArgumentError(
                f"expected correct {int(not self.correct)} with label {self.label} and predict {self.predict}, "
                f"got {int(self.correct)}"
            )

    @property
    def noises(self) -> tuple[float, ...]:
        """What the line says of the input's noise."""
        return tuple(noise for noise in (self.sigma, self.min_sigma) if noise is not None)


@dataclass(frozen=True)
class TsvFile:
    """A file's lines in order of idx. cut: whether its last line was incomplete, and left out.

    said: norm, method and answered_by, where the file has them.
    """

    format: Format
    lines: tuple[Line, ...]
    cut: bool = False
    said: Mapping[str, str] = field(default_factory=dict)


def read_tsv(path: Path) -> TsvFile:
    """A file in any of the three layouts; incomplete files are accepted, as the field's scripts write line by line.

    A last line that was cut off is left out. An input that comes twice, as after a restart, must come with one result.
    """
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"expected tab-separated text in {path}, got other bytes") from error
    rows = [(number, row.split("\t")) for number, row in enumerate(text.splitlines(), 1) if row.strip()]
    if not rows:
        raise ArgumentError(f"expected a header in {path}, got an empty file")
    header = tuple(name.strip() for name in rows[0][1])
    # Descendants of these codes add columns of their own: what is known is read, wherever it stands.
    form = next((name for name, names in reversed(HEADERS.items()) if set(names) <= set(header)), None)
    if form is None:
        layouts = "; ".join(f"{name}: {' '.join(names)}" for name, names in HEADERS.items())
        raise ArgumentError(f"expected the columns of one of ({layouts}) in {path}, got {' '.join(header)!r}")
    lines: dict[int, Line] = {}
    said, cut = dict[str, str](), False
    unfinished = "" if text.endswith("\n") else header[-1]  # the column in which the last line may have been cut
    for number, fields in rows[1:]:
        values = [text.strip() for text in fields]
        if tuple(values) == header:
            continue  # a script that was started again, appending
        try:
            if number == rows[-1][0] and unfinished in SIZES:
                raise ArgumentError(f"expected the end of a line after {unfinished}, got the end of the file")
            line = _line(header, fields)
            own = {name: value for name, value in zip(header, values, strict=True) if name in (*OURS, ANSWERED)}
            if (said := said or own) != own:
                raise ArgumentError(f"expected {said} as in the lines above, got {own}")
        except ArgumentError as error:
            cut = number == rows[-1][0] and (len(fields) < len(header) or bool(unfinished))
            if not cut:
                raise ArgumentError(f"{path}, line {number}: {error}") from error
            break
        if replace(lines.setdefault(line.idx, line), seconds=line.seconds) != line:
            raise ArgumentError(
                f"{path}, line {number}: expected the result that idx {line.idx} has above, got another"
            )
    return TsvFile(form, tuple(lines[idx] for idx in sorted(lines)), cut, said)


def write_tsv(
    path: Path, form: Format, rows: Iterable[Mapping[str, Any]], digits: int | None = None, answered: bool = False
) -> int:
    """Write rows of a run in one of the layouts, and return how many.

    digits: of radii and sigmas, which are rounded down; None: as many as needed to read the same numbers back.
    answered: whether they are a memory's answers.
    """
    if form not in get_args(Format):
        raise ArgumentError(f"expected format of {', '.join(get_args(Format))}, got {form!r}")
    if digits is not None and digits < 1:
        raise ArgumentError(f"expected digits >= 1, got {digits}")
    more = (f"\t{ANSWERED}", "\tmemory") if answered else ("", "")
    lines = [_text(form, row, digits) + more[1] for row in rows]
    text = "".join(f"{line}\n" for line in ("\t".join((*HEADERS[form], *OURS)) + more[0], *lines))
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))
    return len(lines)


def seconds(text: str) -> float:
    """Seconds of a time as the field writes it: `12.5`, `0:00:12.500000`, `1 day, 2:03:04`."""
    clock = CLOCK.fullmatch(text.strip())
    if clock is None:
        value = _number("time", text)
        if value < 0:
            raise ArgumentError(f"expected a time of at least 0, got {text!r}")
        return value
    days, hours, minutes, rest = clock.groups()
    try:
        duration = timedelta(days=int(days or 0), hours=int(hours), minutes=int(minutes), seconds=float(rest))
    except (OverflowError, ValueError) as error:
        raise ArgumentError(f"expected a time, got {text[:100]!r}") from error
    return duration.total_seconds()


def rounded_down(value: float, digits: int | None) -> str:
    """A non-negative number in this many significant digits, never above it; None: in all its digits."""
    if digits is None or value == 0:
        return repr(float(value))
    exact = Decimal(value)
    return str(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_FLOOR))


def _line(header: tuple[str, ...], fields: list[str]) -> Line:
    if len(fields) != len(header):
        raise ArgumentError(f"expected {len(header)} columns, got {len(fields)}")
    values = dict(zip(header, (field.strip() for field in fields), strict=True))
    if values["correct"] not in ("0", "1", "True", "False"):
        raise ArgumentError(f"expected correct 0 or 1, got {values['correct']!r}")
    optional = {name: _number(name, values[name]) for name in ("radius_proxy", "sigma", "min_sigma") if name in values}
    return Line(
        idx=_whole("idx", values["idx"]), label=_whole("label", values["label"]),
        predict=_whole("predict", values["predict"]), radius=_number("radius", values["radius"]),
        correct=values["correct"] in ("1", "True"), seconds=seconds(values["time"]), **optional,
    )  # fmt: skip


def _text(form: Format, row: Mapping[str, Any], digits: int | None) -> str:
    if form == "ddrs" and row["theta_min"] != row["theta_max"]:
        raise ArgumentError(
            f"expected one sigma per input for format ddrs, got several for example {row['idx']}: use format ancer"
        )
    values = {
        "idx": row["idx"],
        "label": row["label"],
        "predict": row["prediction"],
        "radius": rounded_down(row["radius"], digits),
        "correct": int(row["correct"]),
        "time": timedelta(seconds=row["seconds"] or 0.0),
        **{name: row[name] for name in OURS},
    }
    needed = {"radius_proxy": "proxy_radius", "sigma": "theta_min", "min_sigma": "theta_min"}
    for name in set(needed) & set(HEADERS[form]):
        if row[needed[name]] is None:
            raise ArgumentError(f"expected {needed[name]} of every example for format {form}, got none of {row['idx']}")
        values[name] = rounded_down(row[needed[name]], digits)
    return "\t".join(str(values[name]) for name in (*HEADERS[form], *OURS))


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise ArgumentError(f"expected {name} as a whole number of at most 18 digits, got {text[:100]!r}")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ArgumentError(f"expected {name} as a number, got {text[:100]!r}") from error
    if not abs(value) <= MOST:
        raise ArgumentError(f"expected {name} as a number of at most {MOST:g}, got {text[:100]!r}")
    return value
