"""Sustained load by locust on a service: rate, p50 and p99 of lookups and of certifying, beside the library itself.

    python benchmarks/serve_load.py [--seconds 20] [--users 64] [--n 2000] [--arch small-cnn] [--shape 1,8,8]
        [--memory sqlite | postgresql://...] [--device auto] [--compile]

Random weights. The service, the locust process and the library (`System.answers` in this process, 64 inputs per call, a
memory of its own of the same kind) take turns: library, service, library. Locust and the service share the machine's
cores, which the library has to itself. So beside the ratio of rates stands that of processor time per input, in which
the service's process counts and locust does not. The target is 0.8.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from serve import AT_ONCE, SIGMA, processor_time, served

import anisocert as ac
from anisocert.engine.devices import devices_of
from anisocert.models import build, save
from anisocert.models import load as load_model
from anisocert.service import Client

LOCUSTFILE = Path(__file__).with_name("locustfile.py")


class Rate(NamedTuple):
    """Inputs per second, and seconds of processor time per input."""

    per_second: float
    processor: float


class Load(NamedTuple):
    """What is asked: kind of request, and inputs in each."""

    kind: str
    inputs: int


LOADS = (Load("certify", 1), Load("lookup", 1), Load("lookup", 64))


def library(system: ac.System, load: Load, seconds: float, random: np.random.Generator, shape: tuple[int, ...]) -> Rate:
    """The library on inputs like those of the load."""
    size = load.inputs if load.kind == "lookup" else AT_ONCE  # as many as the service certifies together
    known = random.normal(0.5, 1, (AT_ONCE, *shape)).astype(np.float32)
    if load.kind == "lookup":
        system.answers(known)
    started, before, count = time.perf_counter(), processor_time(os.getpid()), 0
    while time.perf_counter() - started < seconds:
        if load.kind == "certify":
            system.answers(random.normal(0.5, 1, (size, *shape)).astype(np.float32))
        else:
            system.memory.lookup_all(known[random.integers(AT_ONCE, size=size)])
        count += size
    return Rate(count / (time.perf_counter() - started), (processor_time(os.getpid()) - before) / count)


def under_load(args: argparse.Namespace, url: str, token: str, process: int, load: Load, folder: Path) -> dict:
    """What locust has counted, with the service's processor time."""
    stats = folder / f"{load.kind}-{load.inputs}"
    command = [
        sys.executable, "-m", "locust", "-f", LOCUSTFILE, "--headless", "-u", args.users, "-r", args.users, "-t",
        f"{args.seconds}s", "-H", url.rstrip("/"), "--csv", stats, "--only-summary", "--loglevel", "ERROR",
        "--reset-stats",
    ]  # fmt: skip
    environment = {"ANISOCERT_KEY": token, "ANISOCERT_LOAD": load.kind, "ANISOCERT_INPUTS": str(load.inputs)}
    environment["ANISOCERT_KNOWN"] = str(folder / "known.npy")
    before, answered = processor_time(process), inputs_of(url, token, load)
    done = subprocess.run([str(word) for word in command], env=os.environ | environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    with Path(f"{stats}_stats.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["Name"] == load.kind]
    if not rows:
        raise SystemExit((done.stdout + done.stderr)[-3000:])
    (row,) = rows
    count = inputs_of(url, token, load) - answered
    return {
        "rate": float(row["Requests/s"]) * load.inputs, "p50": float(row["50%"]), "p99": float(row["99%"]),
        "failed": int(row["Failure Count"]), "processor": (processor_time(process) - before) / count,
    }  # fmt: skip


def inputs_of(url: str, token: str, load: Load) -> float:
    """Inputs that the service has worked on so far, once it rests: also those whose askers had to leave."""
    name = "anisocert_batch_inputs_sum" if load.kind == "certify" else "anisocert_answers_total"
    request = urllib.request.Request(f"{url.rstrip('/')}/metrics", headers={"Authorization": f"Bearer {token}"})
    seen = -1.0
    while True:
        with urllib.request.urlopen(request) as answer:
            lines = answer.read().decode().splitlines()
        now = sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
        if now == seen and "anisocert_inputs_waiting 0.0" in lines:
            return now
        seen = now
        time.sleep(3)


def both(args: argparse.Namespace, ask: Callable[[float], Rate], serve: Callable[[], dict], load: Load) -> None:
    before = ask(args.seconds / 4)
    found = serve()
    after = ask(args.seconds / 4)
    rate, processor = (np.mean([getattr(one, name) for one in (before, after)]) for name in Rate._fields)
    print(
        f"{load.kind}, {load.inputs} per request: library {rate:.0f} / s; service {found['rate']:.0f} / s, p50 "
        f"{found['p50']:.0f} ms, p99 {found['p99']:.0f} ms, {found['failed']} failed; "
        f"ratio {found['rate'] / rate:.2f}, of processor time {processor / found['processor']:.2f}",
        flush=True,
    )


def place_of(memory: str, folder: Path, who: str) -> str:
    """A new memory of the kind that was asked for."""
    if memory == "sqlite":
        return str(folder / f"{who}.sqlite")
    return f"{memory}{'&' if '?' in memory else '?'}memory=load_{os.getpid()}_{who}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("seconds", 20), ("users", 64), ("n", 2000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--arch", default="small-cnn")
    parser.add_argument("--shape", default="1,8,8")
    parser.add_argument("--memory", default="sqlite", help="sqlite, or a PostgreSQL database without memory=")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    shape, random = tuple(map(int, args.shape.split(","))), np.random.default_rng()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, mean, std = folder / "random.safetensors", (0.5,) * shape[0], (0.25,) * shape[0]
        torch.manual_seed(0)
        network = build(args.arch, 10, mean, std).eval()
        save(network, model, {"architecture": args.arch, "num_classes": 10, "mean": mean, "std": std})
        network = ac.Network(load_model(model)[0], 10, devices_of(args.device)[0], ac.Numerics(compile=args.compile))
        network.fit(shape, 10_000 * args.n)
        places = [place_of(args.memory, folder, who) for who in ("served", "direct")]
        with (
            ac.Memory.open(places[1]) as memory,
            served(args, model, places[0], folder, "--shape", args.shape) as (url, token, process),
        ):
            ours = ac.System(
                network, smoothing=ac.Gaussian(SIGMA), plan=ac.Plan(n=args.n), secret=os.urandom(32), memory=memory
            )
            np.save(folder / "known.npy", known := random.normal(0.5, 1, (AT_ONCE, *shape)).astype(np.float32))
            Client(url, token, seconds=600).answer(known)
            for load in LOADS:
                both(args, lambda s, load=load: library(ours, load, s, random, shape),
                     lambda load=load: under_load(args, url, token, process, load, folder), load)  # fmt: skip


if __name__ == "__main__":
    main()
