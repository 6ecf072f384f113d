"""A finished run through a memory: its certificates from disk, and the memory's answers beside them."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from anisocert.durable import locked, to_disk
from anisocert.engine.probe import from_json
from anisocert.errors import ArgumentError
from anisocert.memory import ABSTAINED, COLUMNS, INHERITED, KEPT, SHRUNK, Memory, columns
from anisocert.runs import StoredRun, read_run
from anisocert.runs.answers import check_answer, unbacked
from anisocert.runs.files import JOURNAL, TABLE, expect_finished, expect_own
from anisocert.runs.folder import replace_table


def add_to_memory(
    folder: Path,
    memory: Memory,
    inputs: Mapping[int, NDArray[Any]] | None = None,
    on_done: Callable[[int], None] = lambda _: None,
    *,
    data: str | None = None,
    force: bool = False,
) -> Counter[str]:
    """Pass a run's certificates through a memory in order of example id, and write the answers into the run.

    The columns `memory_*` of the table are added, or replaced. Returns how many got each note. May be interrupted and
    repeated, with the same answers: a run that has this memory's keeps them.

    Args:
        folder: of the run.
        memory: that answers.
        inputs: the input of each example id, as the network saw it, since a run does not hold them. Default: those of
            the run's data. Others than the run was made from are an error.
        on_done: called with how many more are done.
        data: where the run's data is, if not where the run says.
        force: ask again, and an input that abstained may by now lie in the region of a later one.
    """
    expect_finished(folder)  # a lock would create the folder
    lock = folder / f"{JOURNAL}.lock"
    with locked(lock, wait=False):
        try:  # read under the lock, as another process may have added the run just before
            return _add(read_run(folder).moved(data=data), memory, inputs, on_done, force)
        finally:
            with suppress(OSError):  # on Windows it stays, which does no harm
                lock.unlink()


def _add(
    run: StoredRun,
    memory: Memory,
    inputs: Mapping[int, NDArray[Any]] | None,
    on_done: Callable[[int], None],
    force: bool,
) -> Counter[str]:
    """`add_to_memory`, by the one process that holds the run's lock."""
    folder, journal = run.folder, run.folder / JOURNAL
    if inputs is not None:
        run.expect_inputs(inputs)
    input_of = run.inputs() if inputs is None else inputs.get
    for row in run.rows:  # an error for what cannot be admitted, before anything is promised
        run.certificate(row["idx"], input_of(row["idx"]))
    expect_own(journal)
    if force or journal.exists() or not _has_answers(run, memory):
        table, record = pass_through(run, memory, input_of, journal, on_done)
        replace_table(folder, run.description | {"memory": record}, table)
        journal.unlink()
    else:
        table, file = run.table, folder / TABLE
        answers = [{name: row[name] for name in COLUMNS} for row in run.rows]
        _expect_backed(file, answers, run, memory, input_of)
        on_done(len(answers))
    return Counter(table["memory_note"].to_pylist())


def pass_through(
    run: StoredRun,
    memory: Memory,
    inputs: Callable[[int], NDArray[Any] | None],
    journal: Path,
    on_done: Callable[[int], None],
) -> tuple[Any, dict[str, Any]]:
    """The table of a run with the memory's answers, and what to say about the memory.

    May be interrupted and repeated, with the same answers: they are kept in the journal one by one. Asking again would
    not do, as an input that abstained may by now lie in the region of a later one. Its first line names the memory: a
    journal of another memory, or of this one before it was emptied, is begun anew.
    """
    if (probe := run.said("probe")) is not None and run.model_hash is not None:
        memory.expect(run.model_hash, from_json(probe))
    answers = _begin(journal, memory)
    _expect_backed(journal, answers, run, memory, inputs)
    on_done(len(answers))
    with journal.open("a") as file:
        for row in run.rows[len(answers) :]:
            answers.append(columns(memory.admit(run.certificate(row["idx"], inputs(row["idx"])))))
            file.write(json.dumps(answers[-1]) + "\n")
            file.flush()
            os.fsync(file.fileno())
            on_done(1)
    record = {"file": _place(memory), "policy": memory.policy, "prefer": memory.prefer, "generation": memory.generation}
    return _with_columns(run.table, answers), record | {"order": "idx", "entries": len(memory)}


