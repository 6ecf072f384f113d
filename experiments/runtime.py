"""What a certificate costs, as benchmarks/runtime.py measured it, beside the paper's Table 3."""

from collections.abc import Sequence
from typing import Any

from anisocert.evaluate import Cell, Column, Table

# Seconds per image of CIFAR-10, and of ImageNet for ResNet50.
PAPER = {
    "resnet18-paper": {"fixed": 1.6, "isotropic": 1.8, "anisotropic": 2.7},
    "wrn-40-2": {"fixed": 7.4, "isotropic": 9.5, "anisotropic": 11.5},
    "resnet50": {"fixed": 109.5, "isotropic": 136.0, "anisotropic": 147.0},
}


def runtime_table(lines: Sequence[dict[str, Any]]) -> Table:
    """Seconds per image beside those of the paper, and how many times the published way's."""
    totals = {_timed(line): line["seconds_choose"] + line["seconds_votes"] for line in lines}
    rows = []
    for line in lines:
        key = _timed(line)
        told = PAPER.get(line["network"], {}).get(line["method"])
        slower = totals.get((*key[:-1], "published"))
        rows.append(
            (
                Cell(line["network"]), Cell(f"{line['norm']}, {line['sigma']:g}"), Cell(line["method"]),
                Cell(line["algorithm"]), *(Cell(round(line[f"seconds_{part}"], 4)) for part in ("choose", "votes")),
                Cell(totals[key]),
                Cell(None if slower is None else slower / totals[key]), Cell(told),
                Cell(None if told is None else told / totals[key]), Cell(float(line["images"])), Cell(line["device"]),
            )
        )  # fmt: skip
    columns = (
        Column("network"), Column("noise"), Column("method"), Column("algorithm"),
        *(Column(name, "seconds", "seconds per image:") for name in ("choice of theta", "votes", "both")),
        Column("times as quick as published", "ratio"), Column("paper (s)", "seconds"),
        Column("times as quick as the paper", "ratio"), Column("images", "count"), Column("device"),
    )  # fmt: skip
    return Table("Runtime", columns, tuple(rows), "The paper's seconds are its Table 3, on a Quadro RTX 6000.")


def _timed(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("network", "norm", "sigma", "method", "algorithm"))
