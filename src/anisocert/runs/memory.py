"""A finished run through a memory: its certificates from disk, and the memory's answers beside them."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.errors import ArgumentError, MissingExtraError
from anisocert.memory import Memory, through
from anisocert.smoothing import Gaussian, Uniform

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from safetensors.numpy import load_file
except ImportError as error:
    raise MissingExtraError("reading a run needs pyarrow and safetensors: pip install 'anisocert[cli]'") from error

TABLE = "certificates.parquet"


def example_ids(folder: Path) -> list[int]:
    """The ids of the examples that a run certifies, in its order."""
    _description(folder)
    return [int(number) for number in pq.read_table(folder / TABLE, columns=["idx"])["idx"].to_pylist()]


def add_to_memory(
    folder: Path,
    memory: Memory,
    inputs: Mapping[int, NDArray[Any]],
    on_done: Callable[[int], None] = lambda _: None,
) -> Counter[str]:
    """Pass a run's certificates through a memory in order of example id, and write the answers into the run.

    The columns `memory_*` of the table are added, or replaced. inputs: the input of each example id, as the network saw
    it, since a run does not hold them. Returns how many got each note.
    """
    described = _description(folder)
    table = pq.read_table(folder / TABLE)
    rows = table.to_pylist()
    order = sorted(range(len(rows)), key=lambda place: int(rows[place]["idx"]))
    theta = {k: v for file in sorted((folder / "theta").glob("*.safetensors")) for k, v in load_file(file).items()}
    proposals = [_certificate(rows[place], theta, inputs, described["model_hash"]) for place in order]
    answers = dict(zip(order, through(memory, proposals, on_done), strict=True))
    table = table.drop_columns([name for name in table.column_names if name.startswith("memory_")])
    for name in next(iter(answers.values()), {}):
        table = table.append_column(name, pa.array([answers[place][name] for place in range(len(rows))]))
    described["memory"] = {"file": str(memory.path), "policy": memory.policy, "order": "idx", "entries": len(memory)}
    _replace_table(folder, described, table)
    return Counter(answer["memory_note"] for answer in answers.values())


def _description(folder: Path) -> dict[str, Any]:
    """`run.json`, once it is clear that the files are those it describes."""
    if not (folder / "run.json").is_file():
        raise ArgumentError(f"expected a finished run, a folder with run.json, got {folder}")
    described: dict[str, Any] = json.loads((folder / "run.json").read_text())
    for name, expected in described["files"].items():
        # An addition that was interrupted has left the table of before, or the next one.
        if _checksum(folder / name) not in (expected, described.get("next", {}).get(name)):
            raise ArgumentError(f"{folder / name} is not the file that the run wrote: its checksum differs")
    return described


def _certificate(
    row: dict[str, Any], theta: dict[str, NDArray[np.float32]], inputs: Mapping[int, NDArray[Any]], model_hash: str
) -> Certificate:
    """The certificate of a row, with the region recomputed from theta and gap."""
    number, norm = int(row["idx"]), int(row["norm"].removeprefix("l"))
    if number not in inputs or str(number) not in theta:
        missing = "input" if number not in inputs else "theta"
        raise ArgumentError(f"expected the {missing} of example {number}, which the run certifies, got none")
    x, noise = np.asarray(inputs[number]), theta[str(number)]
    if noise.size == 1:
        noise = noise.reshape(())
    elif noise.shape != x.shape:
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
    checksum = _checksum(part)
    _write(folder, described | {"next": {TABLE: checksum}})
    part.replace(folder / TABLE)
    files = described["files"] | {TABLE: checksum}
    _write(folder, {name: value for name, value in described.items() if name != "next"} | {"files": files})


def _write(folder: Path, described: dict[str, Any]) -> None:
    part = folder / "run.json.part"
    part.write_text(json.dumps(described, indent=2) + "\n")
    part.replace(folder / "run.json")


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