def _place(memory: Memory) -> str | None:
    """Where a memory will be found from any folder; None if it ends with the process."""
    return memory.place if memory.path is None else str(memory.path.resolve())


def _has_answers(run: StoredRun, memory: Memory) -> bool:
    """Whether a run says that its answers are this memory's, and no exchange of its table was interrupted."""
    record = run.description.get("memory")
    if not isinstance(record, dict) or "next" in run.description or not set(COLUMNS) <= set(run.table.column_names):
        return False
    identity = {"memory": record.get("file"), **{name: record.get(name) for name in ("generation", "prefer")}}
    return identity == _whose(memory)


def _whose(memory: Memory) -> dict[str, Any]:
    """What a memory's answers are known by."""
    return {"memory": _place(memory), "generation": memory.generation, "prefer": memory.prefer}


def _begin(journal: Path, memory: Memory) -> list[dict[str, Any]]:
    """The answers in a memory's journal, which is created if absent and left ready for the next one."""
    identity = _whose(memory)
    expect_own(journal)
    written = journal.read_bytes() if journal.exists() else b""
    lines = [line + b"\n" for line in written.split(b"\n")[:-1]]
    if not lines or lines[0] != f"{json.dumps(identity)}\n".encode():
        lines = [f"{json.dumps(identity)}\n".encode()]
        journal.write_bytes(lines[0])
        to_disk(journal)
        to_disk(journal.parent)
    os.truncate(journal, sum(map(len, lines)))  # the last one may have been cut short
    return [_line(journal, line) for line in lines[1:]]


def _line(journal: Path, line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _not_ours(journal, "a line that is not JSON") from error
    return _answer(journal, answer)


def _answer(file: Path, answer: Any) -> dict[str, Any]:
    """What a file holds, if it is an answer."""
    if not isinstance(answer, dict) or tuple(map(type, answer.values())) != (int, float, float, str):
        raise _not_ours(file, "a row that is not an answer")
    if tuple(answer) != COLUMNS or answer["memory_note"] not in (KEPT, SHRUNK, INHERITED, ABSTAINED):
        raise _not_ours(file, "a row that is not an answer")
    return answer


def _expect_backed(
    file: Path,
    answers: list[dict[str, Any]],
    run: StoredRun,
    memory: Memory,
    inputs: Callable[[int], NDArray[Any] | None],
) -> None:
    """An error unless the memory holds what its journal, or the run's table, says: anyone may have written to it."""
    if len(answers) > len(run):
        raise _not_ours(file, f"{len(answers)} for {len(run)} inputs")
    for row, answer in zip(run.rows, answers, strict=False):
        proposed = run.certificate(row["idx"], inputs(row["idx"]))
        for fault in (*check_answer(row, *answer.values()), *unbacked(memory, row | answer, proposed)):
            raise _not_ours(file, f"for example {row['idx']} {answer['memory_note']}, but {fault}")


def _not_ours(file: Path, got: str) -> ArgumentError:
    remedy = "with --force (force=True)" if file.name == TABLE else "remove it, and"
    return ArgumentError(f"expected the memory's answers in {file}, got {got}: {remedy} the memory is asked again")


def _with_columns(table: Any, answers: list[dict[str, Any]]) -> Any:
    """The memory's columns added to a table, or replaced in it."""
    table = table.drop_columns([name for name in table.column_names if name.startswith("memory_")])
    for name in answers[0] if answers else ():
        table = table.append_column(name, pa.array([answer[name] for answer in answers]))
    return table
