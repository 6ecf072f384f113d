"""Votes per second in one run: the published loop, ten sensible lines of PyTorch, and the engine, on many networks.

    python benchmarks/votes.py                                              # a GPU: all networks
    python benchmarks/votes.py MODEL.safetensors                            # a trained one
    python benchmarks/votes.py small-cnn --n 20000                          # a CPU, digits network
    python benchmarks/votes.py --sides engine --no-compile --rows 20000 10016 2016 480    # how many rows per call pay

Each side runs in a process of its own. The published loop is Cohen et al. 2019, `core.py`: float32, 1,000 rows per
call. The sensible lines are what an engineer writes first: bfloat16 weights, channels-last, torch.compile for low
overhead around noise, network and argmax; on a CPU there are none. Medians of some repetitions.

"alone": 10,000 votes (or n) of a single input, over their share of ten such inputs. "moved": share of noisy inputs
whose vote is not that of the model in float32. "share": of the rate of matrix products, measured in the precision that
the engine's network runs in, by the operations that torch counts in the network as it is written.
"""

import argparse
import logging
import math
import time

import numpy as np
import torch
from networks import LARGE, SMALL, network_of, noisy_batch
from processes import measured, ready, tell
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query, Stage, count_votes

SIDES = ("published", "sensible", "engine")
SIGMA = 0.25
NOISE = Gaussian(SIGMA)


def published(model, x, n, classes, theta=SIGMA, norm="l2"):
    """Cohen's _sample_noise: float32, batches of 1,000, x.repeat, argmax, counts per batch."""
    counts = np.zeros(classes, dtype=int)
    with torch.no_grad():
        for start in range(0, n, 1000):
            batch = x.repeat((min(1000, n - start), 1, 1, 1))
            noise = torch.randn_like(batch) if norm == "l2" else 2 * torch.rand_like(batch) - 1
            for i in model(batch + theta * noise).argmax(1).cpu().numpy():
                counts[i] += 1
    return counts


def sensible(model, x, n):
    """Prepares the sensible lines; returns what runs them, in whole calls, and how many votes these are."""
    rows = min(n, 10_000 if x.shape[-1] <= 64 else 1_000)
    model = model.to(torch.bfloat16, memory_format=torch.channels_last)
    image = x[None].bfloat16()
    classes = model(image).shape[1]

    def step(image):
        noisy = image + SIGMA * torch.randn(rows, *image.shape[1:], device=image.device, dtype=image.dtype)
        return model(noisy.to(memory_format=torch.channels_last)).argmax(1)

    compiled, calls = torch.compile(step, mode="reduce-overhead"), n // rows

    def run():
        counts = torch.zeros(classes, dtype=torch.int64, device=image.device)
        with torch.no_grad():
            for _ in range(calls):
                votes = compiled(image)
                counts.scatter_add_(0, votes, torch.ones_like(votes))
        return counts.cpu().numpy()

    return run, calls * rows


def engine(network, x, n, inputs=1):
    xs = x[None].expand(inputs, *x.shape)
    scales = torch.full((inputs, *[1] * (x.dim() + 1)), SIGMA, device=x.device)
    query = Query(network, NOISE, xs, list(range(inputs)), 0)
    return sum(tally.counts for tally in count_votes(query, scales, Stage.ESTIMATE, [n]))


