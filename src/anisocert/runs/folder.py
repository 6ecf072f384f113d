"""A run on disk: `run.json`, `certificates.parquet`, `theta/*.safetensors`."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert import __version__
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.durable import write_whole
from anisocert.errors import MissingExtraError
from anisocert.runs.reading import JOURNAL, TABLE, checksum, write_description

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from safetensors.numpy import save
except ImportError as error:
    raise MissingExtraError("saving a run needs pyarrow and safetensors: pip install 'anisocert[cli]'") from error

THETA_FILE_BYTES = 200_000_000

# Written out, because a column without values (`stop`) would get no type from them, and parts must merge.
SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("idx", "label", "prediction")]
    + [("correct", pa.bool_())]
    + [(name, pa.float64()) for name in ("radius", "proxy_radius", "gap", "p_a", "p_b")]
    + [(name, pa.int64()) for name in ("top_votes", "runner_up_votes", "votes", "bound_k", "bound_n")]
    + [("alpha", pa.float64()), ("num_classes", pa.int64())]
    + [(name, pa.string()) for name in ("bound", "stop", "method", "norm")]
    + [(name, pa.float64()) for name in ("sigma", "theta_min", "theta_max", "theta_geomean")]
    + [("reason", pa.string()), ("seconds", pa.float64()), ("seed", pa.uint64())]
)


def row(certificate: Certificate, label: int, sigma: float) -> dict[str, Any]:
    """One line of `certificates.parquet`: the promise, its evidence and what it cost, before any memory."""
    theta = certificate.theta.astype(np.float64)
    return {
        "idx": certificate.id,
        "label": label,
        "prediction": certificate.prediction,
        "correct": certificate.prediction == label and certificate.prediction != ABSTAIN,
        "radius": certificate.radius,
        "proxy_radius": certificate.proxy_radius,
        "gap": certificate.gap,
        "p_a": certificate.p_a,
        "p_b": certificate.p_b,
        "top_votes": certificate.top_votes,
        "runner_up_votes": certificate.runner_up_votes,
        "votes": certificate.votes,
        "bound_k": certificate.bound_k,
        "bound_n": certificate.bound_n,
        "alpha": certificate.alpha,
        "num_classes": certificate.num_classes,
        "bound": certificate.bound,
        "stop": certificate.stop,
        "method": certificate.method,
        "norm": f"l{certificate.norm}",
        "sigma": sigma,
        "theta_min": float(theta.min()),
        "theta_max": float(theta.max()),
        "theta_geomean": float(np.exp(np.log(theta).mean())),
        "reason": certificate.reason,
        "seconds": certificate.seconds,
        "seed": certificate.seed,
    }


def save_run(
    folder: Path, config: dict[str, Any], certificates: Sequence[Certificate], labels: Sequence[int], sigma: float
) -> None:
    """Write a run whose certificates are all at hand."""
    rows = [row(certificate, int(label), sigma) for certificate, label in zip(certificates, labels, strict=True)]
    clear(folder)
    write_thetas(folder, ((c.id, c.theta) for c in certificates))
    write_table(folder, pa.Table.from_pylist(rows, SCHEMA))
    describe(folder, config | {"model_hash": certificates[0].model_hash})


def clear(folder: Path) -> None:
    """Make room for a run's files; first of all goes `run.json`, which would vouch for a half-written one."""
    (folder / "theta").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)
    (folder / JOURNAL).unlink(missing_ok=True)  # of a memory's answers to the run that was here
    for old in (folder / "theta").glob("*.safetensors"):
        old.unlink()


def write_thetas(folder: Path, thetas: Iterable[tuple[int, NDArray[np.float32]]]) -> None:
    """Thetas by example id, in as many files as it takes to keep each of bounded size."""
    files, size, held = 0, 0, dict[str, NDArray[np.float32]]()

    def flush() -> None:
        nonlocal files, size, held
        files += 1
        content = save(held)
        path = folder / "theta" / f"theta-{files:04d}.safetensors"
        write_whole(path, lambda part: part.write_bytes(content))
        size, held = 0, {}

    for number, theta in thetas:
        if held and size + theta.nbytes > THETA_FILE_BYTES:
            flush()
        held[str(number)] = np.atleast_1d(theta)
        size += theta.nbytes
    flush()
    if files == 1:
        (folder / "theta" / "theta-0001.safetensors").replace(folder / "theta" / "theta.safetensors")


def write_table(folder: Path, table: Any) -> None:
    """One row an input."""
    write_whole(folder / TABLE, lambda part: pq.write_table(table, part))


def describe(folder: Path, config: dict[str, Any]) -> None:
    """Write `run.json`, which holds the checksums of the rest: it comes last and makes the run complete."""
    versions = {
        "anisocert": __version__, "python": platform.python_version(), "torch": torch.__version__,
        "numpy": np.__version__,
    }  # fmt: skip
    names = [TABLE, *(f"theta/{path.name}" for path in sorted((folder / "theta").glob("*.safetensors")))]
    files = {name: checksum(folder / name) for name in names}
    write_description(folder, config | {"versions": versions, "files": files})
