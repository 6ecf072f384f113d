"""Seconds per image (the paper's Table 3): the published scripts' way, sensible votes and ours, in one run.

    python benchmarks/runtime.py --weights MODEL.safetensors --data cifar10 --sigma 0.25
    python benchmarks/runtime.py --weights MODEL.safetensors --data cifar10 --norm l1 --sigma 0.289
    python benchmarks/runtime.py --network resnet50 --sigma 0.25 --images 4 --published-images 1

--network: random weights and images, as seconds do not depend on their values (benchmarks/networks.py).
The published way, transcribed: one image at a time in float32; plain gradient ascent for the isotropic theta, Adam for
ANCER (Eiras et al. 2022, Listing 1), weights not frozen; then Cohen's voting loop in batches of 1000. Sensible, on a
GPU: the same choice of theta, and votes by the ten lines of benchmarks/votes.py, with Gaussian noise. Each runs in a
process of its own, so that no side's settings help another. Ours is compiled on a GPU. --save FILE.json puts the lines
into a file, in place of those of the same network and noise.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch
from networks import network_of
from optimize import Timed
from torch.special import ndtri
from votes import published as published_votes
from votes import seconds, sensible

from anisocert import Anisotropic, Fixed, Gaussian, Isotropic, Numerics, Plan, Uniform, certify
from anisocert.data import load as load_data
from anisocert.engine import Network
from anisocert.models import load

SAMPLES, LEARNING_RATE, KAPPA = 100, 0.04, 2.0


def gap(model, x, theta, norm):
    """The certificate's gap from the mean softmax of noisy copies of one image."""
    copies = x.repeat((SAMPLES, 1, 1, 1))
    noise = torch.randn_like(copies) if norm == "l2" else 2 * torch.rand_like(copies) - 1
    first, second = model(copies + theta * noise).softmax(1).mean(0).topk(2).values
    if norm == "l1":
        return first - second
    return (ndtri(first.clamp(0.001, 0.999)) - ndtri(second.clamp(0.001, 0.999))) / 2


def published_isotropic(model, x, sigma, norm, iterations):
    theta = torch.full((), sigma, device=x.device, requires_grad=True)
    for _ in range(iterations):
        (theta * gap(model, x, theta, norm)).backward()
        with torch.no_grad():
            theta += LEARNING_RATE * theta.grad
            theta.clamp_(min=1e-4)
        theta.grad = None
    return theta.detach()


def published_ancer(model, x, start, norm):
    theta = start.expand_as(x).clone().requires_grad_(True)
    adam = torch.optim.Adam([theta], lr=LEARNING_RATE)
    for _ in range(100):
        adam.zero_grad()
        r = gap(model, x, theta, norm)
        (-r * (theta.log().mean().exp() + KAPPA * theta.min())).backward()
        adam.step()
        with torch.no_grad():
            torch.maximum(theta, start, out=theta)
    return theta.detach()


def published(model, images, classes, args):
    """Mean seconds of each part."""
    device = next(model.parameters()).device
    spent = {"isotropic": 0.0, "anisotropic": 0.0, "votes": 0.0}

    def timed(name, call):
        started = time.perf_counter()
        result = call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        spent[name] += (time.perf_counter() - started) / len(images)
        return result

    published_ancer(model, images[0], torch.tensor(args.sigma, device=device), args.norm)  # warm
    for x in images:
        start = timed("isotropic", lambda x=x: published_isotropic(model, x, args.sigma, args.norm, args.iterations))
        theta = timed("anisotropic", lambda x=x, start=start: published_ancer(model, x, start, args.norm))
        timed("votes", lambda x=x, theta=theta: published_votes(model, x, args.n, classes, theta, args.norm))
    choose = {"fixed": 0.0, "isotropic": spent["isotropic"], "anisotropic": spent["isotropic"] + spent["anisotropic"]}
    return {method: (seconds, spent["votes"]) for method, seconds in choose.items()}


