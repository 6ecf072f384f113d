"""Several processes, and a Ray cluster: the same results as one process, also when some of them die."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from anisocert.engine.devices import device_kind, devices_of
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.work import Circumstances, certify_run, load_job
from anisocert.work import _scheduling as scheduling
from anisocert.work._certifier import Certifier
from anisocert.work.unfinished import Unfinished
from anisocert.work.workers import InProcess, Lost, Processes, Workers


def test_devices():
    assert devices_of("cpu") == ["cpu"]
    assert devices_of("cuda:0, cuda:1") == ["cuda:0", "cuda:1"]
    assert device_kind(devices_of("cuda:0,cuda:1")) == "cuda"
    for wrong, said in (
        ("cpu,cuda", "one kind"),
        ("gpu", "expected auto, cpu, cuda"),
        ("meta", "expected auto"),
        ("", "expected auto"),
    ):
        with pytest.raises(ArgumentError, match=said):
            devices_of(wrong)


def test_processes_equal_one_and_a_killed_one_is_replaced(quick, whole, same, tmp_path, monkeypatch):
    monkeypatch.setattr(scheduling, "CHUNK_SECONDS", 1e-9)  # many chunks
    job, workers, killed = load_job(quick), [], []

    def make() -> Workers:
        workers.append(Processes(job, ["cpu", "cpu"]))
        return workers[0]

    def kill_once(rows: list) -> None:
        if not killed and all(workers[0]._running):
            process, _ = workers[0]._running[1]
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    assert certify_run(job, tmp_path, make, Circumstances(on_rows=kill_once)).finished
    assert killed
    assert workers[0]._running == [None, None], "processes were left behind"
    assert same(tmp_path, whole)


class Dying(InProcess):
    """Loses its worker whenever it is asked to certify certain inputs."""

    def __init__(self, job, bad, times):
        super().__init__(job, "cpu")
        self.bad, self.times = bad, times

    def wait(self, seconds=0.0):
        task, arguments = self.task
        if task == "certify" and self.bad in arguments[0].ids and self.times > 0:
            self.times -= 1
            self.task = None
            return [(0, Lost())]
        return super().wait(seconds)


class Slow(InProcess):
    """Gives nothing back at the first question, as a process at work does, and notes how long it was asked to wait."""

    def __init__(self, job):
        super().__init__(job, "cpu")
        self.asked = []

    def wait(self, seconds=math.inf):
        self.asked.append(seconds)
        if self.task[0] == "certify" and seconds < math.inf and len(self.asked) < 50:
            time.sleep(max(0.0, seconds))
            return []
        return super().wait(seconds)


def test_out_of_time_a_chunk_is_waited_for_and_not_asked_for_again_and_again(quick, tmp_path):
    job = load_job(quick)
    workers = Slow(job)
    outcome = certify_run(job, tmp_path, lambda: workers, Circumstances(seconds=1.0))
    assert 0 < outcome.done < outcome.of
    assert workers.asked[-1] == math.inf
    assert len(workers.asked) <= 4


def test_lost_inputs_are_done_again_but_not_for_ever(quick, whole, same, tmp_path):
    job = load_job(quick)
    with pytest.raises(AnisocertError, match="example 100, got 3 that ended"):
        certify_run(job, tmp_path, lambda: Dying(job, 100, 99), Circumstances())
    assert Unfinished(tmp_path).parts(), "what was done before is kept"
    assert certify_run(job, tmp_path, lambda: Dying(job, 100, 2), Circumstances()).finished
    assert same(tmp_path, whole)


def test_an_error_in_a_worker_is_the_runs_error(quick, tmp_path):
    (tmp_path / "gone.safetensors").write_bytes((tmp_path / quick.model).read_bytes())
    job = load_job(replace(quick, model=str(tmp_path / "gone.safetensors")))
    (tmp_path / "gone.safetensors").unlink()
    with pytest.raises(AnisocertError, match="expected a network file"):
        certify_run(job, tmp_path / "run", lambda: Processes(job, ["cpu", "cpu"]), Circumstances())


def test_a_worker_that_rounds_otherwise_is_refused(quick, tmp_path, monkeypatch):
    job, real = load_job(quick), Certifier.settle
    certify_run(job, tmp_path, lambda: InProcess(job, "cpu"), Circumstances(shard=(1, 2)))
    monkeypatch.setattr(Certifier, "settle", lambda self, *arguments: replace(real(self, *arguments), device="cuda"))
    with pytest.raises(ArgumentError, match="expected device cpu, which the run began with, got cuda"):
        certify_run(job, tmp_path, lambda: InProcess(job, "cpu"), Circumstances())


def test_a_network_that_python_takes_for_nothing(quick):
    class Empty(torch.nn.Identity):
        def __len__(self):  # which torch.compile gives any network
            raise TypeError("it has no length")

    network = Empty()
    assert Certifier(quick, None, "cpu", model=network).model is network


def test_a_form_that_its_own_inputs_give_away_is_refused(quick, tmp_path, monkeypatch):
    """What the network does when a compiled form scores the first inputs otherwise; here without a compiler."""
    from anisocert.engine import Network

    def try_on(self, *_):
        self.numerics = replace(self.numerics, compile=True)

    monkeypatch.setattr(Network, "try_on", try_on)
    job = load_job(quick)
    with pytest.raises(AnisocertError, match=r"scores some of its inputs otherwise.* begin anew with --no-compile"):
        certify_run(job, tmp_path, lambda: InProcess(job, "cpu"), Circumstances())
    assert not Unfinished(tmp_path).parts()


def test_a_network_that_runs_out_of_memory_later_is_refused(quick, tmp_path, monkeypatch):
    """Fewer rows per call may round otherwise, so the run does not go on with them."""
    from anisocert.engine import Network

    job, real, calls = load_job(replace(quick, numerics=replace(quick.numerics, rows=800))), Network.scores, []

    def scores(self, x):
        calls.append(len(x))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, x)

    monkeypatch.setattr(Network, "scores", scores)
    with pytest.raises(AnisocertError, match=r"out of memory with 800 rows per call.*--rows 160"):
        certify_run(job, tmp_path, lambda: InProcess(job, "cpu"), Circumstances())
    assert not Unfinished(tmp_path).parts()


@pytest.fixture
def ray_at_once(monkeypatch):
    """Its workers wait for nobody: they are started with a niceness of 15, with which others' tests starve them."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


