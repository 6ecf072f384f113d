"""One region against 10,000 at d = 3072, in units of one plain numpy pass over the same centres.

    python benchmarks/geometry.py [--count 10000] [--dim 3072] [--repeats 5]

The work is bound by memory traffic, so the unit is the time of ((C - c)**2).sum(1) in the same process. Targets for
`disjoint`: at most 5 units where the regions are well separated, at most 40 where all overlap. Three kinds of each:
separated by their enclosing balls, separated only by their shapes (each has one long axis, so balls tell nothing);
overlapping with a centre in the other region, overlapping at 0.99 of the touching distance (balls, and shapes).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anisocert.geometry import Region, Regions, disjoint, touch_scale

FloatArray = NDArray[np.float64]


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of some calls, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def stacks(norm: int, count: int, dim: int) -> dict[str, tuple[Regions, Region, bool]]:
    """Name -> (many regions, one region, whether all are disjoint)."""
    rng = np.random.default_rng(norm)
    centers = rng.standard_normal((count, dim))
    axes = rng.uniform(0.5, 1.5, (count, dim))
    one = Region(np.zeros(dim), rng.uniform(0.5, 1.5, dim), norm)
    touching = touch_scale(Regions(centers, axes, norm), one)

    def resized(factor: float) -> Regions:
        # k is where the one grows to touch a region that stays: growing both by (1 + k) / 2 would be touching if the
        # two had one shape; the measured factor below only needs the right side of it.
        return Regions(centers, axes * ((1.0 + touching) / 2.0 * factor)[:, None], norm)

    long = axes.copy()
    long[:, 0] = 1e6
    return {
        "separated by balls": (Regions(centers, axes * 1e-2, norm), one.scaled(1e-2), True),
        "separated by shape": (Regions(centers, long, norm), one, True),
        "overlapping deeply": (Regions(centers, axes * 1e3 * touching.max(), norm), one, False),
        "overlapping barely": (Regions(centers, axes, norm), one.scaled(float(touching.max()) * 1.0001), False),
        "overlapping in shape": (Regions(centers, long, norm), one.scaled(float(touching.max()) * 1.01), False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=3072)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    centers = np.random.default_rng(0).standard_normal((options.count, options.dim))
    center = np.zeros(options.dim)
    unit = seconds(lambda: ((centers - center) ** 2).sum(1), options.repeats)
    print(f"unit: {unit * 1e3:.0f} ms for ((C - c)**2).sum(1), C {options.count} x {options.dim} float64")
    del centers
    for norm, body in ((2, "ellipsoids"), (1, "cross-polytopes")):
        for name, (many, one, apart) in stacks(norm, options.count, options.dim).items():
            share = disjoint(many, one).mean()
            assert share == float(apart), f"{name}: {share} are disjoint"
            ratio = seconds(lambda many=many, one=one: disjoint(many, one), options.repeats) / unit
            touch = seconds(lambda many=many, one=one: touch_scale(many, one), 1) / unit
            limit = 5 if apart else 40
            verdict = "ok" if ratio <= limit else "OVER"
            print(
                f"{body:15} {name:20} disjoint {ratio:5.1f} units (limit {limit:2}, {verdict})   touch_scale {touch:5.1f}"
            )


if __name__ == "__main__":
    main()
