"""Runs as files, made without a network: gaps and thetas are drawn, everything else follows from them."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from anisocert.runs import StoredRun, read_run
from anisocert.runs.files import checksum, write_description


def write_data(path: Path, count: int, shape: tuple[int, ...] = (1, 6, 6)) -> Path:
    """A data set of images, or of vectors, with four classes."""
    rng = np.random.default_rng(0)
    x = rng.random((count, *shape)).astype(np.float32)
    if len(shape) == 3:
        x = (255 * x).astype(np.uint8)
    np.savez(path, x=x, y=np.arange(count) % 4)
    return path


def write_run(
    folder: Path,
    data: Path | str | None,
    method: str = "anisotropic",
    count: int = 12,
    shape: tuple[int, ...] = (1, 6, 6),
    sigma: float = 0.25,
    norm: str = "l2",
    memory: bool = False,
    **description: Any,
) -> StoredRun:
    """A run of which every eighth answer is wrong and every tenth an abstention."""
    rng = np.random.default_rng([math.floor(100 * sigma), len(method)])
    ids = np.arange(count)
    gap = np.where(ids % 10 == 9, 0.0, rng.uniform(0.3, 2.0, count) * (0.4 if norm == "l1" else 1))
    scale = sigma * rng.uniform(0.9, 1.3, count) if method != "fixed" else np.full(count, sigma)
    theta = (scale[:, None] * np.ones(math.prod(shape))).astype(np.float32)
    if method == "anisotropic":
        theta = (theta * rng.uniform(1, 2.5, theta.shape)).astype(np.float32)
    smallest, typical = theta.min(1).astype(float), np.exp(np.log(theta.astype(float)).mean(1))
    label = ids % 4
    prediction = np.where(gap == 0, -1, np.where(ids % 8 == 7, (label + 1) % 4, label))
    columns: dict[str, Any] = {
        "idx": ids, "label": label, "prediction": prediction, "correct": prediction == label, "radius": gap * smallest,
        "proxy_radius": gap * typical, "gap": gap, "bound_k": 900 + ids % 90, "bound_n": 1000 + 0 * ids,
        "votes": 1000 + 0 * ids, "alpha": 0.001 + 0.0 * ids, "method": [method] * count, "norm": [norm] * count,
        "sigma": sigma + 0.0 * ids, "theta_min": smallest, "theta_max": theta.max(1).astype(float),
        "theta_geomean": typical, "reason": np.where(gap == 0, "no class wins", ""), "seconds": 0.1 + 0.0 * ids,
    }  # fmt: skip
    if memory:
        kept = ids % 3 != 0
        columns |= {
            "memory_prediction": prediction, "memory_radius": gap * smallest * np.where(kept, 1, 0.5),
            "memory_proxy_radius": gap * typical * np.where(kept, 1, 0.5),
            "memory_note": np.where(gap == 0, "abstained", np.where(kept, "kept", "shrunk")),
        }  # fmt: skip
    (folder / "theta").mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "certificates.parquet")
    shaped = theta.reshape(count, *shape) if method == "anisotropic" else theta[:, :1]
    save_file(
        {str(i): np.ascontiguousarray(one) for i, one in enumerate(shaped)}, folder / "theta" / "theta.safetensors"
    )
    files = {name: checksum(folder / name) for name in ("certificates.parquet", "theta/theta.safetensors")}
    said = {"data": None if data is None else str(data), "method": method, "norm": norm, "sigma": sigma, "alpha": 0.001}
    said |= {"memory": {"policy": "inherit"}} if memory else {}
    write_description(folder, said | description | {"files": files})
    return read_run(folder)


@pytest.fixture(scope="session")
def run_writer() -> Callable[..., StoredRun]:
    return write_run


@pytest.fixture(scope="session")
def data_writer() -> Callable[..., Path]:
    return write_data


@pytest.fixture
def make_run(tmp_path) -> Callable[..., StoredRun]:
    """make_run(name, ...) in a folder of its own."""
    return lambda name, *arguments, **options: write_run(tmp_path / name, *arguments, **options)


@pytest.fixture
def data(tmp_path) -> Path:
    return write_data(tmp_path / "squares.npz", 12)


@pytest.fixture
def open_page(browser):
    """open_page(file, width, height, scheme) -> a loaded page; what it complains of is in `.complaints`."""
    contexts = []

    def opened(path: Path, width: int = 1280, height: int = 900, scheme: str = "light", **options: Any):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on(
            "request", lambda request: request.url.startswith(("file:", "data:")) or page.complaints.append(request.url)
        )
        page.goto(path.resolve().as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def numbers() -> Callable[[str], Any]:
    """The numbers that a page draws."""

    def found(html: str) -> Any:
        start = html.index('id="numbers">') + len('id="numbers">')
        return json.loads(html[start : html.index("</script>", start)])

    return found
