"""What exact noise costs: votes on a grid against votes with plain float32 noise, same network, in turns, one run.

python benchmarks/sampling.py --network resnet18-paper --n 800000      # GPU
python benchmarks/sampling.py --network resnet18 --n 1600 --repeats 5  # CPU
"""

import argparse
import time

import numpy as np
import torch

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.engine.grid import GRID
from anisocert.models import CIFAR10_MEAN, CIFAR10_STD, build


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet18-paper")
    parser.add_argument("--n", type=int, default=800_000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    torch.manual_seed(0)  # time does not depend on the values of weights
    model = build(args.network, 10, CIFAR10_MEAN, CIFAR10_STD).eval()
    x, theta = torch.rand(1, 3, 32, 32, device=args.device), torch.full((1, 1, 1, 1, 1), args.sigma, device=args.device)
    networks = [Network(model, 10, args.device, Numerics(compile=args.compile, grid=grid)) for grid in (0.0, GRID)]

    def seconds(network):
        started = time.perf_counter()
        all_votes(Query(network, Gaussian(args.sigma), x, [0], seed=0), theta, Stage.ESTIMATE, [args.n])
        return time.perf_counter() - started

    for network in networks:
        seconds(network)
    plain, exact = np.min([[seconds(network) for network in networks] for _ in range(args.repeats)], 0)
    print(f"{args.network} on {args.device}, {args.n} votes; {networks[1].numerics}")
    print(f"float32 noise {plain:.4f} s, exact noise {exact:.4f} s")
    print(f"ratio {exact / plain:.3f}")


if __name__ == "__main__":
    main()