def sensible_votes(model, x, n, device):
    """Seconds of the votes about one image, compiled and warm."""
    run, votes = sensible(model, x, n)
    run()
    return seconds(run, device, 3) * n / votes


def ours(model, images, classes, args, device):
    network = Network(model, classes, device, Numerics(compile=device == "cuda"))  # as a long run decides by itself
    network.fit(images.shape[1:], args.n * len(images))
    print(f"compiled in {network.compile_seconds:.1f} s, once per run and not counted below", flush=True)
    smoothing = Gaussian(args.sigma) if args.norm == "l2" else Uniform(args.sigma)
    costs = {}
    for method in (Fixed(), Isotropic(), Anisotropic()):
        timed = Timed(method)
        certify(network, images[:2], smoothing=smoothing, method=method, plan=Plan(n=args.n))  # warm
        started = time.perf_counter()
        certify(network, images, smoothing=smoothing, method=timed, plan=Plan(n=args.n))
        seconds = time.perf_counter() - started
        costs[method.name] = (timed.seconds / len(images), (seconds - timed.seconds) / len(images))
    return costs


def alone(side):
    """One side, measured in a process of its own."""
    child = subprocess.run([sys.executable, *sys.argv, "--side", side], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(child.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", help="with --data")
    parser.add_argument("--data", "--inputs", help="cifar10, or a file: npz with x, uint8, `n x 3 x h x w`")
    parser.add_argument("--network", help="instead of both: a name of benchmarks/networks.py, as in resnet50")
    parser.add_argument("--norm", default="l2", choices=("l2", "l1"))
    parser.add_argument("--sigma", type=float, required=True)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--images", type=int, default=64, help="ours; the published way takes --published-images")
    parser.add_argument("--published-images", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=900, help="isotropic steps of the published way")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--side", choices=("published", "sensible"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if (args.network is None) == (args.weights is None or args.data is None):
        parser.error("expected --weights and --data, or --network")
    most = max(args.images, args.published_images)
    if args.network:
        model, shape, classes = network_of(args.network)
        name = args.network
        images = torch.rand(most, *shape)
    else:
        model, metadata = load(args.weights)
        name, classes = metadata["architecture"], metadata["num_classes"]
        images = torch.from_numpy(load_data(args.data).subset(most=most).x)
    few = images[: args.published_images].to(device)
    if args.side == "published":
        print(json.dumps(published(model.to(device).requires_grad_(True), few, classes, args)))
        return
    if args.side == "sensible":
        print(json.dumps(sensible_votes(model.to(device), few[0], args.n, device)))
        return
    slow = alone("published")
    measured = {"published": (slow, args.published_images)}
    if device == "cuda":
        votes = alone("sensible")
        measured["sensible"] = ({method: (choose, votes) for method, (choose, _) in slow.items()}, 1)
    measured["ours"] = (ours(model, images[: args.images].numpy(), classes, args, device), args.images)
    card = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    lines = []
    for algorithm, (costs, count) in measured.items():
        for method, (choose, votes) in costs.items():
            ratio = sum(measured["published"][0][method]) / (choose + votes)
            print(f"{args.norm} {algorithm:10} {method:12} theta {choose:8.4f} s  votes {votes:8.4f} s  {ratio:6.1f} x")
            lines.append(
                {"network": name, "norm": args.norm, "sigma": args.sigma, "n": args.n,
                 "method": method, "algorithm": algorithm,
                 "isotropic_steps": None if algorithm == "ours" else args.iterations,
                 "seconds_choose": choose, "seconds_votes": votes, "images": count, "device": card}
            )  # fmt: skip
    if args.save:
        before = json.loads(args.save.read_text()) if args.save.exists() else []
        this = (name, args.norm, args.sigma)
        kept = [line for line in before if (line["network"], line["norm"], line["sigma"]) != this]
        args.save.write_text(json.dumps(kept + lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
