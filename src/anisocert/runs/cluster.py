"""Certifiers on a Ray cluster: one actor a GPU, or a share of the CPUs where there are none."""

import math
import os
import warnings
from pathlib import Path
from typing import Any

from anisocert.errors import AnisocertError, AnisocertWarning, ArgumentError, MissingExtraError
from anisocert.runs.job import Job
from anisocert.runs.workers import Lost, Served, Workers

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported: nothing is sent home
try:
    import ray
except ImportError as error:
    raise MissingExtraError("--ray needs Ray: pip install 'anisocert[ray]'") from error

PATIENCE = 60.0  # seconds until a cluster that does not start any worker is mentioned
STORE_BYTES = 200_000_000  # for chunks on their way; the model comes on top


class Cluster(Workers):
    """Actors on all nodes. Nodes need this package and no files: that of the model is sent along.

    address: of a running cluster; without one, the cluster of this machine if there is one, else a new one that ends
    with this process. count: of actors; default: one a GPU, or one a node.
    """

    def __init__(self, job: Job, address: str | None = None, count: int | None = None) -> None:
        path = Path(job.configuration.model)
        content = path.read_bytes() if path.is_file() else None
        self._owner = not ray.is_initialized()
        if self._owner:
            _connect(address, len(content or b""))
        device, self.count, self._share = _shares(count)
        self._made = ray.put((job.configuration, job.theta, device, None, content))  # fetched once a node
        self._actors: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}
        self._heard = False

    def start(self, worker: int, task: str, *arguments: Any) -> None:
        """See Workers."""
        if worker not in self._actors:
            self._actors[worker] = ray.remote(Served).options(**self._share).remote(self._made)
        self._asked[self._actors[worker].call.remote(task, arguments)] = worker

    def wait(self, seconds: float = math.inf) -> list[tuple[int, Any]]:
        """See Workers."""
        ready, _ = ray.wait(list(self._asked), timeout=max(0.0, min(seconds, PATIENCE)))
        if not ready and not self._heard and seconds > PATIENCE:
            warnings.warn(f"no worker has started for {PATIENCE:.0f} s: is the cluster busy?", AnisocertWarning, 2)
        self._heard = self._heard or bool(ready) or seconds > PATIENCE
        return [(self._asked[one], self._answer(one)) for one in ready]

    def close(self) -> None:
        """End the actors, and the cluster if it was made for them."""
        for actor in self._actors.values():
            ray.kill(actor)
        if self._owner:
            ray.shutdown()

    def _answer(self, asked: Any) -> Any:
        worker = self._asked.pop(asked)
        try:
            return ray.get(asked)
        except ray.exceptions.RayTaskError as error:
            return AnisocertError(f"a worker failed: {error.cause!r}")
        except ray.exceptions.RayError:  # its process or its node has ended
            ray.kill(self._actors.pop(worker))
            return Lost()


def _connect(address: str | None, model_bytes: int) -> None:
    quiet: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
    try:
        ray.init(address=address or "auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is not None:
            reason = str(error).partition("\n")[0]
            raise ArgumentError(f"expected a Ray cluster at {address}, got none: {reason}") from error
        ray.init(address="local", include_dashboard=False, object_store_memory=STORE_BYTES + 2 * model_bytes, **quiet)


def _shares(count: int | None) -> tuple[str, int, dict[str, float]]:
    """The kind of device, how many actors, and what each takes of the cluster."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    if gpus:
        return "cuda", min(count or gpus, gpus), {"num_gpus": 1, "num_cpus": 0}
    cpus = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    if not cpus:
        raise ArgumentError("expected a Ray cluster with GPUs or CPUs, got none of either")
    share = max(1, sum(cpus) // count) if count else min(cpus)
    return "cpu", count or sum(node // share for node in cpus), {"num_cpus": share}
