"""Noise chosen from a codebook, certified for everyone: one system against fixed noise at each of its levels.

Takes a network per level, or trains them; certifies the same images with a cascade of the levels and with fixed noise
at each, and prints certified accuracy by l2 radius, beside what Dual Randomized Smoothing (arXiv 2512.01782) reports
for CIFAR-10. With --selector it adds what a smoothed selector gives for the same networks.

With --budgets the codes have a shape, one network serves all of them, and the threat is a box: |delta_i| <= r a_i,
a_i = 1 in the middle half of an image and --budgets in its frame. What is printed is certified accuracy by r.

    python experiments/codes.py --out work/codes                                          # CIFAR-10, a GPU
    python experiments/codes.py --out work/codes --networks nets/50/last.safetensors,nets/25/last.safetensors --compile
    python experiments/codes.py --out work/codes --runs runs/strong-0.5/fixed,runs/strong-0.25/fixed --compile
    python experiments/codes.py --out work/boxes --budgets 4
    python experiments/codes.py --out work/tiny --data digits --arch small-cnn --epochs 2 --n 500 --skip 1 --max 12

Whatever is done already, in the same folder, is not done again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.certificate import ABSTAIN
from anisocert.data import load
from anisocert.models import Codebook, described
from anisocert.models import load as load_network
from anisocert.runs import StoredRun, read_run

RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5)
DUAL = (70.5, 57.5, 45.3, 34.2, 24.7)
"""Dual Randomized Smoothing as published, CIFAR-10, one system, at the first five radii."""
BOXES = (0.0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.016, 0.02, 0.025, 0.03)
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
    sizes = []
    for row in run.rows:
        region = run.region(row["idx"], np.zeros(a.shape)) if a is not None and row["correct"] else None
        inside = float(row["radius"]) if a is None or region is None else box_radius(region.axes, a)
        sizes.append(inside if row["correct"] else -1.0)
    return np.array(sizes)


def curve(sizes: Floats, at: Sequence[float]) -> list[float]:
    """Certified accuracies, in percent."""
    return [100 * float((sizes >= radius).mean()) for radius in at]


def lines(sizes: dict[str, Floats], at: Sequence[float]) -> list[str]:
    """A table of certified accuracies, in percent."""
    table = [f"{'':<16}" + "".join(f"{radius:>8g}" for radius in at)]
    for name, run_sizes in sizes.items():
        table.append(f"{name:<16}" + "".join(f"{share:8.1f}" for share in curve(run_sizes, at)))
    return table


def lost(system: Floats, fixed: Floats) -> str:
    """On how many inputs the system has less than fixed noise, and by how much at most."""
    less = np.maximum(fixed, 0.0) - np.maximum(system, 0.0)
    return f"{int((less > 0).sum())} of {len(less)} inputs have a smaller radius, by at most {less.max():.4f}"


class Steps:
    """The commands, each in its own process, in one folder. levels: noise, the largest first."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.out = asked, Path(asked.out)
        self.levels = sorted((float(level) for level in asked.scalars.split(",")), reverse=True)
        options = [f"--{name}" for name in ("networks", "runs", "budgets") if getattr(asked, name)]
        if len(options) > 1:  # each says which networks answer
            sys.exit(f"expected at most one of --networks, --runs and --budgets, got {' and '.join(options)}")
        if asked.runs and len(asked.runs) != len(self.levels):
            sys.exit(f"expected runs of noise {self.levels}, in this order, got {', '.join(asked.runs)}")
        runs = zip(self.levels, asked.runs, strict=True) if asked.runs else ()
        self.given = {level: self.taken(level, Path(folder)) for level, folder in runs}

    def taken(self, level: float, folder: Path) -> StoredRun:
        """A run that is there already; an error unless it is what would be made here."""
        wanted = {name: getattr(self.asked, name) for name in ("data", "skip", "max", "n", "seed")}
        wanted |= {"method": "fixed", "sigma": level}
        wanted |= {name: getattr(Plan(), name) for name in ("n0", "alpha", "bound", "stop")}  # which no option changes
        run = read_run(folder)
        recorded = {name: run.said(name) for name in wanted}
        if recorded != wanted:
            sys.exit(f"expected {wanted} in {folder}, got {recorded}: leave --runs out, and it is certified")
        return run

    def run(self, *arguments: object) -> None:
        """One command of anisocert; an error ends everything."""
        print("anisocert", *arguments, flush=True)
        subprocess.run([sys.executable, "-m", "anisocert", *map(str, arguments)], check=True)

    def networks(self) -> list[Path]:
        """One per level: those that were given, or of the runs that were, or trained."""
        a = self.asked
        paths = [Path(path) for path in a.networks.split(",")] if a.networks else [
            Path(str(run.place("model"))) for run in self.given.values()
        ]  # fmt: skip
        if paths:
            sigmas = [described(path).get("sigma") for path in paths]
            pairs = zip(sigmas, self.levels, strict=True) if len(paths) == len(self.levels) else ()
            if not pairs or any(sigma not in (None, level) for sigma, level in pairs):
                got = ", ".join(f"{path}: {sigma}" for path, sigma in zip(paths, sigmas, strict=True))
                sys.exit(f"expected networks of noise {self.levels}, in this order, got {got}")
            return paths
        trained = []
        for level in self.levels:
            folder = self.out / f"net-{level:g}"
            how = ("--data", a.data, "--arch", a.arch, "--recipe", a.recipe, "--sigma", level, "--seed", a.seed)
            changes = (part for option in a.set for part in ("--set", option))
            self.run("train", *how, *changes, "--epochs", a.epochs, "--out", folder)
            trained.append(folder / "last.safetensors")
        return trained

    def shared(self, shape: tuple[int, ...]) -> tuple[Path, Path]:
        """(codebook, network), with budgets: each level times sqrt(budgets / the frame's budget), and one for all.

        So each level is that of the frame. The network has seen the levels themselves too, which fixed noise has.
        """
        a = self.asked
        flat = np.array(self.levels).reshape(-1, *(1 for _ in shape))
        shaped = flat * np.sqrt(budgets(shape, a.budgets) / a.budgets)
        path, seen = self.out / "codes.safetensors", self.out / "seen.safetensors"
        Codebook(shaped, a.sigma).save(path)
        Codebook(np.concatenate([np.broadcast_to(flat, shaped.shape), shaped]), a.sigma).save(seen)
        how = ("--data", a.data, "--arch", a.arch, "--codebook", seen, "--epochs", a.epochs, "--seed", a.seed)
        self.run("train", *how, "--out", self.out / "net")
        return path, self.out / "net" / "last.safetensors"

    def certify(self, name: str, network: Path, *more: object) -> StoredRun:
        """A run."""
        a = self.asked
        which = ("--data", a.data, "--skip", a.skip, "--max", a.max, "--n", a.n, "--seed", a.seed, "--device", a.device)
        how = ("--compile",) if a.compile else ()
        self.run("certify", network, *which, *how, *more, "--out", self.out / name, "--quiet")
        return read_run(self.out / name)

    def certified(self) -> dict[str, StoredRun]:
        """All runs: the cascade first, then fixed noise, the largest first."""
        a, shape = self.asked, load(self.asked.data, "test").shape
        if a.budgets:
            codes, network_file = self.shared(shape)
            paths = [network_file] * len(self.levels)
        else:
            paths, codes = self.networks(), self.out / "codes.safetensors"
            loaded = [load_network(path, mean=a.mean, std=a.std) if a.mean else load_network(path) for path in paths]
            Codebook(np.array(self.levels), a.sigma).save(codes, loaded)
            network_file = codes
        runs = {"cascade": self.certify("cascade", network_file, "--method", "cascade", "--codebook", codes)}
        for level, network in zip(self.levels, paths, strict=True):
            if level in self.given:
                runs[f"fixed {level:g}"] = self.given[level]
            elif a.fixed is None or level in a.fixed:
                more = ("--mean", _text(a.mean), "--std", _text(a.std)) if a.mean else ()
                fixed = ("--method", "fixed", "--sigma", level, *more)
                runs[f"fixed {level:g}"] = self.certify(f"fixed-{level:g}", network, *fixed)
        if a.selector:
            chosen = ("--codebook", codes, "--selector", a.selector)
            runs["selected"] = self.certify("selected", network_file, "--method", "selected", *chosen)
        return runs


