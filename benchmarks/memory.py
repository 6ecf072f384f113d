"""Admit and lookup in a memory of 1,000, 10,000 and 50,000 CIFAR-10-sized regions, beside the plain loop over all.

    python benchmarks/memory.py [--sizes 1000 10000 50000] [--norms 2 1] [--folder DIR] [--size 0.8]
        [--url postgresql://USER@HOST/DATABASE] [--no-loop] [--side 32] [--timed 200]

Centres are CIFAR-10 images where `anisocert data` has them and --side is 32, else smooth random ones; semi-axes are
mostly 0.3 to 2, differ by a factor of about 2 between pixels, and a few are 5 and more, so that most regions are
disjoint and some are not. The memory is a file with full synchronisation, or memories in PostgreSQL, named
benchmark_l2 and benchmark_l1, which stay; in a folder that is given the file stays, too, and an interrupted run
resumes. The newcomers that are timed are admitted for good. Processor time is that of this process and of all of
PostgreSQL's. The plain loop is the paper's Algorithm 2: it asks every entry of another class for containment,
enclosing balls and exact disjointness.
Targets: at 10,000 admit is at least 30 times faster than the loop; at 50,000 it takes at most 25 times what it takes at
1,000; and at most 1.5 GB of memory at its peak, the interpreter with torch not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch  # noqa: F401  (part of the baseline of the memory measurement)
from made_up import MadeUp
from processes import processor_time

from anisocert.certificate import Certificate
from anisocert.data import load
from anisocert.errors import ArgumentError
from anisocert.geometry import Region, disjoint
from anisocert.memory import Memory

LOOPED = 3
PATTERNS = 64


class Images:
    """Images in [0, 1], `3 x side x side`, real ones as long as there are enough of them, and by which name they go."""

    def __init__(self, count: int, side: int) -> None:
        self.kind, self._pixels, self.side = f"smooth random images, 3 x {side} x {side}", None, side
        if side == 32:
            with contextlib.suppress(ArgumentError):  # they are not in the cache folder
                pixels = np.concatenate([np.asarray(load("cifar10", split).pixels) for split in ("train", "test")])
                if len(pixels) >= count:
                    self.kind, self._pixels = "CIFAR-10 images", pixels[:count]

    def __getitem__(self, i: int) -> np.ndarray:
        drawn = (
            np.uint8(smooth(np.random.default_rng([0, i]), self.side) * 255)
            if self._pixels is None
            else self._pixels[i]
        )
        return drawn / np.float32(255)


def smooth(rng: np.random.Generator, side: int) -> np.ndarray:
    """An image in [0, 1] with the falling spectrum of photographs."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]) * side
    shape = (3, side, side // 2 + 1)
    noise = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    image = np.fft.irfft2(noise / np.maximum(frequency, 1.0) ** 1.5, (side, side))
    image = image / (image.std() + 1e-9) * rng.uniform(0.1, 0.25) + rng.uniform(0.3, 0.6)
    return np.clip(image, 0.0, 1.0)


class Proposals:
    """Certificates around images; the same ones whenever asked."""

    def __init__(self, images: Images, count: int, norm: int, size: float) -> None:
        rng = np.random.default_rng(norm)
        self._images, self._made_up = images, MadeUp(norm, 10)
        self._patterns = np.stack([np.exp((smooth(rng, images.side) - 0.5) * 1.5) for _ in range(PATTERNS)])
        self._size = size * np.exp(0.7 * rng.standard_normal(count))
        self._class = rng.integers(0, 10, count)

    def __getitem__(self, i: int) -> Certificate:
        x, gap = self._images[i], self._made_up.gap
        theta = np.float32(self._patterns[i % PATTERNS] * (self._size[i] / gap))
        return self._made_up(i, int(self._class[i]), theta, self._made_up.noise.region(x, theta, gap), x)


def plain_loop(entries: list[tuple[int, Region]], proposed: Certificate) -> list[int]:
    """Algorithm 2 of the paper up to the first reduction: which entries the newcomer lies in or meets."""
    region, conflicts = proposed.region, []
    for i, (prediction, stored) in enumerate(entries):
        if prediction == proposed.prediction:
            continue
        if stored.contains(region.center):
            conflicts.append(i)
            continue
        gap = stored.center - region.center
        length = np.abs(gap).sum() if region.norm == 1 else np.linalg.norm(gap)
        if length <= stored.enclosing_radius + region.enclosing_radius and not disjoint(stored, region):
            conflicts.append(i)
    return conflicts


def inside(region: Region, rng: np.random.Generator) -> np.ndarray:
    """A point of a region, halfway from its centre to its boundary."""
    shift = rng.uniform(-1, 1, region.shape)
    return region.center + region.axes * shift * (0.5 / np.linalg.norm(shift.ravel(), region.norm))


def resident(peak: bool = False) -> float:
    """Gigabytes of memory of this process, mapped pages included."""
    name = "VmHWM:" if peak else "VmRSS:"
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e6


class Times(NamedTuple):
    """Milliseconds: of the time that passed, and on average of processor time, PostgreSQL's included."""

    median: float
    p99: float
    processor: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ms (p99 {self.p99:.2f}; {self.processor:.2f} of processor time)"


def times(work, arguments) -> Times:
    taken, before = [], spent()
    for argument in arguments:
        start = time.perf_counter()
        work(argument)
        taken.append((time.perf_counter() - start) * 1e3)
    processor = (spent() - before) * 1e3 / len(taken)
    return Times(statistics.median(taken), float(np.percentile(taken, 99)), processor)


def spent() -> float:
    """Seconds of processor time, of this process and of every PostgreSQL process of this machine."""
    seconds = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if (process / "comm").read_text() == "postgres\n":
                seconds.append(processor_time(int(process.name)))
    return time.process_time() + float(np.nansum(seconds))


def opened(place: str) -> str:
    """How long another process takes to open a memory, which reads and verifies all of it, and what it takes then."""
    code = (
        "import sys, time, torch; sys.path.insert(0, sys.argv[1]); from memory import Memory, resident, spent; "
        "base, start, before = resident(), time.perf_counter(), spent(); "
        "memory = Memory.open(sys.argv[2], read_only=True); "
        "print(f'{time.perf_counter() - start:.1f} s ({spent() - before:.1f} s of processor time), ', end=''); "
        "print(f'{(resident() - base) * 1e6 / len(memory):.1f} kB per entry')"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), place]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measure(norm: int, sizes: list[int], proposals: Proposals, place: str, loop_too: bool, timed: int) -> None:
    """Fill a memory, stopping at each size to time what newcomers take."""
    name = {2: "ellipsoids", 1: "cross-polytopes"}[norm]
    rng = np.random.default_rng(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    base, medians = resident(), {}
    with Memory.open(place) as memory:
        after = memory.submissions  # an interrupted run resumes
        for size in sizes:
            start, began = time.perf_counter(), after
            while len(memory) < size:
                memory.admit_all([proposals[i] for i in range(after, after + 50)])
                after += 50
            filled = (time.perf_counter() - start) / max(after - began, 1)
            stored = len(memory)
            newcomers = [proposals[i] for i in range(after, after + timed)]
            after += timed
            # Half of the points that are looked up lie in a stored region, half are new images.
            entries = (c for i in rng.permutation(after) if (c := memory.find(int(i))) is not None)
            points = [inside(c.region, rng) for c in islice(entries, timed // 2)]
            points += [proposals[i].region.center for i in range(after, after + timed // 2)]
            points = [point.astype(np.float32) for point in points]
            notes: list[str] = []
            admit = times(lambda c, notes=notes: notes.append(memory.admit(c).note), newcomers)
            lookup = times(memory.lookup, points)
            medians[size] = admit.median
            shares = ", ".join(f"{notes.count(note)} {note}" for note in sorted(set(notes)))
            disk = memory.stats().file_bytes / 1e3 / len(memory)
            print(
                f"{name} {stored:6,}: admit {admit}; lookup {lookup}; {shares}; "
                f"peak memory {resident(peak=True) - base:.2f} GB; filled at "
                f"{filled * 1e3:.2f} ms per submission; {disk:.1f} "
                f"kB per entry on disk; opened in {opened(place)}",
                flush=True,
            )
            if size == 10_000 and loop_too:
                entries = [(c.prediction, c.region) for c in memory.entries()]
                loop = times(lambda c, e=entries: plain_loop(e, c), newcomers[:LOOPED]).median
                del entries
                ratio, look = loop / admit.median, loop / lookup.median
                verdict = "reached" if ratio >= 30 else "MISSED"
                print(
                    f"{name}: plain loop {loop:.0f} ms, admit {ratio:.0f} times faster (target 30: {verdict}), "
                    f"lookup {look:.0f} times",
                    flush=True,
                )
    if {1000, 50_000} <= set(sizes):
        growth, most = medians[50_000] / medians[1000], resident(peak=True) - base
        print(f"{name}: 50,000 takes {growth:.1f} times what 1,000 takes ({'within' if growth <= 25 else 'OVER'} 25)")
        print(f"{name}: {most:.2f} GB at the peak ({'within' if most <= 1.5 else 'OVER'} 1.5)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 50_000])
    parser.add_argument("--norms", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--folder", default=None, help="where the file stays (default: a temporary folder)")
    parser.add_argument("--size", type=float, default=0.8, help="median semi-axis")
    parser.add_argument("--url", default=None, help="a database, in place of a file")
    parser.add_argument("--no-loop", action="store_true", help="leave out the plain loop over all entries")
    parser.add_argument("--side", type=int, default=32, help="pixels of an image's side: 224 is ImageNet's size")
    parser.add_argument("--timed", type=int, default=200, help="newcomers and points that are timed at each size")
    options = parser.parse_args()
    if len(options.norms) > 1:
        # A process each: what one leaves behind would hide what the next one takes.
        first = sys.argv.index("--norms") if "--norms" in sys.argv else len(sys.argv)
        rest = sys.argv[1:first] + sys.argv[first + 1 + len(options.norms) :]
        for norm in options.norms:
            subprocess.run([sys.executable, __file__, *rest, "--norms", str(norm)], check=True)
        return
    count = int(max(options.sizes) * 1.1) + 2000
    images = Images(count, options.side)
    print(images.kind, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        norm = options.norms[0]
        place = str(Path(options.folder or folder) / f"l{norm}.sqlite")
        if options.url is not None:
            place = options.url + ("&" if "?" in options.url else "?") + f"memory=benchmark_l{norm}"
        proposals = Proposals(images, count, norm, options.size)
        measure(norm, sorted(options.sizes), proposals, place, not options.no_loop, options.timed)


if __name__ == "__main__":
    main()
