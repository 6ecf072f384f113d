"""Votes per input to answer "is the radius at least R?": a target radius against a fixed number of votes, one run.

    python benchmarks/samples.py [--digits 100] [--n 100000] [--sigma 0.25] [--radii 0.1 0.25 0.5]

A network is trained on the digits as the demo does. Each test digit is then certified with all n votes, and once for
each radius with `target_radius`, at the same alpha. Target: at least 20 times fewer votes for at most one point of
certified accuracy at that radius.
"""

import argparse

import numpy as np
from networks import digits_network

from anisocert import Gaussian, Network, Plan, certify
from anisocert.data import digits
from anisocert.evaluate import EVERYONE, certified_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--digits", type=int, default=100)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--radii", type=float, nargs="+", default=[0.1, 0.25, 0.5])
    args = parser.parse_args()
    tests = digits("test").subset(most=args.digits)
    network = Network(digits_network(Gaussian(args.sigma), args.epochs), tests.num_classes)

    def run(target: float | None) -> tuple[np.ndarray, np.ndarray, float]:
        """(radius, correct, mean votes) over all digits."""
        certificates = certify(
            network, tests.x, ids=tests.ids.tolist(), smoothing=Gaussian(args.sigma),
            plan=Plan(n=args.n, target_radius=target),
        )  # fmt: skip
        correct = np.array([c.prediction for c in certificates]) == tests.y
        return np.array([c.radius for c in certificates]), correct, float(np.mean([c.votes for c in certificates]))

    radius, correct, fixed_votes = run(None)
    print(f"{len(tests)} test digits, sigma {args.sigma}, alpha 0.001, {network.numerics}")
    print(f"fixed noise: {EVERYONE}")
    print("radius   certified accuracy: fixed n   target   votes: fixed n     target   ratio")
    ratios, lost = [], []
    for target in args.radii:
        target_radius, target_correct, votes = run(target)
        fixed_share = float(certified_accuracy(radius, correct, target)[0])
        target_share = float(certified_accuracy(target_radius, target_correct, target)[0])
        ratios.append(fixed_votes / votes)
        lost.append(100 * (fixed_share - target_share))
        print(
            f"{target:6g}   {fixed_share:27.1%}   {target_share:6.1%}   {fixed_votes:14,.0f}   {votes:8,.0f}   "
            f"{ratios[-1]:5.1f}"
        )
    print(
        f"ratio {min(ratios):.1f} (smallest; target 20), points of certified accuracy lost {max(lost):.1f} (target 1)"
    )


if __name__ == "__main__":
    main()
