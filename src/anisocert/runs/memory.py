"""A finished run through a memory: its certificates from disk, and the memory's answers beside them."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.durable import locked, to_disk
from anisocert.errors import ArgumentError, MissingExtraError
from anisocert.memory import Memory, columns
from anisocert.runs.reading import JOURNAL, TABLE, StoredRun, checksum, read_run, write_description
from anisocert.smoothing import Gaussian, Uniform

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("reading a run needs pyarrow: pip install 'anisocert[cli]'") from error


def add_to_memory(
    folder: Path,
    memory: Memory,
    inputs: Mapping[int, NDArray[Any]],
    on_done: Callable[[int], None] = lambda _: None,
) -> Counter[str]:
    """Pass a run's certificates through a memory in order of example id, and write the answers into the run.

    The columns `memory_*` of the table are added, or replaced. inputs: the input of each example id, as the network saw
    it, since a run does not hold them. Returns how many got each note. May be killed and called again, to the same
    answers.
    """
    run = read_run(folder)
    journal, model_hash = folder / JOURNAL, run.description["model_hash"]
    for row in run.table.to_pylist():  # what cannot be admitted is said before anything is promised
        certificate_of(row, run.thetas, inputs.get, model_hash)
    with locked(journal, wait=False):
        table, said = pass_through(run, model_hash, memory, inputs.get, journal, on_done)
        _replace_table(folder, run.description | {"memory": said}, table)
        journal.unlink()
    return Counter(table["memory_note"].to_pylist())


def copy_run(folder: Path, copy: Path) -> None:
    """The same run in another folder, for another memory; may be killed and called again.

    `run.json` comes last; files are linked where they can be, as they are replaced and never written into. A journal of
    the run's own memory stays behind.
    """
    wanted = read_run(folder).description["files"]
    if (copy / "run.json").exists():
        found = read_run(copy).description["files"]
        if found | {TABLE: None} != wanted | {TABLE: None}:
            raise ArgumentError(f"expected no run or a copy of {folder}, got another run in {copy}")
        return
    for name in (*wanted, "run.json"):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(folder / name, target)
        except OSError:
            shutil.copyfile(folder / name, target)


def pass_through(
    run: StoredRun,
    model_hash: str,
    memory: Memory,
    inputs: Callable[[int], NDArray[Any] | None],
    journal: Path,
    on_done: Callable[[int], None] = lambda _: None,
) -> tuple[Any, dict[str, Any]]:
    """The table of a run with the memory's answers, and what to say about the memory.

    May be killed and called again, to the same answers: they are kept in the journal one by one. Asking again instead
    would not do, as an input that abstained may have come to lie in the region of a later one. Its first line names the
    memory: a journal of another one, or of this one before it was emptied, is begun anew.
    """
    answers = _begin(journal, memory)
    on_done(len(answers))
    with journal.open("a") as file:
        for row in run.table.to_pylist()[len(answers) :]:
            answers.append(columns(memory.admit(certificate_of(row, run.thetas, inputs, model_hash))))
            file.write(json.dumps(answers[-1]) + "\n")
            file.flush()
            os.fsync(file.fileno())
            on_done(1)
    said = {"file": str(memory.path), "policy": memory.policy, "prefer": memory.prefer}
    return _with_columns(run.table, answers), said | {"order": "idx", "entries": len(memory)}


def _begin(journal: Path, memory: Memory) -> list[dict[str, Any]]:
    """The answers in a memory's journal, which is made if it is not there, ready for the next one."""
    path = None if memory.path is None else str(memory.path.resolve())
    whose = {"memory": path, "generation": memory.generation, "prefer": memory.prefer}
    written = journal.read_bytes() if journal.exists() else b""
    lines = [line for line in written.splitlines(keepends=True) if line.endswith(b"\n")]
    if not lines or json.loads(lines[0]) != whose:
        lines = [f"{json.dumps(whose)}\n".encode()]
        journal.write_bytes(lines[0])
        to_disk(journal)
        to_disk(journal.parent)
    os.truncate(journal, sum(map(len, lines)))  # the last one may have been cut short
    return [json.loads(line) for line in lines[1:]]


def _with_columns(table: Any, answers: list[dict[str, Any]]) -> Any:
    """The memory's columns added to a table, or replaced in it."""
    table = table.drop_columns([name for name in table.column_names if name.startswith("memory_")])
    for name in answers[0] if answers else ():
        table = table.append_column(name, pa.array([answer[name] for answer in answers]))
    return table


def certificate_of(
    row: dict[str, Any],
    theta: dict[int, NDArray[np.float32]],
    inputs: Callable[[int], NDArray[Any] | None],
    model_hash: str,
) -> Certificate:
    """The certificate of a row, with the region recomputed from theta and gap."""
    number, norm = int(row["idx"]), int(row["norm"].removeprefix("l"))
    known = inputs(number)
    if known is None or number not in theta:
        missing = "input" if known is None else "theta"
        raise ArgumentError(f"expected the {missing} of example {number}, which the run certifies, got none")
    x, noise = np.asarray(known), theta[number]
    if noise.size > 1 and noise.shape != x.shape:
        raise ArgumentError(f"expected an input of shape {noise.shape} for example {number}, got {x.shape}")
    region = None
    if row["prediction"] != ABSTAIN:
        region = (Gaussian if norm == 2 else Uniform)(noise).region(x, noise, row["gap"])
        if abs(region.radius - row["radius"]) > 1e-9 * row["radius"]:
            raise ArgumentError(
                f"expected theta and gap of example {number} to give its radius {row['radius']}, got {region.radius}"
            )
    same = (
        "prediction", "gap", "p_a", "p_b", "top_votes", "runner_up_votes", "votes", "bound_k", "bound_n", "alpha",
        "num_classes", "bound", "stop", "method", "seed", "seconds", "reason",
    )  # fmt: skip
    values = {name: row[name] for name in same}
    return Certificate(id=number, region=region, theta=noise, norm=norm, model_hash=model_hash, x=x, **values)


def _replace_table(folder: Path, described: dict[str, Any], table: Any) -> None:
    """Put a new table in place so that a crash at any moment leaves a run whose checksums hold."""
    part = folder / f"{TABLE}.part"
    pq.write_table(table, part)
    to_disk(part)
    found = checksum(part)
    # The table in place may be the next one of an earlier addition, which was interrupted.
    files = described["files"] | {TABLE: checksum(folder / TABLE)}
    write_description(folder, described | {"files": files, "next": {TABLE: found}})
    part.replace(folder / TABLE)
    to_disk(folder)
    files[TABLE] = found
    write_description(folder, {name: value for name, value in described.items() if name != "next"} | {"files": files})
