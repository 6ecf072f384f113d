"""One region against 10,000 at d = 3072, in units of one plain numpy pass over the same centres.

    python benchmarks/geometry.py [--count 10000] [--dim 3072] [--repeats 5]

The work is bound by memory traffic, so the unit is the time of ((C - c)**2).sum(1) in the same process. Targets for
`disjoint`: at most 5 units where the regions are well separated, at most 40 where all overlap. touch_scale, which has
no early answer, is for information.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from anisocert.geometry import Region, Regions, disjoint, touch_scale

LIMITS = {True: 5, False: 40}


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of some calls, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cases(norm: int, count: int, dim: int):
    """Yield (name, centres of the many, many regions, one region, whether all are disjoint)."""
    rng = np.random.default_rng(norm)
    centers = rng.standard_normal((count, dim))
    axes = rng.uniform(0.5, 1.5, (count, dim))
    one = Region(np.zeros(dim), rng.uniform(0.5, 1.5, dim), norm)
    yield "separated by balls", centers, Regions(centers, axes, norm), one.scaled(0.01), True
    # One long axis each: the enclosing balls say nothing.
    axes[:, 0] = 1e6
    yield "separated by shape", centers, Regions(centers, axes, norm), one, True
    axes *= rng.uniform(1.0, 2.0, axes.shape)
    axes[:, 0] = 1.0
    # Each region is grown to 0.1 % beyond where it touches the one: no cheap test can tell.
    for i in range(count):
        axes[i] *= 1.001 * touch_scale(one, Region(centers[i], axes[i], norm))
    yield "overlapping by 0.1 %", centers, Regions(centers, axes, norm), one, False
    axes *= 1.5
    yield "overlapping", centers, Regions(centers, axes, norm), one, False
    axes *= 1e3
    yield "overlapping deeply", centers, Regions(centers, axes, norm), one, False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=3072)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    worst = {True: 0.0, False: 0.0}
    for norm, body in ((2, "ellipsoids"), (1, "cross-polytopes")):
        for name, centers, many, one, apart in cases(norm, options.count, options.dim):
            unit = seconds(lambda C=centers, c=one.center: ((C - c) ** 2).sum(1), options.repeats)
            assert (disjoint(many, one) == apart).all(), f"{body} {name}: wrong answer"
            ratio = seconds(lambda many=many, one=one: disjoint(many, one), options.repeats) / unit
            touch = seconds(lambda many=many, one=one: touch_scale(many, one), 1) / unit
            worst[apart] = max(worst[apart], ratio)
            print(
                f"{body:15} {name:20} disjoint {ratio:5.1f} units (limit {LIMITS[apart]:2})   "
                f"touch_scale {touch:5.1f} units   unit {unit * 1e3:.0f} ms",
                flush=True,
            )
    for apart, name in ((True, "separated"), (False, "overlapping")):
        verdict = "within" if worst[apart] <= LIMITS[apart] else "OVER"
        print(f"{name}: at most {worst[apart]:.1f} units, {verdict} the limit of {LIMITS[apart]}")


if __name__ == "__main__":
    main()
