"""A memory's columns by themselves: complete, and such as its policy gives."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anisocert.memory.policy import INHERITED, POLICIES, SHRUNK
from anisocert.runs import StoredRun
from anisocert.runs.answers import COLUMNS, check_answer
from anisocert.runs.files import TABLE, Finding


def check_columns(run: StoredRun, rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """What is wrong with the memory's columns by themselves; whether the memory backs them, `verify.backing` tells."""
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
