"""Sustained load by locust on a service: rate, p50 and p99 of lookups and of certifying, beside the library itself.

    python benchmarks/serve_load.py [--seconds 20] [--n 2000] [--loads lookup:64 lookup64:64 certify:64]
        [--model FILE | --arch small-cnn] [--shape 1,8,8] [--memory sqlite | postgresql://...] [--device auto]
        [--compile] [--out RESULTS.json]

Random weights where no file is given. Each load names one or several numbers of users, as in certify:1,16,64; lookup64
asks about 64 inputs per request. The service is started once, for the most votes; fewer (n) are asked for. Library and
service take turns, library, service, library, each with a memory of its own of the same kind. The library is called as
well as it can be: to certify, by one thread with as many inputs at once as there are users (at most 64, as the service
does); to look up, by one thread or by as many as there are users, whichever is faster. Locust and the service share the
machine's cores, which the library has to itself; on few cores that lowers the ratio of rates, so beside it stands that
of processor time per input, in which the service's process counts and neither locust nor PostgreSQL does. The target
is 0.8. It needs locust: pip install locust.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from networks import random_file
from processes import processor_time
from serve import AT_ONCE, SIGMA, fresh, served

import anisocert as ac
from anisocert.engine.devices import devices_of
from anisocert.models import load as load_model
from anisocert.service import Client

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
LOADS = {"lookup": ("lookup", 1), "lookup64": ("lookup", 64), "certify": ("certify", 1)}
HEADER = (
    f"{'load':22} {'users':>5} {'library':>11} {'service':>11} {'p50 ms':>8} {'p99 ms':>8} {'ratio':>6} {'of CPU':>6}"
)


class Rate(NamedTuple):
    """Inputs per second, and seconds of processor time per input."""

    per_second: float
    processor: float


@dataclass(frozen=True)
class Load:
    """What is asked: kind of request, inputs in each, votes per input, and by how many at once."""

    kind: str
    inputs: int
    n: int
    users: int

    @property
    def words(self) -> str:
        return f"certify, n {self.n}" if self.kind == "certify" else f"look up {self.inputs}"


@dataclass(frozen=True)
class Result:
    load: Load
    library: float
    service: float
    p50: float
    p99: float
    failed: int
    ratio: float
    processor_ratio: float

    @property
    def row(self) -> str:
        failed = f"  {self.failed} FAILED" if self.failed else ""
        return (
            f"{self.load.words:22} {self.load.users:5} {self.library:9.1f}/s {self.service:9.1f}/s {self.p50:8.0f} "
            f"{self.p99:8.0f} {self.ratio:6.2f} {self.processor_ratio:6.2f}{failed}"
        )


def library(system: ac.System, known: np.ndarray, load: Load, seconds: float) -> Rate:
    """The library on inputs like those of the load, called as well as it can be."""
    if load.kind == "lookup":
        rates = [called(lambda random: _look_up(system, known, load, random), threads, load.inputs, seconds / 2)
                 for threads in {1, load.users}]  # fmt: skip
        return max(rates)
    size = min(load.users, AT_ONCE)  # as many as the service certifies together
    planned = system.with_plan(replace(system.plan, n=load.n))
    return called(lambda random: planned.answers(fresh(random, size, known.shape[1:])), 1, size, seconds)


def _look_up(system: ac.System, known: np.ndarray, load: Load, random: np.random.Generator) -> None:
    certificates = system.memory.lookup_all(known[random.integers(len(known), size=load.inputs)])
    assert None not in certificates


def called(work: Callable[[np.random.Generator], object], threads: int, inputs: int, seconds: float) -> Rate:
    """How often threads can call, together. inputs: per call."""
    started, before, counts = time.perf_counter(), processor_time(os.getpid()), [0] * threads

    def call(own: int) -> None:
        random = np.random.default_rng()
        while time.perf_counter() - started < seconds:
            work(random)
            counts[own] += inputs

    callers = [threading.Thread(target=call, args=(own,)) for own in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    passed, spent = time.perf_counter() - started, processor_time(os.getpid()) - before
    return Rate(sum(counts) / passed, spent / sum(counts))


def under_load(args: argparse.Namespace, url: str, token: str, process: int, load: Load, folder: Path) -> dict:
    """What locust has counted, with the service's processor time."""
    stats = folder / "stats"
    command = [
        sys.executable, "-m", "locust", "-f", LOCUSTFILE, "--headless", "-u", load.users, "-r", load.users, "-t",
        f"{args.seconds}s", "-H", url.rstrip("/"), "--csv", stats, "--only-summary", "--loglevel", "ERROR",
        "--reset-stats",
    ]  # fmt: skip
    environment = {"ANISOCERT_KEY": token, "ANISOCERT_LOAD": load.kind, "ANISOCERT_INPUTS": str(load.inputs)}
    environment |= {"ANISOCERT_KNOWN": str(folder / "known.npy")}
    environment |= {"ANISOCERT_N": str(load.n)} if load.n < max(args.n) else {}
    before, answered = processor_time(process), inputs_of(url, token, load)
    done = subprocess.run([str(word) for word in command], env=os.environ | environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    table = Path(f"{stats}_stats.csv")
    lines = table.read_text().splitlines() if table.exists() else []
    rows = [row for row in csv.DictReader(lines) if row["Name"] == load.kind]
    if not rows:
        raise SystemExit((done.stdout + done.stderr)[-3000:])
    (row,) = rows
    count = inputs_of(url, token, load) - answered
    return {
        "service": float(row["Requests/s"]) * load.inputs, "p50": float(row["50%"]), "p99": float(row["99%"]),
        "failed": int(row["Failure Count"]), "processor": (processor_time(process) - before) / count,
    }  # fmt: skip


def inputs_of(url: str, token: str, load: Load) -> float:
    """Inputs that the service has worked on so far, once it rests: also those whose askers had to leave."""
    name = "anisocert_batch_inputs_sum" if load.kind == "certify" else "anisocert_answers_total"
    request = urllib.request.Request(f"{url.rstrip('/')}/metrics", headers={"Authorization": f"Bearer {token}"})
    seen, rested = -1.0, 0
    while True:
        with urllib.request.urlopen(request) as answer:
            lines = answer.read().decode().splitlines()
        now = sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
        rested = rested + 1 if now == seen and "anisocert_inputs_waiting 0.0" in lines else 0
        if rested == 2:
            return now
        seen = now
        time.sleep(0.5)


def measured(ask: Callable[[float], Rate], serve: Callable[[], dict], load: Load, seconds: float) -> Result:
    before, stats, after = ask(seconds / 4), serve(), ask(seconds / 4)
    rate, processor = (float(np.mean([getattr(turn, name) for turn in (before, after)])) for name in Rate._fields)
    spent = stats.pop("processor")
    return Result(load, rate, ratio=stats["service"] / rate, processor_ratio=processor / spent, **stats)


def place_of(memory: str, folder: Path, who: str) -> str:
    """A new memory of the kind that was asked for."""
    if memory == "sqlite":
        return str(folder / f"{who}.sqlite")
    return f"{memory}{'&' if '?' in memory else '?'}memory=load_{os.getpid()}_{who}"


def loads_of(args: argparse.Namespace, most: int) -> list[Load]:
    """Each kind of load for each number of users; certifying also for each number of votes."""
    return [
        Load(*LOADS[name], n, users)
        for name, _, users_of in (load.partition(":") for load in args.loads)
        for n in (args.n if name == "certify" else [most])
        for users in map(int, users_of.split(","))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--n", type=int, nargs="+", default=[2000])
    parser.add_argument("--loads", nargs="+", default=[f"{name}:64" for name in LOADS])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--arch", default="small-cnn")
    parser.add_argument("--shape", default="1,8,8")
    parser.add_argument("--memory", default="sqlite", help="sqlite, or a PostgreSQL database without memory=")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    shape, random, most = tuple(map(int, args.shape.split(","))), np.random.default_rng(), max(args.n)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model or random_file(folder, 10, (0.5,) * shape[0], (0.25,) * shape[0], args.arch)
        network = ac.Network(load_model(model)[0], 10, devices_of(args.device)[0], ac.Numerics(compile=args.compile))
        network.fit(shape, 10_000 * most)
        places = [place_of(args.memory, folder, who) for who in ("served", "direct")]
        options = argparse.Namespace(n=most, device=args.device, compile=args.compile)
        results: list[Result] = []
        with (
            ac.Memory.open(places[1]) as memory,
            served(options, model, places[0], folder, "--shape", args.shape) as (url, token, process),
        ):
            plan = ac.Plan(n=most)
            system = ac.System(network, smoothing=ac.Gaussian(SIGMA), plan=plan, secret=os.urandom(32), memory=memory)
            np.save(folder / "known.npy", known := fresh(random, AT_ONCE, shape))
            Client(url, token, seconds=600).answer(known)
            system.answers(known)
            print(HEADER, flush=True)
            for load in loads_of(args, most):
                results.append(measured(
                    lambda seconds, load=load: library(system, known, load, seconds),
                    lambda load=load: under_load(args, url, token, process, load, folder), load, args.seconds,
                ))  # fmt: skip
                print(results[-1].row, flush=True)
                if args.out is not None:
                    args.out.write_text(json.dumps([asdict(result) for result in results], indent=1))


if __name__ == "__main__":
    main()
