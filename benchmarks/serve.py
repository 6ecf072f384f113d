"""The service against the library called directly: latency of one, throughput of many, certified and looked up.

    python benchmarks/serve.py [--model MODEL.safetensors] [--data digits] [--n 10000] [--inputs 128] [--clients 64]
        [--memory sqlite | postgresql://...] [--device auto] [--compile]

The service is a process of its own, as `anisocert serve` starts it; the clients are threads of this one. The library is
`System.answers` in this process, on inputs of the same kind, with a memory of its own in a file. Both take turns, so
that what else the machine does concerns both. Throughput of certifying is over requests of one input each, from all
clients at once; the library gets 64 inputs per call. Lookups come one per request, and 64 per request.
Target: each throughput at least 0.8 of the library's, except of lookups one by one. Ratios are of the time that passes
and, where the machine has other work too, more to the point, of processor time (Linux; that of the service's process
against that of this one). Inputs are random, and so are the weights where no file is given.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from networks import random_file
from processes import processor_time

import anisocert as ac
from anisocert.data import load
from anisocert.engine.devices import devices_of
from anisocert.models import load as load_model
from anisocert.service import Client, add_key

AT_ONCE = 64
SIGMA = 0.25


@contextmanager
def served(
    args: argparse.Namespace, model: Path, memory: str, folder: Path, *shape: str
) -> Iterator[tuple[str, str, int]]:
    """(URL, key, process id) of a service process. shape: options that tell that of inputs."""
    keys = folder / "keys.json"
    rights = ("lookup", "admit", "plan", "regions", "operate")
    token = add_key(keys, "benchmark", rights=rights, per_minute=10**9, most_bytes=1 << 30)
    command = [
        sys.executable, "-m", "anisocert", "serve", model, "--sigma", SIGMA, "--method", "fixed", "--n", args.n,
        "--memory", memory, "--keys", keys, "--port", 0, *shape, "--device", args.device,
        "--waiting", 100_000, "--at-once", AT_ONCE, "--compile" if args.compile else "--no-compile",
    ]  # fmt: skip
    process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said, url = list[str](), None
        while url is None:
            said.append(process.stderr.readline())
            if not said[-1]:
                raise SystemExit("the service did not start:\n" + "".join(said[-20:]))
            url = re.search(r"^serving .* at (http\S+)", said[-1])
        log = process.stderr
        threading.Thread(target=lambda: [None for _ in log], daemon=True).start()  # else the pipe fills up
        yield url[1], token, process.pid
    finally:
        process.terminate()
        process.wait(60)


def clock(work: Callable[[], object], process: int) -> tuple[float, float]:
    """(seconds that passed, seconds of processor time of a process)."""
    started, before = time.perf_counter(), processor_time(process)
    work()
    return time.perf_counter() - started, processor_time(process) - before


def fresh(random: np.random.Generator, count: int, shape: tuple[int, ...]) -> np.ndarray:
    """Inputs that were never asked about, so far from each other that no promise covers them."""
    return random.normal(0.5, 1, (count, *shape)).astype(np.float32)


def spread(client: Callable[[], Client], requests: list[np.ndarray], clients: int, **options: object) -> None:
    """All requests, from several clients at once."""
    own = threading.local()

    def ask(x: np.ndarray) -> None:
        if not hasattr(own, "client"):
            own.client = client()
        own.client.answer(x, **options)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, requests))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--inputs", type=int, default=128)
    parser.add_argument("--lookups", type=int, default=2048)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="sqlite")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    data, random = load(args.data), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model or random_file(folder, data.num_classes, data.mean, data.std)
        numerics = ac.Numerics(compile=args.compile)  # left to itself, each side might decide otherwise
        network = ac.Network(load_model(model)[0], data.num_classes, devices_of(args.device)[0], numerics)
        network.fit(data.shape, 10_000 * args.n)
        ours = ac.System(
            network, smoothing=ac.Gaussian(SIGMA), plan=ac.Plan(n=args.n), secret=b"0" * 32,
            memory=ac.Memory.open(folder / "direct.sqlite"),
        )  # fmt: skip
        place = str(folder / "served.sqlite") if args.memory == "sqlite" else args.memory
        with served(args, model, place, folder, "--data", args.data) as (url, token, process):
            measure(args, ours, lambda: Client(url, token, seconds=600), process, data.shape, random)


def measure(
    args: argparse.Namespace,
    ours: ac.System,
    client: Callable[[], Client],
    process: int,
    shape: tuple[int, ...],
    random: np.random.Generator,
) -> None:
    one = client()
    known = fresh(random, AT_ONCE, shape)
    ours.answers(known)
    one.answer(known)
    times: dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]], int]] = {}
    rounds = args.lookups // AT_ONCE

    def both(name: str, count: int, direct: Callable[[], object], over_http: Callable[[], object]) -> None:
        found = times.setdefault(name, ([], [], count))
        found[0].append(clock(direct, os.getpid()))
        found[1].append(clock(over_http, process))

    for _ in range(args.rounds):
        for _ in range(10):
            a, b = fresh(random, 2, shape)
            both("certify one", 1, lambda a=a: ours.answer(a), lambda b=b: one.answer(b[None]))
            both("look one up", 1, lambda: ours.answer(known[0]), lambda: one.answer(known[:1], lookup=True))
        a, b = fresh(random, args.inputs, shape), fresh(random, args.inputs, shape)
        chunks = np.array_split(a, -(-args.inputs // AT_ONCE))
        both(
            f"certify {args.inputs}, one per request", args.inputs,
            lambda chunks=chunks: [ours.answers(chunk) for chunk in chunks],
            lambda b=b: spread(client, [point[None] for point in b], args.clients),
        )  # fmt: skip
        both(
            f"look {args.lookups} up, {AT_ONCE} per request", args.lookups,
            lambda: [ours.answers(known) for _ in range(rounds)],
            lambda: spread(client, [known] * rounds, 4, lookup=True),
        )  # fmt: skip
        both(
            f"look {args.lookups // 4} up, one per request", args.lookups // 4,
            lambda: [ours.answer(known[i % AT_ONCE]) for i in range(args.lookups // 4)],
            lambda: spread(client, [known[i % AT_ONCE][None] for i in range(args.lookups // 4)], 4, lookup=True),
        )  # fmt: skip
    print(f"{'':40} {'library':>12} {'service':>12} {'ratio':>7} {'of processor time':>18}")
    for name, (direct, over_http, count) in times.items():
        ours_, theirs = (np.median(np.array(one), axis=0) for one in (direct, over_http))
        if count == 1:
            slowest = np.quantile([passed for passed, _ in over_http], 0.99)
            told = [f"{1000 * one[0]:.2f} ms" for one in (ours_, theirs)]
            print(f"{name:40} {told[0]:>12} {told[1]:>12} {'':7} {'':18} p99 {1000 * slowest:.2f} ms")
        else:
            told = [f"{count / one[0]:.0f} / s" for one in (ours_, theirs)]
            passed, spent = ours_ / theirs
            print(f"{name:40} {told[0]:>12} {told[1]:>12} {passed:7.2f} {spent:18.2f}")


if __name__ == "__main__":
    main()
