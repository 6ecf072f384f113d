"""Votes a second: the engine against the published loop, same network, same n, same noise distribution, one run.

    python benchmarks/votes.py --network resnet18-paper --weights MODEL.safetensors --n 100000     # GPU
    python benchmarks/votes.py --network resnet18 --n 2000                                         # CPU
    python benchmarks/votes.py --network small-cnn --n 100000                                      # CPU, digits network

The published loop (Cohen et al. 2019, `core.py`) runs in a process of its own, so that neither side's settings help the
other. Random weights are used where no file is given: time does not depend on their values.
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np
import torch

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query, Stage, count_votes
from anisocert.models import CIFAR10_MEAN, CIFAR10_STD, build

SHAPES = {"small-cnn": (1, 8, 8)}
MMAC = {"resnet18-paper": 37.0, "resnet18": 557.0, "small-cnn": 0.461}


def network_of(args):
    shape = SHAPES.get(args.network, (3, 32, 32))
    mean, std = (CIFAR10_MEAN, CIFAR10_STD) if shape[0] == 3 else ((0.3,), (0.38,))
    torch.manual_seed(0)
    model = build(args.network, 10, mean, std)
    if args.weights:
        from safetensors.torch import load_file

        model.network.load_state_dict({k: v.float() for k, v in load_file(args.weights).items()})
    return model.to(args.device).eval(), shape


def published_loop(model, x, n, sigma, batch_size=1000):
    """Cohen's _sample_noise: fp32, batches of 1000, x.repeat, argmax, counts per batch."""
    with torch.no_grad():
        counts = np.zeros(10, dtype=int)
        remaining = n
        while remaining > 0:
            this_batch_size = min(batch_size, remaining)
            remaining -= this_batch_size
            batch = x.repeat((this_batch_size, 1, 1, 1))
            noise = torch.randn_like(batch) * sigma
            predictions = model(batch + noise).argmax(1)
            for i in predictions.cpu().numpy():
                counts[i] += 1
        return counts


def engine(network, shape, x, n, sigma):
    scales = torch.full((1, 1, 1, 1, 1), sigma, device=x.device)
    (tally,) = count_votes(Query(network, Gaussian(sigma), x[None], [0], 0), scales, Stage.ESTIMATE, [n])
    return tally.counts


def compare_precisions(model, shape, args):
    """Counts of float32 and of bfloat16 votes on the same noise, for the inputs of a file or random ones."""
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(1))
    if args.inputs:
        x = torch.from_numpy(np.load(args.inputs)["x"][:8].astype(np.float32) / 255)
    print(f"{args.n} votes an input, same noise; votes that moved, beside the standard deviation of sampling")
    for i, one in enumerate(x.to(args.device)):
        counts = [
            engine(Network(model, 10, args.device, Numerics(precision, compile=False)), shape, one, args.n, args.sigma)
            for precision in ("float32", "bfloat16")
        ]
        share = counts[0].max() / args.n
        moved, spread = np.abs(counts[0] - counts[1]).sum() // 2, np.sqrt(args.n * share * (1 - share))
        print(f"input {i}: top share {share:.4f}, net moved {moved} ({moved / args.n:.3%}), sampling {spread:.0f}")


def best_of(repeats, call, device):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return float(np.median(times)), result


def matmul_rate(device, precision):
    """Measured matrix-product rate of this device in a precision, in FLOP/s."""
    size = 8192 if device == "cuda" else 3000
    a, b = (torch.randn(size, size, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    for _ in range(3):
        a @ b
    seconds, _ = best_of(10, lambda: a @ b, device)
    return 2 * size**3 / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="small-cnn")
    parser.add_argument("--weights")
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--inputs", help="npz with x, uint8, for --precisions")
    parser.add_argument("--precisions", action="store_true", help="compare float32 with bfloat16 votes instead")
    parser.add_argument("--published", action="store_true", help="only the published loop; prints JSON")
    args = parser.parse_args()
    model, shape = network_of(args)
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)).to(args.device)

    if args.precisions:
        compare_precisions(model, shape, args)
        return
    if args.published:
        published_loop(model, x, min(args.n, 1000), args.sigma)
        seconds, counts = best_of(args.repeats, lambda: published_loop(model, x, args.n, args.sigma), args.device)
        print(json.dumps({"seconds": seconds, "counts": counts.tolist()}))
        return

    child = subprocess.run([sys.executable, *sys.argv, "--published"], check=True, capture_output=True, text=True)
    published = json.loads(child.stdout)
    network = Network(model, 10, args.device, Numerics(precision=args.precision, compile=True))
    rows = network.fit(shape, args.n)
    engine(network, shape, x, min(args.n, rows), args.sigma)
    seconds, counts = best_of(args.repeats, lambda: engine(network, shape, x, args.n, args.sigma), args.device)
    compiled = f"compiled in {network.compile_seconds:.1f} s"
    print(f"{args.network} on {args.device}, {args.n} votes; {network.numerics}, {compiled}")
    print(f"published loop {published['seconds']:.4f} s   counts {published['counts']}")
    print(f"engine         {seconds:.4f} s   counts {counts.tolist()}")
    print(f"ratio {published['seconds'] / seconds:.1f}")
    if args.network in MMAC:
        rate = 2 * MMAC[args.network] * 1e6 * args.n / seconds
        share = rate / matmul_rate(args.device, network.numerics.precision)
        print(
            f"{rate / 1e12:.3g} TFLOP/s of the network as written, {share:.0%} of the measured "
            f"{network.numerics.precision} matrix-product rate"
        )


if __name__ == "__main__":
    main()
