"""A service for benchmarks, in a process of its own, as `anisocert serve` starts it; and what it is asked."""

import argparse
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from anisocert.service import add_key

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
        lines, url = list[str](), None
        while url is None:
            lines.append(process.stderr.readline())
            if not lines[-1]:
                raise SystemExit("the service did not start:\n" + "".join(lines[-20:]))
            url = re.search(r"^serving .* at (http\S+)", lines[-1])
        log = process.stderr
        threading.Thread(target=lambda: [None for _ in log], daemon=True).start()  # else the pipe fills up
        yield url[1], token, process.pid
    finally:
        process.terminate()
        process.wait(60)


def fresh(random: np.random.Generator, count: int, shape: tuple[int, ...]) -> np.ndarray:
    """Inputs that were never asked about, so far from each other that no promise covers them."""
    return random.normal(0.5, 1, (count, *shape)).astype(np.float32)
