"""Gradients of searches on many networks: eager float32 against the engine, in one run.

    python benchmarks/optimize.py --gradients               # a GPU: all networks
    python benchmarks/optimize.py --gradients small-cnn     # a CPU, digits network

Milliseconds per input and step of 100 noisy copies, forward and backward to theta. "eager": what published code does,
less the gradients of weights that it also computes: one input at a time, float32. "engine": as `anisotropic` climbs, in
groups of inputs, compiled on a GPU. "ratio": eager over engine. "alone": the same with a single input, which is padded
to a group.
"cosine": the smallest, over inputs, between the two gradients by the noisy copies, of the same noise, the engine's in
calls as they are timed; "autocast": the same for eager under torch.autocast. Weights are random, so that rounding moves
more than in trained networks.
"""

import argparse
import logging
import math

import torch
import torch.nn.functional as F
from networks import LARGE, SMALL, network_of, noisy_batch
from processes import measured, ready, tell
from votes import SIGMA, seconds

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query
from anisocert.optimize.ascent import Ascent
from anisocert.optimize.soft import Problem

COPIES = 100
ASCENT = Ascent(1, COPIES, 0.1, adam=True, logarithmic=True)


def table(names, device, steps, jobs):
    names = names or [*SMALL, *LARGE]
    print(f"{device}, ms per input and step of {COPIES} copies")
    print("network                         eager   engine  ratio  alone  cosine  autocast  inputs per group")
    results = measured(((__file__, name, device, str(steps)) for name in names), jobs)
    for name, result in zip(names, results, strict=True):
        slow, fast, alone = (result.get(key, math.nan) for key in ("eager", "engine", "alone"))
        times = f"{1e3 * slow:8.2f} {1e3 * fast:8.2f} {slow / fast:6.1f} {slow / alone:6.2f}"
        near = " ".join(f"{result.get(key, math.nan):8.4f}" for key in ("cosine", "autocast"))
        print(f"{name:28} {times} {near} {result.get('group', 0):6}", flush=True)


def child(name, device, steps):
    logging.basicConfig(format=f"{name}: %(message)s")
    model, shape, classes = network_of(name)
    network = Network(model.to(device), classes, device, Numerics(compile=device == "cuda"))
    network.fit(shape, 0)
    group = ASCENT.group(network)
    x = noisy_batch(group, shape, 0.0).to(device)

    def climb(inputs):
        ASCENT.rehearse(Problem(Query.of(network, Gaussian(SIGMA), x[:inputs]), "logits"), steps)

    rows = list[int]()
    network.on_rows = lambda count, _: rows.append(count)
    climb(group)  # which compiles
    network.on_rows = None
    if device == "cuda":
        torch.cuda.empty_cache()
    ready()
    result = {"group": group, **cosines(model, network, shape, rows[-1])}
    result["eager"] = per_call(lambda: eager(model, x[0], steps), device) / steps
    result["engine"] = per_call(lambda: climb(group), device) / steps / group
    result["alone"] = per_call(lambda: climb(1), device) / steps
    tell(result)


def per_call(call, device):
    call()  # what happens once
    return seconds(call, device, 3)


def eager(model, x, steps):
    """Steps on log(theta) by the gap of mean probabilities."""
    value = torch.full_like(x, SIGMA).log().requires_grad_(True)
    optimizer = torch.optim.Adam([value], 0.1, maximize=True)
    for _ in range(steps):
        noisy = x + value.exp() * torch.randn(COPIES, *x.shape, device=x.device)
        first, second = model(noisy).softmax(1).mean(0).topk(2).values.clamp(1e-3, 1 - 1e-3)
        gap = torch.special.ndtri(first) - torch.special.ndtri(second)
        (value.grad,) = torch.autograd.grad(gap + value.mean(), [value])
        optimizer.step()


def cosines(model, network, shape, timed):
    """timed: rows of a call of the engine."""

    def engine(rows):
        padded = rows[torch.arange(math.ceil(len(rows) / timed) * timed) % len(rows)]
        scores = [network.differentiable_scores(part, one_shape=True) for part in padded.split(timed)]
        return torch.cat(scores)[: len(rows)]

    def autocast(rows):
        with torch.autocast(network.device.type, torch.bfloat16, network.numerics.precision == "bfloat16"):
            return model(rows).float()

    noisy = noisy_batch(4 * COPIES, shape, SIGMA).to(network.device)
    top = model(noisy).argmax(1)
    slopes = []
    for scores in (model, engine, autocast):
        rows = noisy.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(scores(rows).softmax(1).gather(1, top[:, None]).sum(), [rows])
        slopes.append(slope.reshape(4, -1).double())
    near = [float(F.cosine_similarity(slopes[0], slope).min()) for slope in slopes[1:]]
    return dict(zip(("cosine", "autocast"), near, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("device")
    parser.add_argument("steps", type=int)
    child(**vars(parser.parse_args()))
