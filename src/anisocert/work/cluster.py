"""Certifiers on a Ray cluster: one actor per GPU, or a share of the CPUs where there are none."""

import math
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from anisocert.errors import AnisocertError, AnisocertWarning, ArgumentError, from_extra
from anisocert.work.job import Job, model_files
from anisocert.work.workers import Lost, Served, Workers

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported: nothing is sent home
with from_extra("ray", "--ray needs Ray"):
    import ray
    from ray._private import ray_constants

MODE = "RAY_AUTH_MODE"
PATIENCE = 60.0  # seconds without any started worker until a warning
QUIET: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
STORE_BYTES = 200_000_000  # for chunks on their way; the model comes on top


class Cluster(Workers):
    """Actors on all nodes. Nodes need this package and no files: the model's file is sent along.

    address: of a running cluster ("auto": this machine's); its nodes run code as this user, so it must be trusted.
    Without one, a new cluster is made that ends with this process and that nobody else reaches: it listens on the
    loopback interface alone, and asks for a token that only this process and its children have. count: of actors;
    default: one per GPU, or one per node.
    """

    def __init__(self, job: Job, address: str | None = None, count: int | None = None) -> None:
        files = model_files(job.configuration)
        with ExitStack() as opened:  # closed at once if anything fails
            if not ray.is_initialized():
                if address is None:
                    opened.enter_context(_unreachable())
                    store = STORE_BYTES + 2 * sum(map(len, (files or {}).values()))
                    ray.init("local", include_dashboard=False, object_store_memory=store, **QUIET)
                else:
                    _connect(address)
                opened.callback(ray.shutdown)
            elif address is not None:
                raise ArgumentError(f"expected no address, as this process uses a Ray cluster already, got {address}")
            device, self.count, self._share = _shares(count)
            self._made = ray.put((job.configuration, job.theta, device, None, files))  # fetched once per node
            self._own = opened.pop_all()
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
        return [(self._asked[reference], self._answer(reference)) for reference in ready]

    def close(self) -> None:
        """End the actors, and the cluster if it was made for them."""
        for actor in self._actors.values():
            ray.kill(actor)
        self._own.close()

    def _answer(self, reference: Any) -> Any:
        worker = self._asked.pop(reference)
        try:
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            return AnisocertError(f"a worker failed: {error.cause!r}")
        except ray.exceptions.RayError:  # its process or its node has ended
            ray.kill(self._actors.pop(worker))
            return Lost()


@contextmanager
def _unreachable() -> Iterator[None]:
    """What is started inside listens on the loopback interface, and asks for a token.

    Ray binds to all interfaces unless it believes that the machine has no clusters. The token stays out of the
    file in which Ray would keep one for all to read.
    """
    if (mode := os.environ.get(MODE, "token")) != "token":
        raise ArgumentError(f"expected {MODE} to be token or unset, else anybody could use the cluster, got {mode!r}")
    variables = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in (*variables, MODE)}  # which Ray sets
    clusters = ray_constants.ENABLE_RAY_CLUSTER  # read from the environment when Ray was imported
    os.environ.update(variables)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _connect(address: str) -> None:
    try:
        ray.init(address, **QUIET)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError(f"expected a Ray cluster at {address}, got none: {reason}") from error


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
