"""The published algorithm against ours, in one run: evaluations, seconds, ACR, ACR~, medians, superset shares.

    python benchmarks/optimize.py                                                       # digits, CPU: trains a network
    python benchmarks/optimize.py --weights MODEL.safetensors --inputs CIFAR.npz --sigma 0.25    # CIFAR-10, GPU

    python benchmarks/optimize.py --gradients NETWORK...     # gradients alone, on networks of benchmarks/networks.py

--inputs: an npz with x (`n x 3 x 32 x 32`, uint8), y and ids. --save FILE.npz keeps each method's thetas and answers.
"superset": share of inputs whose radius (proxy radius) is at least that of fixed and of our isotropic, ties within 1 %
counted as equal. "volume": shares of inputs with a larger and with a smaller proxy radius than the published algorithm,
where that was run before. All methods are certified with the same seed, plan and network; radii are before any memory.
ms/input is the choice of theta, optimiser and pilot votes together, on a GPU after one input that pays for what happens
once.
"""

import argparse
import time

import numpy as np
import torch
from gradients import table
from networks import digits_network

from anisocert import Anisotropic, Fixed, Gaussian, Isotropic, Numerics, Plan, Uniform, certify
from anisocert.data import digits
from anisocert.engine import Network
from anisocert.evaluate import EVERYONE, OWN
from anisocert.models import load
from anisocert.optimize import Method, PublishedAnisotropic, PublishedIsotropic


def chosen(args, smoothing):
    """The network, and inputs with their labels and ids."""
    if args.weights is None:
        tests = digits("test")
        return digits_network(smoothing), tests.x, tests.y, tests.ids
    stored = np.load(args.inputs)
    return load(args.weights, num_classes=10)[0], stored["x"].astype(np.float32) / 255, stored["y"], stored["ids"]


class Timed(Method):
    """A method whose choosing is timed."""

    def __init__(self, method):
        self.method, self.name, self.seconds = method, method.name, 0.0

    def pilot_votes(self, plan, model=None):
        return self.method.pilot_votes(plan, model)

    def choose(self, query, plan):
        started = time.perf_counter()
        theta = self.method.choose(query, plan)
        if query.x.is_cuda:
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - started
        return theta


def superset(own, floor):
    """Shares of inputs that are at least as large as in all of the floor, by radius and by proxy radius.

    A dash without a floor, over which anything would be.
    """
    if not floor:
        return "-"
    over = (np.all([value >= 0.99 * sizes[i] for sizes in floor], axis=0) for i, value in enumerate(own))
    return " / ".join(f"{np.mean(mask):.1%}" for mask in over)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights")
    parser.add_argument("--inputs")
    parser.add_argument("--norm", default="l2", choices=("l1", "l2"))
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--max", type=int, default=250)
    parser.add_argument("--published-iterations", type=int, default=900, help="isotropic steps of the published preset")
    parser.add_argument("--only", nargs="*", help="fixed isotropic published-isotropic published-ancer ancer volume")
    parser.add_argument("--save")
    parser.add_argument("--gradients", nargs="*", help="networks; default: all. See benchmarks/gradients.py")
    parser.add_argument("--steps", type=int, default=40, help="with --gradients")
    parser.add_argument("--jobs", type=int, default=2, help="with --gradients: networks that get ready at a time")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.gradients is not None:
        table(args.gradients, device, args.steps, args.jobs)
        return
    smoothing = Gaussian(args.sigma) if args.norm == "l2" else Uniform(args.sigma)
    model, x, y, ids = chosen(args, smoothing)
    x, y, ids = x[: args.max], y[: args.max], ids[: args.max].tolist()
    network = Network(model, 10, device, Numerics(compile=device == "cuda"))
    network.fit(x.shape[1:], args.n * len(x))

    published = PublishedIsotropic(iterations=args.published_iterations)
    methods = {
        "fixed": Fixed(),
        "isotropic": Isotropic(),
        "published-isotropic": published,
        "published-ancer": PublishedAnisotropic(isotropic=published),
        "ancer": Anisotropic(),
        "volume": Anisotropic(prefer="volume"),
    }
    print(f"{len(x)} inputs, {args.norm}, sigma {args.sigma}, n = {args.n}, {device}, {network.numerics}")
    print("method                 evals  ms/input  acc@0    ACR   ACR~ median median~ superset radius / proxy  volume")
    print(f"fixed: {EVERYONE}; the others, before any memory: {OWN}")
    plan, floor, rival, keep = Plan(n=args.n), [], np.array([]), {}
    for name, method in methods.items():
        if args.only and name not in args.only:
            continue
        timed = Timed(method)
        if device == "cuda" and not name.startswith("published"):  # whose steps are too many to be taken twice
            certify(network, x[:1], smoothing=smoothing, method=method, plan=plan)
        certificates = certify(network, x, ids=ids, smoothing=smoothing, method=timed, plan=plan, seed=0)
        radius, proxy = (np.array([getattr(c, field) for c in certificates]) for field in ("radius", "proxy_radius"))
        prediction = np.array([c.prediction for c in certificates])
        correct = prediction == y
        duel = f"{np.mean(proxy * correct > rival):.1%} / {np.mean(proxy * correct < rival):.1%}" if rival.size else ""
        if name == "published-ancer":
            rival = proxy * correct
        if name in ("fixed", "isotropic"):
            floor.append((radius, proxy))
        print(
            f"{name:20} {method.evaluations(plan):7d} {1e3 * timed.seconds / len(x):9.1f} {correct.mean():6.3f} "
            f"{(radius * correct).mean():6.3f} {(proxy * correct).mean():6.3f} {np.median(radius * correct):6.3f} "
            f"{np.median(proxy * correct):7.3f}  {superset((radius, proxy), floor)}  {duel}",
            flush=True,
        )
        keep |= {f"{name}/theta": np.stack([np.broadcast_to(c.theta, x.shape[1:]) for c in certificates])}
        keep |= {f"{name}/gap": np.array([c.gap for c in certificates]), f"{name}/prediction": prediction}
    if args.save:
        np.savez(args.save, x=x, y=y, ids=ids, **keep)


if __name__ == "__main__":
    main()
