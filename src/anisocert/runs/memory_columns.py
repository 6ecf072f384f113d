"""A memory's answers in a run's rows: whether they can follow from what the run proposed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anisocert.certificate import ABSTAIN
from anisocert.memory.policy import ABSTAINED, INHERITED, KEPT, POLICIES, SHRUNK
from anisocert.runs.files import TABLE, Finding
from anisocert.runs.stored import StoredRun
from anisocert.runs.verification import PORTABLE, TOLERANCE

COLUMNS = ("memory_prediction", "memory_radius", "memory_proxy_radius", "memory_note")


def check_memory(run: StoredRun, rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """What is wrong with the memory's columns by themselves; whether the memory backs them, `runs.backing` tells."""
    here = [name for name in COLUMNS if name in run.table.column_names]
    if not here:
        return
    memory = run.description.get("memory")
    policy = POLICIES.get(str(memory.get("policy"))) if isinstance(memory, dict) else None
    if len(here) < len(COLUMNS) or policy is None:
        yield Finding(TABLE, f"has {', '.join(here)}, but not all of the memory's columns, or run.json not its policy")
        return
    for row, *answer in zip(rows, *(run.table[name].to_pylist() for name in COLUMNS), strict=True):
        where, note = f"example {row['idx']}", answer[-1]
        if None in (*answer, row["prediction"], row["radius"], row["proxy_radius"]):
            yield Finding(where, "lacks the memory's answer, or its own")
        elif (note == INHERITED and not policy.inherits) or (note == SHRUNK and not policy.shrinks):
            yield Finding(where, f"memory_note is {note}, which policy {policy.name} does not give")
        else:
            yield from (Finding(where, what) for what in check_answer(row, *answer))


def check_answer(row: Mapping[str, Any], answer: int, radius: float, proxy: float, note: str) -> Iterator[str]:
    """What is wrong with one row's answer, beside what the run proposed."""
    if not 0 <= radius <= proxy:
        yield f"memory answers with radius {radius} and proxy radius {proxy}"
    if note == ABSTAINED and (answer != ABSTAIN or proxy != 0):
        yield f"memory abstained, with answer {answer} and proxy radius {proxy}"
    elif note == INHERITED and answer == ABSTAIN:
        yield "memory inherited an abstention, which is no promise"
    elif note not in (ABSTAINED, INHERITED, KEPT, SHRUNK):
        yield f"memory_note is {note!r}"
    if note not in (KEPT, SHRUNK):
        return
    if answer == ABSTAIN or answer != row["prediction"]:
        yield f"memory {note} the answer {answer}, the run's is {row['prediction']}"
    for name, size in (("radius", radius), ("proxy_radius", proxy)):
        if not size <= row[name] * (1 + (name == "proxy_radius") * PORTABLE):
            yield f"memory {note} a {name} of {size!r}, the run's is {row[name]!r}: it claims too much"
        elif note == KEPT and not size >= row[name] * (1 - TOLERANCE):
            yield f"memory kept a {name} of {size!r}, the run's is {row[name]!r}"
