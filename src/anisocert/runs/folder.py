"""A run on disk: `run.json`, `certificates.parquet`, `theta/*.safetensors`."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anisocert import __version__
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.errors import MissingExtraError
from anisocert.runs.reading import checksum, write_description

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from safetensors.numpy import save_file
except ImportError as error:
    raise MissingExtraError("saving a run needs pyarrow and safetensors: pip install 'anisocert[cli]'") from error


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
    """Write a run; `run.json`, which holds the checksums of the rest, comes last and makes it complete."""
    (folder / "theta").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)  # an older run's would vouch for a half-written newer one
    rows = [row(certificate, int(label), sigma) for certificate, label in zip(certificates, labels, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "certificates.parquet")
    save_file({str(c.id): np.atleast_1d(c.theta) for c in certificates}, folder / "theta" / "theta.safetensors")
    files = ("certificates.parquet", "theta/theta.safetensors")
    described = config | {
        "versions": {
            "anisocert": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "model_hash": certificates[0].model_hash,
        "files": {name: checksum(folder / name) for name in files},
    }
    write_description(folder, described)
