"""What an attack measured, in a file beside the run.

The file is no part of what `run.json` vouches for, and like the run it may come from someone else: it is checked value
by value before anything is concluded from it, and it names the rows and the network that it is about.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from anisocert.durable import write_whole
from anisocert.errors import ArgumentError
from anisocert.options import words
from anisocert.runs.attacked import AttackedFirst, Integers
from anisocert.runs.files import ATTACKED, MOST_ATTACKED_BYTES, WrongFileError, read_bytes, rendered

if TYPE_CHECKING:
    from anisocert.runs.stored import StoredRun


def rows_hash(description: Mapping[str, Any]) -> str:
    """Names a run's rows and thetas, by the checksums in its description."""
    return hashlib.sha256(json.dumps(description["files"], sort_keys=True).encode()).hexdigest()


def write_attacked(folder: Path, found: AttackedFirst) -> None:
    """Keep it beside the run, in place of what was there."""
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(found).items()}
    text = rendered(plain)
    if len(text) > MOST_ATTACKED_BYTES:
        raise ArgumentError(f"expected at most {MOST_ATTACKED_BYTES:,} bytes to keep, got {len(text):,}: use fewer ids")
    write_whole(folder / ATTACKED, lambda part: part.write_text(text))


def read_attacked(folder: Path) -> AttackedFirst:
    """What is kept beside a run; an error if it is not what `write_attacked` wrote."""
    try:
        content = read_bytes(folder, ATTACKED)
        plain = json.loads(content)
        if not isinstance(plain, dict) or rendered(plain).encode() != content:
            raise ArgumentError("its own checksum or its layout differs")
        return _checked({name: value for name, value in plain.items() if name != "checksum"})
    except WrongFileError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:  # ArgumentError is a ValueError
        what = f"is not what anisocert attack --first writes ({_short(error)}): repeat that, or remove the file"
        raise WrongFileError(folder, ATTACKED, what) from error


def foreign(run: "StoredRun", found: AttackedFirst) -> str:
    """Why a measurement cannot be of this run; empty where it can."""
    ids = set(found.ids.tolist())
    rows = [row for row in run.rows if row["idx"] in ids]
    same = (found.model_hash, found.rows_hash) == (run.model_hash, rows_hash(run.description))
    labels, promised = [row["label"] for row in rows], [run.promised(row["idx"]) for row in rows]
    if not same or (labels, promised) != (found.labels.tolist(), found.promised.tolist()):
        return "is of other rows, or of another network"
    classes = run.said("num_classes")
    if type(classes) is int and max(array.max() for array in (found.labels, found.answers, found.inside)) >= classes:
        return f"has answers beyond the run's {classes} classes"
    if (found.expected is not None) != run.for_everyone:
        return (
            "tells of errors" if found.expected is not None else "does not tell which errors may explain what it found"
        )
    return ""


def _short(error: Exception) -> str:
    """A file may hold anything: what is quoted of it is kept short."""
    message = " ".join(str(error).split())
    return ascii(message)[1:-1] if len(message) < 300 else f"{ascii(message[:300])[1:-1]}..."


def _checked(plain: dict[str, Any]) -> AttackedFirst:
    kinds = get_type_hints(AttackedFirst)
    if set(plain) != set(kinds):
        raise ArgumentError(f"expected {', '.join(kinds)}, got {', '.join(plain)}")
    for name, kind in kinds.items():
        if kind is int:
            _whole(name, plain[name])
        elif kind in (str, float, float | None) and not isinstance(plain[name], kind):
            raise ArgumentError(f"expected {name}, {words(kind)}, got {type(plain[name]).__name__}")
    radii, answers = plain["radii"], plain["answers"]
    names = [name for name, kind in kinds.items() if kind == Integers and name != "answers"]
    arrays = {name: np.array(_wholes(name, plain[name]), np.int64) for name in names}
    if not isinstance(radii, list) or not all(type(radius) is float and math.isfinite(radius) for radius in radii):
        raise ArgumentError("expected radii, a list of finite numbers, got another")
    if not isinstance(answers, list) or {len(_wholes("answers", row)) for row in answers} - {len(radii)}:
        raise ArgumentError("expected answers, a list per input with one per radius, got another")
    grid = np.array(answers, np.int64).reshape(len(answers), len(radii))
    return AttackedFirst(**plain | arrays | {"radii": np.array(radii), "answers": grid})


def _wholes(name: str, value: object) -> list[int]:
    if not isinstance(value, list):
        raise ArgumentError(f"expected {name}, a list of whole numbers, got {type(value).__name__}")
    for number in value:
        _whole(name, number)
    return value


def _whole(name: str, value: object) -> None:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ArgumentError(f"expected {name}: whole numbers of 64 bits, got {ascii(value)[:40]}")
