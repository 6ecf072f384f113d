"""Noise chosen from a codebook, certified for everyone: one system against fixed noise at each of its levels.

Trains a classifier with noise drawn from the codes and a selector for it, certifies the same images with fixed noise at
each level, with the selected code and in two steps, and prints certified accuracy by l2 radius, beside what Dual
Randomized Smoothing (arXiv 2512.01782) reports for CIFAR-10.

With --budgets the codes have a shape, and the threat is a box: |delta_i| <= r a_i, a_i = 1 in the middle half of an
image and --budgets in its frame. What is printed is certified accuracy by r.

    python experiments/codes.py --out work/codes                                          # CIFAR-10, a GPU
    python experiments/codes.py --out work/boxes --budgets 4 --scalars 0.25,0.5
    python experiments/codes.py --out work/tiny --data digits --arch small-cnn --selector-arch small-cnn --epochs 2 --n 500 --skip 1 --max 12

Whatever is done already, in the same folder, is not done again.
"""  # noqa: E501

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anisocert.data import load
from anisocert.models import Codebook
from anisocert.runs import StoredRun, read_run

RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5)
DUAL = (70.5, 57.5, 45.3, 34.2, 24.7)
"""Dual Randomized Smoothing as published, CIFAR-10, one system, at the first five radii."""
BOXES = (0.0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.016, 0.02)
Floats = NDArray[np.float64]


def budgets(shape: Sequence[int], frame: float) -> Floats:
    """a_i of a box: 1 in the middle half of the height and width, `frame` elsewhere. `*shape`."""
    height, width = shape[-2:]
    rows, columns = np.abs(np.arange(height) - (height - 1) / 2), np.abs(np.arange(width) - (width - 1) / 2)
    inner = (rows < height / 4)[:, None] & (columns < width / 4)
    return np.broadcast_to(np.where(inner, 1.0, frame), tuple(shape)).copy()


def box_radius(axes: Floats, a: Floats) -> float:
    """The largest r with the box |delta_i| <= r a_i inside the l2 region of these semi-axes: its corners decide."""
    return float(np.sum((a / axes) ** 2) ** -0.5) * (1 - 1e-12)


def sizes_of(run: StoredRun, a: Floats | None) -> Floats:
    """Of each input's region where the answer is right, else -1: its radius, or with budgets that of the box inside."""
    found = []
    for row in run.rows:
        region = run.region(row["idx"], np.zeros(a.shape)) if a is not None and row["correct"] else None
        inside = float(row["radius"]) if a is None or region is None else box_radius(region.axes, a)
        found.append(inside if row["correct"] else -1.0)
    return np.array(found)


def lines(sizes: dict[str, Floats], at: Sequence[float]) -> list[str]:
    """A table of certified accuracies, in percent."""
    found = [f"{'':<16}" + "".join(f"{one:>8g}" for one in at)]
    for name, each in sizes.items():
        found.append(f"{name:<16}" + "".join(f"{100 * (each >= one).mean():8.1f}" for one in at))
    return found


class Steps:
    """The commands, each in its own process, in one folder."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.out = asked, Path(asked.out)

    def run(self, *arguments: object) -> None:
        """One command of anisocert; an error ends everything."""
        print("anisocert", *arguments, flush=True)
        subprocess.run([sys.executable, "-m", "anisocert", *map(str, arguments)], check=True)

    def codebook(self, levels: Sequence[float], shape: tuple[int, ...]) -> Path:
        """The levels, or with budgets each level as it is and times the square root of the budgets."""
        codes = np.array(levels)
        if self.asked.budgets:
            weight = np.sqrt(budgets(shape, self.asked.budgets))
            flat = codes.reshape(-1, *(1 for _ in shape))
            codes = np.concatenate([np.broadcast_to(flat, (len(flat), *shape)), flat * weight])
        path = self.out / "codes.safetensors"
        Codebook(codes, self.asked.sigma).save(path)
        return path

    def train(self, codes: Path) -> tuple[Path, Path]:
        """(classifier, selector)."""
        a, nets = self.asked, (self.out / "classifier", self.out / "selector")
        common = ("--data", a.data, "--codebook", codes, "--seed", a.seed)
        classifier, selector = (net / "last.safetensors" for net in nets)
        self.run("train", *common, "--arch", a.arch, "--epochs", a.epochs, "--out", nets[0])
        worth = "volume" if a.budgets else "radius"
        chooses = ("--recipe", "selector", "--set", f"unsure={a.unsure}", "--classifier", classifier, "--worth", worth)
        self.run("train", *common, *chooses, "--arch", a.selector_arch, "--epochs", a.selector_epochs, "--out", nets[1])
        return classifier, selector

    def certify(self, name: str, classifier: Path, *more: object) -> StoredRun:
        """A run."""
        a = self.asked
        which = ("--data", a.data, "--skip", a.skip, "--max", a.max, "--n", a.n, "--seed", a.seed)
        self.run("certify", classifier, *which, *more, "--out", self.out / name, "--quiet")
        return read_run(self.out / name)


def main() -> None:
    """Do what was asked for."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--out", required=True)
    ask.add_argument("--data", default="cifar10")
    ask.add_argument("--scalars", default="0.12,0.25,0.5,1")
    ask.add_argument("--sigma", type=float, default=0.5, help="noise of the selector")
    ask.add_argument("--unsure", type=float, default=0.5, help="what the selector's doubt costs in its training")
    ask.add_argument("--budgets", type=float, help="of the frame, where the middle has 1")
    ask.add_argument("--arch", default="resnet18")
    ask.add_argument("--selector-arch", default="resnet18-paper")
    ask.add_argument("--epochs", type=int, default=90)
    ask.add_argument("--selector-epochs", type=int, default=40)
    ask.add_argument("--skip", type=int, default=20)
    ask.add_argument("--max", type=int, default=500)
    ask.add_argument("--n", type=int, default=100_000)
    ask.add_argument("--seed", type=int, default=0)
    asked = ask.parse_args()
    levels, steps = [float(one) for one in asked.scalars.split(",")], Steps(asked)
    shape = load(asked.data, "test").shape
    codes = steps.codebook(levels, shape)
    classifier, selector = steps.train(codes)
    runs = {
        f"fixed {one:g}": steps.certify(f"fixed-{one:g}", classifier, "--method", "fixed", "--sigma", one)
        for one in levels
    }
    chosen = ("--codebook", codes, "--selector", selector)
    runs |= {m: steps.certify(m, classifier, "--method", m, *chosen) for m in ("selected", "two-step")}
    a = budgets(shape, asked.budgets) if asked.budgets else None
    print("\n".join(lines({name: sizes_of(run, a) for name, run in runs.items()}, RADII if a is None else BOXES)))
    if asked.data == "cifar10" and a is None:
        print(f"{'Dual RS (paper)':<16}" + "".join(f"{one:8.1f}" for one in DUAL))


if __name__ == "__main__":
    main()