def _text(values: Sequence[float]) -> str:
    return ",".join(map(str, values))


def _texts(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def main() -> None:
    """Do what was asked for."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--out", required=True)
    ask.add_argument("--data", default="cifar10")
    ask.add_argument("--scalars", default="0.5,0.25", help="noise levels")
    ask.add_argument("--networks", help="one per level, the largest level first; otherwise they are trained")
    ask.add_argument("--runs", type=_texts, default=(), help="instead: finished runs of fixed noise with such networks")
    ask.add_argument("--mean", type=_numbers, help="of networks whose files do not say it")
    ask.add_argument("--std", type=_numbers)
    ask.add_argument("--fixed", type=_numbers, help="levels to compare with; default: all")
    ask.add_argument("--selector", help="a network that names one of the levels, the largest first")
    ask.add_argument("--sigma", type=float, default=0.5, help="noise of the selector")
    ask.add_argument("--budgets", type=float, help="of the frame, where the middle has 1")
    ask.add_argument("--arch", default="resnet18")
    ask.add_argument("--recipe", default="consistency")
    ask.add_argument("--set", action="append", default=[], help="an option of the recipe, as in weight=2")
    ask.add_argument("--epochs", type=int, default=60)
    ask.add_argument("--skip", type=int, default=20)
    ask.add_argument("--max", type=int, default=500)
    ask.add_argument("--n", type=int, default=100_000)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--device", default="auto")
    ask.add_argument("--compile", action="store_true")
    asked = ask.parse_args()
    Path(asked.out).mkdir(parents=True, exist_ok=True)
    steps = Steps(asked)
    runs = steps.certified()
    a = budgets(load(asked.data, "test").shape, asked.budgets) if asked.budgets else None
    sizes, at = {name: sizes_of(run, a) for name, run in runs.items()}, RADII if a is None else BOXES
    print("\n".join(lines(sizes, at)))
    if asked.data == "cifar10" and a is None:
        print(f"{'Dual RS (paper)':<16}" + "".join(f"{share:8.1f}" for share in DUAL))
    if (largest := f"fixed {steps.levels[0]:g}") in sizes and a is None:
        print(f"cascade beside {largest}: {lost(sizes['cascade'], sizes[largest])}")
    rows = runs["cascade"].rows
    answered = [row["codes"].count(",") for row in rows if row["prediction"] != ABSTAIN]
    shares = np.bincount(answered, minlength=len(steps.levels)) / len(rows)
    print("answered by each level: " + ", ".join(f"{s:g}: {p:.1%}" for s, p in zip(steps.levels, shares, strict=True)))
    curves = {name: {"radii": list(at), "percent": curve(run_sizes, at)} for name, run_sizes in sizes.items()}
    Path(asked.out, "curves.json").write_text(json.dumps({"asked": vars(asked), "curves": curves}, indent=1) + "\n")


if __name__ == "__main__":
    main()