def operations(model, x):
    """Of one input, as torch counts them: it does not know all fused operators of attention, so none are used."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            model(x[None])
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return counter.get_total_flops()


def seconds(call, device, repeats):
    times = []
    for _ in range(repeats):
        _wait(device)
        started = time.perf_counter()
        call()
        _wait(device)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def _wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def child(args):
    """One side of one network: gets ready, says so, waits for a line, measures, prints a line."""
    name, side, device = args.networks[0], args.side, args.device
    if args.log:
        logging.basicConfig(level=logging.INFO, format=f"{name}: %(message)s")
    model, shape, classes = network_of(name)
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)).to(device)
    model, n, result = model.to(device), args.n or (100_000 if shape[-1] <= 64 else 20_000), {}
    if side == "published":
        n = min(n, 10_000)
        run, warm = (lambda: published(model, x, n, classes)), (lambda: published(model, x, 1000, classes))
    elif side == "sensible":
        run, n = sensible(model, x, n)
        warm = run
    else:
        numerics = Numerics(args.precision, not args.no_compile, *args.rows or ())
        network = Network(model, classes, device, numerics)
        result["rows"] = network.fit(shape, n)
        result |= {"compile": network.compile_seconds, "flops": operations(model, x)}
        run, warm = (lambda: engine(network, x, n)), (lambda: engine(network, x, result["rows"]))
    warm()
    if device == "cuda":
        torch.cuda.empty_cache()
    ready()
    warm()
    result["seconds"] = seconds(run, device, 1 if side == "published" else args.repeats) * 1000 / n
    if side == "engine":
        few = min(n, 10_000)
        alone, ten = (seconds(lambda i=i: engine(network, x, few, i), device, args.repeats) for i in (1, 10))
        result |= {"alone": 10 * alone / ten, "moved": moved(model, network, shape), "numerics": str(network.numerics)}
        result["rate"] = matmul_rate(device, network.numerics.precision)
    tell(result)


def moved(model, network, shape):
    rows = network.numerics.rows
    noisy = noisy_batch(rows, shape, SIGMA).to(network.device)
    with torch.no_grad():
        own = torch.cat([model(part).argmax(1) for part in noisy.split(256)])
    return float((own != network.scores(noisy).argmax(1)).float().mean())


def matmul_rate(device, precision):
    """Measured matrix-product rate of this device in a precision, in FLOP/s."""
    size = 8192 if device == "cuda" else 3000
    a, b = (torch.randn(size, size, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    for _ in range(3):
        a @ b
    return 2 * size**3 / seconds(lambda: a @ b, device, 10)


def command(name, side, rows, args):
    """What measures one side of one network."""
    options = [f"--{key}={value}" for key, value in vars(args).items() if key in PASSED and value is not None]
    options += [flag for flag in ("--no-compile", "--log") if getattr(args, flag[2:].replace("-", "_"))]
    options += ["--rows", str(rows)] if rows else []
    return (__file__, name, "--side", side, *options)


PASSED = ("n", "device", "precision", "repeats")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=f"{', '.join((*SMALL, *LARGE))}; or files of trained ones")
    parser.add_argument("--n", type=int, help="votes; default 100,000, or 20,000 at 224x224; published: at most 10,000")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision")
    parser.add_argument("--rows", type=int, nargs="+", help="per call of the engine; default: its own choice")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--log", action="store_true", help="what the engine says while it gets ready")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="networks that get ready at a time, of one GPU's memory")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        child(args)
        return
    names = args.networks or [*SMALL, *LARGE]
    sides = [
        (side, None) for side in args.sides if side == "published" or (side == "sensible" and args.device == "cuda")
    ]
    sides += [("engine", rows) for rows in args.rows or [None] if "engine" in args.sides]
    print(f"{args.device}: milliseconds per 1,000 votes; share of what matrix products reach")
    print(
        "network                      published sensible   engine  /publ  /sens alone  moved share of TFLOP/s  rows "
        "compiled in"
    )
    results = measured((command(name, *side, args) for name in names for side in sides), args.jobs * len(sides))
    for name, *found in zip(names, *[results] * len(sides), strict=True):  # to the end of the results, which may fail
        told(name, [(side, values) for (side, _), values in zip(sides, found, strict=True)])


def told(name, found):
    rivals = {side: 1e3 * values.get("seconds", math.nan) for side, values in found if side != "engine"}
    plain, lines = (rivals.get(side, math.nan) for side in ("published", "sensible"))
    for e in [values for side, values in found if side == "engine"] or [{}]:
        if "seconds" not in e:
            print(f"{name:28} {plain:9.2f} {lines:8.2f}", flush=True)
            continue
        ours, share = 1e3 * e["seconds"], e["flops"] / e["seconds"] * 1e3 / e["rate"]
        print(
            f"{name:28} {plain:9.2f} {lines:8.2f} {ours:8.2f} {plain / ours:6.1f} {lines / ours:6.2f} "
            f"{e['alone']:5.2f} {e['moved']:6.2%} {share:5.0%} {e['rate'] / 1e12:10.3g} {e['rows']:5} "
            f"{e['compile']:9.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
