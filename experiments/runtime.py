"""What a certificate costs, as benchmarks/runtime.py measured it, beside the paper's Table 3."""

from collections.abc import Sequence
from typing import Any

from anisocert.evaluate import Cell, Column, Table, times

# Seconds per image: of CIFAR-10 with ResNet18 in l2 and WideResNet40 in l1, of ImageNet with ResNet50.
PAPER = {
    ("resnet18-paper", "l2"): {"fixed": 1.6, "isotropic": 1.8, "anisotropic": 2.7},
    ("wrn-40-2", "l1"): {"fixed": 7.4, "isotropic": 9.5, "anisotropic": 11.5},
    ("resnet50", "l2"): {"fixed": 109.5, "isotropic": 136.0, "anisotropic": 147.0},
}

SHOWN = 100  # isotropic steps of the published runs in experiments/results


def runtime_table(lines: Sequence[dict[str, Any]]) -> Table:
    """Seconds per image beside those of the paper, and how many times the published way's."""
    totals = {_timed(line): _total(line) for line in lines}
    rows = []
    for line in lines:
        key = _timed(line)
        paper = PAPER.get((line["network"], line["norm"]), {}).get(line["method"])
        published, sensible = (totals.get((*key[:-1], side)) for side in ("published", "sensible"))
        if line["method"] != "fixed":
            sensible = None  # its search is the published one, so that a ratio would say little of the votes
        rows.append(
            (
                Cell(line["network"]), Cell(f"{line['norm']}, {line['sigma']:g}"), Cell(line["method"]),
                Cell(line["algorithm"]), *(Cell(round(line[f"seconds_{part}"], 4)) for part in ("choose", "votes")),
                Cell(totals[key]), *(_times(slower, totals[key]) for slower in (published, sensible)),
                Cell(None if paper is None else str(paper)),
                _times(paper, totals[key]), Cell(float(line["images"])), Cell(line["device"]),
            )
        )  # fmt: skip
    columns = (
        Column("network"), Column("noise"), Column("method"), Column("algorithm"),
        *(Column(name, "seconds", "seconds per image:") for name in ("choice of theta", "votes", "both")),
        *(Column(name, "ratio", "times as fast as") for name in ("published", "sensible")),
        Column("paper (s)"),
        Column("times as fast as the paper", "ratio"), Column("images", "count"), Column("device"),
    )  # fmt: skip
    steps = {line["isotropic_steps"] for line in lines if line.get("isotropic_steps")}
    caption = (
        "The paper's seconds are its Table 3, on a Quadro RTX 6000. Published: one image at a time in float32, "
        f"{' or '.join(map(str, sorted(steps)))} isotropic steps. Sensible, where measured: the same choice of theta, "
        "and votes in bfloat16, channels-last, compiled; compared where there is nothing to choose."
    )
    if fewer := _with_fewer_steps(lines):
        caption += (
            f" With {SHOWN} isotropic steps, by which its regions on this page were found, published would take "
            f"{', '.join(f'{setting} {times(ratio, 1)}' for setting, ratio in fewer.items())} times as long as our "
            "anisotropic (steps take the same time each)."
        )
    return Table("Runtime", columns, tuple(rows), caption)


def _with_fewer_steps(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Of each network, the published way with as many isotropic steps as in the other tables, over ours.

    Where a network was measured under several noises, each of them is named.
    """
    parts = {_timed(line): line for line in lines}
    settings = list(dict.fromkeys(key[:3] for key in parts))
    ratios = {}
    for network, norm, sigma in settings:
        start, whole, ours = (
            parts.get((network, norm, sigma, *side))
            for side in (("isotropic", "published"), ("anisotropic", "published"), ("anisotropic", "ours"))
        )
        if start and whole and ours:
            saved = start["seconds_choose"] * (1 - SHOWN / start["isotropic_steps"])
            alone = [name for name, *_ in settings].count(network) == 1
            named = network if alone else f"{network} ({norm}, {sigma:g})"
            ratios[named] = (_total(whole) - saved) / _total(ours)
    return ratios


def _total(line: dict[str, Any]) -> float:
    return float(line["seconds_choose"] + line["seconds_votes"])


def _times(slower: float | None, total: float) -> Cell:
    return Cell(None if slower is None else slower / total)


def _timed(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("network", "norm", "sigma", "method", "algorithm"))
