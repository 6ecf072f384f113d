"""What a memory takes from a run: ACR and ACR~ before and after it, under each policy.

    python benchmarks/memory_effect.py ARRAYS.npz [--norm 2] [--prefer volume]

Arrays, in order of arrival: center (`n x shape`), axes (`n x shape`, or `n` for balls), prediction (`n`, -1: abstains),
label (`n`). ACR is the mean of radius x correct, ACR~ that of proxy radius x correct. "worst-case, offline" is the
paper's reporting rule: where regions of two classes meet, both inputs abstain.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from made_up import MadeUp

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.evaluate import average_certified_radius
from anisocert.geometry import Region
from anisocert.memory import POLICIES, Memory, worst_case


def certificates(center: np.ndarray, axes: np.ndarray, prediction: np.ndarray, norm: int) -> list[Certificate]:
    """Certificates with these regions, and made-up votes that give them."""
    found, made_up = [], MadeUp(norm, max(int(prediction.max()) + 1, 2))
    for i, (x, half, label) in enumerate(zip(center.astype(np.float32), axes, prediction.tolist(), strict=True)):
        region = None if label == ABSTAIN else Region(x, half, norm)
        found.append(made_up(i, label, np.float32(np.asarray(half) / made_up.gap * (1 + 1e-6)), region, x))
    return found


def effect(answers: Sequence[Certificate], label: np.ndarray) -> dict[str, float]:
    """Accuracy, ACR and ACR~ of some answers."""
    correct = np.array([c.prediction for c in answers]) == label
    return {
        "accuracy": float(correct.mean()),
        "ACR": average_certified_radius([c.radius for c in answers], correct),
        "ACR~": average_certified_radius([c.proxy_radius for c in answers], correct),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arrays", type=Path)
    parser.add_argument("--norm", type=int, default=2, choices=[1, 2])
    parser.add_argument("--prefer", default="volume", choices=["volume", "ball"])
    options = parser.parse_args()
    with np.load(options.arrays) as arrays:
        center, axes, prediction, label = (arrays[name] for name in ("center", "axes", "prediction", "label"))
    proposals = certificates(center, axes, prediction, options.norm)

    def tell(name: str, answers: Sequence[Certificate], seconds: float) -> None:
        numbers = "  ".join(f"{key} {value:.4f}" for key, value in effect(answers, label).items())
        notes = ", ".join(f"{count} {note}" for note, count in Counter(c.note for c in answers if c.note).most_common())
        print(f"{name:20} {numbers}   {notes}   {seconds:.1f} s", flush=True)

    tell("before the memory", proposals, 0.0)
    for policy in POLICIES:
        start = time.perf_counter()
        with Memory(policy, prefer=options.prefer) as memory:
            answers = memory.admit_all(proposals)
            tell(policy, answers, time.perf_counter() - start)
            assert memory.check().ok
    start = time.perf_counter()
    tell("worst-case, offline", worst_case(proposals), time.perf_counter() - start)


if __name__ == "__main__":
    main()
