"""Whether a memory backs the answers that a run's rows say it gave: each is derived again from the memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import Certificate
from anisocert.errors import AnisocertError
from anisocert.memory import BrokenMemoryError, Memory
from anisocert.memory.policy import ABSTAINED, INHERITED, KEPT, SHRUNK
from anisocert.runs.files import Finding
from anisocert.runs.stored import StoredRun
from anisocert.runs.verification import PORTABLE, TOLERANCE

MEMORY = "memory"  # where a finding about the memory itself is
EVIDENCE = (
    "prediction", "gap", "p_a", "p_b", "top_votes", "runner_up_votes", "votes", "bound_k", "bound_n", "alpha",
    "num_classes", "bound", "stop", "method", "norm", "seed", "model_hash",
)  # fmt: skip


@dataclass(frozen=True)
class Backing:
    """What is wrong with a memory's answers; undone: why they could not be derived again, else empty."""

    findings: tuple[Finding, ...] = ()
    undone: str = ""


@lru_cache(maxsize=64)  # a report and its tables ask about the same runs
def memory_backing(run: StoredRun) -> str | None:
    """One sentence for whoever reads numbers after a memory; None where there are none, or the memory backs them."""
    if not run.has_memory:
        return None
    found = backing(run)
    if found.findings:
        more = len(found.findings) - 1
        others = f", and {more} more" if more else ""
        return f"The numbers after the memory are not what the memory promised: {found.findings[0]}{others}."
    return f"The numbers after the memory were not derived again: {found.undone}." if found.undone else None


def backing(run: StoredRun, file: Path | None = None, data: str | None = None) -> Backing:
    """Derive a run's columns `memory_*` again. file, data: where these are, if not where the run says.

    The rows' own claims are taken as they are: they were recomputed from their votes before. An answer must be backed
    by what the memory holds now, which may be more than it held then.
    """
    said = run.description.get("memory")
    named = said.get("file") if isinstance(said, dict) else None
    path = file if file is not None or not isinstance(named, str) else Path(named)
    if path is None or not path.is_file():
        where = f"its memory is not at {path}" if path is not None else "the run does not say where its memory is"
        return Backing(undone=f"{where}; pass --memory FILE")
    try:
        with Memory.open(path, read_only=True) as memory:
            if other := not_that_memory(memory, path, run.description):
                return Backing(undone=other)
            inputs = run.inputs(data)
            return Backing((*_whole(memory), *_answers(run, memory, inputs)))
    except BrokenMemoryError as error:
        return Backing((Finding(MEMORY, str(error)),))
    except (AnisocertError, OSError) as error:
        return Backing(undone=str(error))


def not_that_memory(memory: Memory, path: Path, described: Mapping[str, Any]) -> str:
    """Why a memory is not the one that answered a run; empty where it may be."""
    of, answered = memory.stats().model_hash, described["memory"].get("generation")
    if of and of != described.get("model_hash"):
        return f"{path} is a memory of another model; pass --memory FILE"
    if answered not in (None, memory.generation):
        return f"{path} is not the memory that answered, or was emptied since; pass --memory FILE"
    return ""


def _whole(memory: Memory) -> Iterator[Finding]:
    checked = memory.check()
    for line in checked.damage:
        yield Finding(MEMORY, f"damaged: {line}")
    for one in checked.conflicts:
        yield Finding(MEMORY, f"regions of inputs {one.ids[0]} and {one.ids[1]}, of different classes, may meet")


def _answers(run: StoredRun, memory: Memory, inputs: Callable[[int], NDArray[np.float32] | None]) -> Iterator[Finding]:
    if memory.policy != (policy := run.description["memory"].get("policy")):
        yield Finding(MEMORY, f"has policy {memory.policy}, the run's is {policy}")
    for row in run.rows:
        number = int(row["idx"])
        for what in unbacked(memory, row, run.certificate(number, inputs(number))):
            yield Finding(f"example {number}", f"memory {row['memory_note']} it, but {what}")


def unbacked(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """What a row's columns `memory_*` say that the memory does not hold. proposed: the row's own certificate."""
    check = {KEPT: _check_stored, SHRUNK: _check_stored, INHERITED: _check_inherited, ABSTAINED: _check_abstained}
    yield from check[row["memory_note"]](memory, row, proposed)


def _check_stored(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """A promise of the row's own: there, from the same votes, around the same input, as large as the row says."""
    stored = memory.find(proposed.id)
    if stored is None or stored.region is None or proposed.region is None:
        yield "holds no promise to it"
        return
    if not _same_votes(stored, proposed):
        yield "holds a promise to it from other votes"
    if stored.note != row["memory_note"] or stored.prediction != row["memory_prediction"]:
        yield f"holds the class {stored.prediction} for it, {stored.note}"
    if not np.array_equal(stored.region.center, proposed.region.center):
        yield "holds a promise around another input"
    axes, own = stored.region.axes, proposed.region.axes
    if not (axes <= own).all() or (stored.note == KEPT and not np.array_equal(axes, own)):
        yield "holds another region than its votes and theta give"
    if row["memory_radius"] != stored.region.radius:
        yield f"holds a region of radius {stored.region.radius!r}, the row says {row['memory_radius']!r}"
    proxy, fresh = row["memory_proxy_radius"], stored.region.proxy_radius
    if not (1 - TOLERANCE) * fresh <= proxy <= (1 + PORTABLE) * fresh:
        yield f"holds a region of proxy radius {fresh!r}, the row says {proxy!r}"


def _check_inherited(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """A promise of that class covers the input, and leaves as much room around it as the row says."""
    x = proposed.x if proposed.region is None else proposed.region.center
    promises = memory.covers(x)
    own = memory.find(proposed.id)  # of other votes about the same input: the whole of it, and not a copy inside
    if own is not None and own.region is not None and np.array_equal(own.region.center, np.asarray(x, np.float64)):
        promises.append(own)
    backed = [one for one in promises if one.prediction == row["memory_prediction"]]
    if not backed:
        yield f"no promise of class {row['memory_prediction']} covers its input"
        return
    radius, proxy = row["memory_radius"], row["memory_proxy_radius"]
    if not any(radius <= one.radius and proxy <= (1 + PORTABLE) * one.proxy_radius for one in backed):
        most = max(backed, key=lambda one: one.radius)
        yield (
            f"the promises that cover its input leave radius {most.radius!r} and proxy radius {most.proxy_radius!r}, "
            f"the row says {radius!r} and {proxy!r}: it claims too much"
        )


def _check_abstained(memory: Memory, row: Mapping[str, Any], proposed: Certificate) -> Iterator[str]:
    """Nothing is promised. Later votes about the same input may have been, these may not."""
    stored = memory.find(proposed.id)
    if stored is not None and _same_votes(stored, proposed):
        yield "holds a promise to it from the same votes"


def _same_votes(stored: Certificate, proposed: Certificate) -> bool:
    """Whether two certificates of one input rest on one counting, whatever a memory made of the region."""
    same = np.array_equal(stored.theta, proposed.theta)
    return same and all(getattr(stored, name) == getattr(proposed, name) for name in EVIDENCE)