def test_ray_equals_one_process_with_a_node_killed(quick, whole, same, tmp_path, monkeypatch, ray_at_once):
    pytest.importorskip("ray", reason="needs the extra ray: pip install '.[ray]'")
    from anisocert.work.cluster import Cluster, ray  # which turns usage statistics off, before Ray is imported

    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs the extra ray: pip install '.[ray]'")
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")  # its sockets must not have long names
    monkeypatch.setattr(scheduling, "CHUNK_SECONDS", 1e-9)  # an input a chunk
    small = {"num_cpus": 1, "object_store_memory": 80_000_000}
    nodes = cluster_utils.Cluster(True, head_node_args=small | {"include_dashboard": False})
    made, tasks, held, lost = [], {}, [], []

    class Watched(Cluster):
        """The first worker's rows are held back until the second is at work too, however long it takes to start."""

        def start(self, worker, task, *arguments):
            tasks[worker] = task
            super().start(worker, task, *arguments)

        def wait(self, seconds=0.0):
            held.extend(super().wait(seconds))
            both = killed or set(tasks.values()) == {"certify"}
            answers = [one for one in held if both or tasks[one[0]] == "settle"]
            held[:] = [one for one in held if one not in answers]
            lost.extend(worker for worker, answer in answers if isinstance(answer, Lost))
            return answers

    def make() -> Workers:
        made.append(Watched(job, nodes.address))
        return made[0]

    def kill(rows: list) -> None:
        if not killed and len(tasks) == 2:
            killed.append(True)
            (raylet,) = second.all_processes["raylet"]
            actors = Path(f"/proc/{raylet.process.pid}/task/{raylet.process.pid}/children").read_text().split()
            nodes.remove_node(second, allow_graceful=False)
            for actor in actors:  # on a fast machine they would do the rest before they notice
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(actor), signal.SIGKILL)

    try:
        second, killed = nodes.add_node(**small), []
        nodes.wait_for_nodes()
        job = load_job(quick)
        assert certify_run(job, tmp_path / "ray", make, Circumstances(on_rows=kill)).finished
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert (made[0].count, len(killed), len(lost)) == (2, 1, 1)
    assert same(tmp_path / "ray", whole)


