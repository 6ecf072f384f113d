"""The end of a run: its parts become `certificates.parquet` and `theta/`, its rows go through the memory."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anisocert.runs import Configuration, StoredRun
from anisocert.runs.files import theta_names
from anisocert.runs.folder import clear, describe, write_table, write_thetas
from anisocert.runs.loading import open_memory
from anisocert.work.job import Job
from anisocert.work.memory import pass_through
from anisocert.work.unfinished import Unfinished, rows_of, thetas_of


def merge(job: Job, configuration: Configuration, unfinished: Unfinished, on_memory: Callable[[int], None]) -> None:
    """Write the run, all of whose inputs are in parts. `run.json` comes last; only then do the parts go."""
    folder, parts, ids = unfinished.folder, unfinished.where(), job.ids
    where = {number: parts[number] for number in ids}  # a part that came with the folder may have others, too
    clear(folder)
    write_thetas(folder, _thetas(ids, where, job.examples.shape))
    table, description = _rows(ids, where), configuration.to_dict()
    if job.configuration.memory is not None:  # what is kept of it has no password
        run = StoredRun(folder, description | {"files": dict.fromkeys(theta_names(folder))}, table)
        with open_memory(replace(configuration, memory=job.configuration.memory)) as memory:
            table, description["memory"] = pass_through(
                run, memory, lambda number: job.chunk([number]).x[0], unfinished.memory_journal, on_memory
            )  # fmt: skip
    write_table(folder, table)
    description["preparation"] = job.examples.preparation
    describe(folder, description | {"command": configuration.command(folder)} | _training(job.metadata))
    unfinished.remove()


def _training(metadata: dict[str, Any]) -> dict[str, str]:
    """How the network was trained, if its file says so: comparisons with the literature need it."""
    recipe = metadata.get("recipe")
    name = recipe.get("name") if isinstance(recipe, dict) else recipe
    return {} if name is None else {"recipe": str(name)}


def _rows(ids: list[int], where: dict[int, Path]) -> Any:
    """All rows in order of id, each once, from the same part as its theta."""
    tables = []
    for part in sorted(set(where.values())):
        rows = rows_of(part)
        tables.append(rows.filter(pa.array([where.get(number) == part for number in rows["idx"].to_pylist()])))
    table = pa.concat_tables(tables).sort_by("idx")
    assert table["idx"].to_pylist() == ids
    return table


def _thetas(
    ids: list[int], where: dict[int, Path], shape: tuple[int, ...]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Thetas in order of id; only parts that hold inputs both before and after the present one are in memory."""
    last = {part: number for number, part in sorted(where.items())}
    held: dict[Path, dict[int, NDArray[np.float32]]] = {}
    for number in ids:
        part = where[number]
        if part not in held:
            held[part] = thetas_of(part, shape)
        yield number, held[part][number]
        if last[part] == number:
            del held[part]
