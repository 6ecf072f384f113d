"""Runs from the field's files, and runs as the field's files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anisocert.certificate import ABSTAIN
from anisocert.errors import ArgumentError, from_extra
from anisocert.evaluate._tsv import ANSWERED, Format, Line, TsvFile, read_tsv, write_tsv
from anisocert.optimize import ROUND, SAME_FOR_ALL
from anisocert.runs import Configuration, StoredRun
from anisocert.runs.files import checksum, expect_own_folders
from anisocert.runs.folder import claim_files, clear, describe, write_table
from anisocert.runs.rows import SCHEMA

with from_extra("cli", "a run needs pyarrow"):
    import pyarrow as pa

METHOD_OF: dict[Format, str] = {"ddrs": "isotropic", "ancer": "anisotropic"}
"""What a published code certifies with. Not Cohen's: its layout is everybody's, and fixed noise protects everyone."""
ROUNDING = 0.01  # as a part of a file's sigma, which may have three digits


def import_tsv(file: Path, folder: Path, *, force: bool = False, **said: Any) -> TsvFile:
    """A run folder from a file of the field: what the file says is filled in, the other columns are null.

    said: what the file does not tell, under the names of `run.json`: sigma, norm, method, alpha, n, data. Norm and
    method must be known, as they say what the radii are of and whom they protect. Radii are taken as they stand, and
    scripts of the field round them to the nearest, so about half of them are a little too large. Nothing can be
    recomputed: the file has no votes. force: in place of files that are not ours.
    """
    expect_own_folders(folder)
    if (folder / "run.json").exists() or (folder / "unfinished").exists():
        raise ArgumentError(f"expected a folder without a run, got {folder}")
    tsv = read_tsv(file)
    if not tsv.lines:
        raise ArgumentError(f"expected at least one result in {file}, got none")
    if ANSWERED in tsv.said:
        raise ArgumentError(
            f"expected results before a memory, got the answers of one in {file}: as a run, its regions would pass for "
            "those of each input's own classifier; export without --after-memory"
        )
    description = _known(file, tsv, {name: value for name, value in said.items() if value is not None})
    claim_files(folder, force)
    clear(folder)
    (folder / "theta").rmdir()
    write_table(folder, pa.Table.from_pylist([_row(line, description) for line in tsv.lines], SCHEMA))
    source = {"file": file.name, "sha256": checksum(file), "format": tsv.format, "cut": tsv.cut}
    describe(folder, description | {"imported": source, "model_hash": None})
    return tsv


def _known(file: Path, tsv: TsvFile, said: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a file's results, by itself or by its owner."""
    for name, value in tsv.said.items():
        if said.get(name, value) != value:
            raise ArgumentError(f"expected {name} {value}, which {file} says of itself, got {said[name]}")
    usual = {"method": METHOD_OF[tsv.format]} if tsv.format in METHOD_OF else {}
    description: dict[str, Any] = {**usual, **tsv.said, **said}
    if "norm" not in description:
        raise ArgumentError(f"expected --norm l2 or --norm l1, the norm of the radii, as {file} does not say it")
    if "method" not in description:
        raise ArgumentError(
            f"expected --method, as {file} does not say it: fixed if one noise served all inputs, so that radii hold "
            "for everyone; isotropic or anisotropic if each input had its own"
        )
    Configuration(**{"model": "", "data": "", "sigma": 1.0, **description})  # it checks the values
    # of an abstention, files may say 0
    noises = {line.noises for line in tsv.lines if line.predict != ABSTAIN or any(line.noises)}
    if description["method"] in SAME_FOR_ALL and len(noises) > 1:
        raise ArgumentError(
            f"expected one sigma in {file}, as method {description['method']} is one classifier for all inputs, got "
            "several: isotropic or anisotropic, if each input had its own"
        )
    sigma = description.get("sigma")
    if description["method"] == "fixed" and sigma is not None:
        for noise in next(iter(noises), ()):
            if abs(noise - sigma) > ROUNDING * sigma:
                raise ArgumentError(f"expected sigma {noise:g}, which {file} says of itself, got {sigma:g}")
    return description


def export_run(run: StoredRun, file: Path, form: Format, after_memory: bool = False, digits: int | None = None) -> int:
    """Write a run's results in one of the field's layouts, before the memory or after it; return how many lines."""
    if after_memory and not run.has_memory:
        raise ArgumentError(f"expected a run that went through a memory, got {run.folder}")
    if after_memory and run.for_everyone:  # a reader of the file would take the memory's regions for the classifier's
        raise ArgumentError(
            f"expected noise chosen for each input where results after a memory are exported, got {run.folder} with "
            f"method {run.said('method')}, which holds for everyone without one: export it as it was before"
        )
    rows = run.rows
    return write_tsv(file, form, map(_after_memory, rows) if after_memory else rows, digits, after_memory)


def _row(line: Line, description: Mapping[str, Any]) -> dict[str, Any]:
    """A run's row, as far as the line tells."""
    noise = description.get("sigma") if line.sigma is None and description["method"] == "fixed" else line.sigma
    proxy = line.radius if line.radius_proxy is None and description["method"] in ROUND else line.radius_proxy
    return {
        "idx": line.idx, "label": line.label, "prediction": line.predict, "correct": line.correct,
        "radius": line.radius, "proxy_radius": proxy, "theta_min": noise if line.min_sigma is None else line.min_sigma,
        "theta_max": noise, "theta_geomean": noise, "seconds": line.seconds,
        **{name: description.get(name) for name in ("sigma", "norm", "method", "alpha")},
    }  # fmt: skip


def _after_memory(row: Mapping[str, Any]) -> dict[str, Any]:
    answer = row["memory_prediction"]
    return {
        **row, "prediction": answer, "correct": answer == row["label"] and answer != ABSTAIN,
        "radius": row["memory_radius"], "proxy_radius": row["memory_proxy_radius"],
    }  # fmt: skip
