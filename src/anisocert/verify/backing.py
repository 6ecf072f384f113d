"""Whether a memory backs the answers that a run's rows say it gave: each is derived again from the memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory import COLUMNS, INHERITED, POLICIES, SHRUNK, BrokenMemoryError, Memory, shown
from anisocert.runs import StoredRun
from anisocert.runs.answers import check_answer, own_promise, same_votes, unbacked
from anisocert.runs.files import TABLE, Finding
from anisocert.runs.rows import ANSWERS

MEMORY = "memory"  # the place of a finding about the memory itself


@dataclass(frozen=True)
class Backing:
    """What is wrong with a memory's answers. undone: why they could not be derived again, else empty."""

    findings: tuple[Finding, ...] = ()
    undone: str = ""


def memory_backing(run: StoredRun) -> str | None:
    """A warning for readers of numbers after a memory; None if there are none, or the memory backs them."""
    if not run.has_memory:
        return None
    derived = backing(run)
    if derived.findings:
        more = len(derived.findings) - 1
        rest = f", and {more} more" if more else ""
        return f"The numbers after the memory are not what the memory promised: {derived.findings[0]}{rest}."
    return f"The numbers after the memory were not derived again: {derived.undone}." if derived.undone else None


def backing(run: StoredRun) -> Backing:
    """Derive a run's columns `memory_*` again.

    The rows' own claims are taken as given: they were recomputed from their votes before. An answer must be backed
    by what the memory holds now, which may be more than it held then.
    """
    try:
        with memory_of(run) as memory:
            inputs = run.inputs()
            return Backing((*_whole(memory), *_answers(run, memory, inputs)))
    except BrokenMemoryError as error:
        return Backing((Finding(MEMORY, str(error)),))
    except (AnisocertError, OSError) as error:
        return Backing(undone=str(error))


@contextmanager
def memory_of(run: StoredRun) -> Iterator[Memory]:
    """The memory that answered a run, to be read; an error that says why if it is not at hand.

    Where only the run says where it is, it is opened only if it is a file.
    """
    described, typed = run.memory, run.typed("memory")
    if not typed and described is not None and described.place is None:
        raise ArgumentError(
            "its memory ended with the process that filled it; for one that stays, use anisocert memory add RUN "
            "--memory NEW"
        )
    place = typed or (described and described.place)
    if not place:
        raise ArgumentError("the run does not say where its memory is; pass --memory FILE")
    if "://" in place and not typed:  # else whoever wrote the run could have us sign in at a server of theirs
        raise ArgumentError(
            f"its memory is at {shown(place)}, and no server is contacted because a run names it; pass --memory URL to "
            "anisocert verify or show"
        )
    try:
        exists, why = Memory.exists(place), ""
    except (AnisocertError, OSError, ValueError) as error:
        exists, why = False, f" ({error})"
    if not exists:
        raise ArgumentError(f"its memory is not at {shown(place)}{why}; pass --memory FILE")
    with Memory.open(place, read_only=True) as memory:
        model_hash, generation = memory.stats().model_hash, described and described.generation
        if model_hash and model_hash != run.model_hash:
            raise ArgumentError(f"{memory.place} is a memory of a different model; pass --memory FILE")
        if generation not in (None, memory.generation):
            raise ArgumentError(
                f"{memory.place} is not the memory that answered, or has been emptied since; pass --memory FILE"
            )
        yield memory


def check_columns(run: StoredRun, rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """What is wrong with the memory's columns by themselves; `backing` says whether the memory backs them."""
    names = [name for name in COLUMNS if name in run.table.column_names]
    if not names:
        return
    policy = None if run.memory is None else run.memory.rules
    if len(names) < len(COLUMNS) or policy is None:
        yield Finding(TABLE, f"has {', '.join(names)}, but not all of the memory's columns, or run.json not its policy")
        return
    for name in COLUMNS:
        if (kind := run.table.schema.field(name).type) != ANSWERS.field(name).type:
            yield Finding(TABLE, f"has {name} as {kind}, a run's is {ANSWERS.field(name).type}")
            return
    for row, *answer in zip(rows, *(run.table[name].to_pylist() for name in COLUMNS), strict=True):
        where, note = f"example {row['idx']}", answer[-1]
        if None in (*answer, row["prediction"], row["radius"], row["proxy_radius"]):
            yield Finding(where, "lacks the memory's answer, or its own")
        elif note == SHRUNK and not policy.shrinks:
            yield Finding(where, f"memory_note is {note}, which policy {policy.name} does not give")
        else:
            yield from (Finding(where, fault) for fault in check_answer(row, *answer))


def _whole(memory: Memory) -> Iterator[Finding]:
    checked = memory.check()
    for line in checked.damage:
        yield Finding(MEMORY, f"damaged: {line}")
    for pair in checked.conflicts:
        yield Finding(MEMORY, f"regions of inputs {pair.ids[0]} and {pair.ids[1]}, of different classes, may meet")


def _answers(run: StoredRun, memory: Memory, inputs: Callable[[int], NDArray[np.float32] | None]) -> Iterator[Finding]:
    if memory.policy != (policy := run.memory and run.memory.policy):
        yield Finding(MEMORY, f"has policy {memory.policy}, the run's is {policy}")
    for row in run.rows:
        number, note = int(row["idx"]), row["memory_note"]
        proposed = run.certificate(number, inputs(number))
        faults, own = [*unbacked(memory, row, proposed)], None
        if note == INHERITED:
            own = own_promise(memory, proposed)
            # Its own promise answers these votes; and what inherited is not stored later, as a memory only grows.
            if not faults and own is not None and same_votes(own, proposed):
                faults = ["holds a promise to it from the same votes"]
        yield from (Finding(f"example {number}", f"memory {note} it, but {fault}") for fault in faults)
        # A weaker policy gives no other input's promise; one that was answered before has its own.
        if note == INHERITED and not POLICIES[memory.policy].inherits and own is None:
            yield Finding(f"example {number}", f"memory {note} it, which policy {memory.policy} does not give")