LISTENING = """
import os, sys
from pathlib import Path
from anisocert.errors import ArgumentError
from anisocert.runs import Configuration
from anisocert.work import load_job
from anisocert.work.cluster import Cluster, ray

def listening(pid):
    held = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in held:
                yield local.partition(":")[0]

def family(pid):
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))

job = load_job(Configuration(sys.argv[1], "digits", 0.25, method="fixed", n=10, max=1))
cluster = Cluster(job, count=1)
try:
    Cluster(job, "auto")
except ArgumentError as error:
    print("refused", error)
ray.get(ray.remote(num_cpus=0)(lambda: None).remote())
pids = list(family(os.getpid()))
print("addresses", *{address for pid in pids for address in listening(pid)})
for pid in pids[1:]:
    if Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::"):  # the title is written over its environment
        continue
    told = dict(one.split("=", 1) for one in Path(f"/proc/{pid}/environ").read_text().split("\\0") if "=" in one)
    print("auth", told.get("RAY_AUTH_MODE"), len(told.get("RAY_AUTH_TOKEN", "")))
cluster.close()
print("after", os.environ.get("RAY_AUTH_TOKEN"), os.environ.get("RAY_AUTH_MODE"))
"""


def test_a_ray_cluster_that_would_ask_for_no_token_is_not_made(quick, monkeypatch):
    cluster = pytest.importorskip("anisocert.work.cluster")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # as it may be for another cluster
    with pytest.raises(ArgumentError, match=r"expected RAY_AUTH_MODE to be token or unset, .* got 'disabled'"):
        cluster.Cluster(load_job(quick))


def test_a_ray_cluster_that_cannot_work_is_closed(quick, monkeypatch):
    cluster = pytest.importorskip("anisocert.work.cluster")
    calls = []
    for name in ("init", "shutdown"):
        monkeypatch.setattr(cluster.ray, name, lambda *_, name=name, **__: calls.append(name))
    monkeypatch.setattr(cluster.ray, "nodes", lambda: [{"Alive": True, "Resources": {}}])
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    with pytest.raises(ArgumentError, match="with GPUs or CPUs, got none of either"):
        cluster.Cluster(load_job(quick))
    assert (calls, os.environ.get("RAY_AUTH_TOKEN")) == (["init", "shutdown"], None)


@pytest.mark.skipif(not os.path.exists("/proc/self/net/tcp"), reason="there is no /proc that tells of sockets")
def test_a_ray_cluster_of_its_own_listens_to_nobody_else(network_file, tmp_path, ray_at_once):
    """Not on any interface but the loopback, and not without a token, which is in no file."""
    pytest.importorskip("ray")
    command = [sys.executable, "-c", LISTENING, str(network_file)]
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert " ".join(lines[0]).startswith("refused expected no address, as this process uses a Ray cluster already")
    addresses = next(line[1:] for line in lines if line[0] == "addresses")
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert addresses
    assert set(addresses) <= loopback
    assert [line[1:] for line in lines if line[0] == "auth"]
    assert all(line[1:] == ["token", "64"] for line in lines if line[0] == "auth")
    assert lines[-1] == ["after", "None", "None"]
    assert not (tmp_path / ".ray").exists()
