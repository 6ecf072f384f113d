"""Seconds per epoch of training the paper's ResNet18 on 50,000 images of 32x32: launched, as graphs, and the floor.

For each recipe that needs no other network, with the batch size that suits it: steps launched kernel by kernel, steps
replayed as one CUDA graph, with --compile also the graph of the compiled network, and the time that the multiplications
alone would take at the rate of a large matrix product. Steps are measured and an epoch's seconds computed from them;
random pixels, as speed does not depend on them. `evaluate`: noisy accuracy on 10,000 images, once per epoch.

--plain adds, for Cohen's recipe, what the field's scripts do: images cropped and mirrored one by one on the host,
float32, a wait for the device at every step.

    python benchmarks/train.py                                     # a GPU, all of them
    python benchmarks/train.py --recipes cohen --compile --plain   # one of them, compiled as well
    python benchmarks/train.py --steps 2 --batch 16                # a CPU, to see that it runs
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from anisocert.data import Dataset
from anisocert.models import CIFAR10_MEAN as MEAN
from anisocert.models import CIFAR10_STD as STD
from anisocert.models import build
from anisocert.smoothing import Gaussian
from anisocert.train import RECIPES, Recipe, Selector, Sgd, SmoothAdv, noisy_accuracy, selector_data, train

EXAMPLES, EPOCHS = 50_000, 3
TIMED = [name for name in RECIPES if name not in ("denoiser", "distillation")]  # these two learn from another network
NOISE = Gaussian(0.25)


def random_data(examples: int) -> Dataset:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (examples, 3, 32, 32)).astype(np.uint8)
    labels = rng.integers(0, 10, examples)
    return Dataset("random", pixels, labels, np.arange(examples), 10, MEAN, STD, crop=4, flip=True)


def ours(recipe: Recipe, options: argparse.Namespace, batch: int, graph: bool, compiled: bool) -> tuple[float, bool]:
    """Seconds per step, of the fastest epoch: the first one tunes; and whether steps were replays."""
    data = random_data(options.steps * batch)
    if isinstance(recipe, Selector):
        recipe, data = Selector(values=torch.rand(len(data), 10)), selector_data(data)
    model = build(options.arch, 10, MEAN, STD)
    records = train(
        model, data, recipe, NOISE, sgd=Sgd(EPOCHS, batch, 1e-4), device=options.device, graph=graph, compile=compiled
    )
    return min(record["train_seconds"] for record in records) / options.steps, records[-1]["graph"]


def flops(recipe: Recipe, options: argparse.Namespace) -> float:
    """Of a step, per image."""
    model, rows = build(options.arch, 10, MEAN, STD).to(options.device).train(), 2
    if isinstance(recipe, Selector):
        recipe = Selector(values=torch.rand(rows, 10))
    x, y = torch.rand(rows, 3, 32, 32, device=options.device), torch.arange(rows, device=options.device)
    with FlopCounterMode(display=False) as counter:
        recipe.on(x.device).loss(model, x, y, NOISE).backward()
    return counter.get_total_flops() / rows


def product_rate(device: str) -> float:
    """Multiplications and additions per second of a large bfloat16 matrix product."""
    size, times = (8192, 20) if device.startswith("cuda") else (512, 2)
    a = torch.randn(size, size, dtype=torch.bfloat16, device=device)
    for count in (3, times):
        a @ a
        float((a @ a)[0, 0])  # waits
        started = time.perf_counter()
        for _ in range(count):
            product = a @ a
        float(product[0, 0])
    return 2 * size**3 * times / (time.perf_counter() - started)


def evaluation(options: argparse.Namespace) -> float:
    """Seconds of noisy accuracy, the second time."""
    model = build(options.arch, 10, MEAN, STD).to(options.device).to(memory_format=torch.channels_last).eval()
    data = random_data(10_000 if options.device.startswith("cuda") else 100)
    for _ in range(2):
        started = time.perf_counter()
        noisy_accuracy(model, data, NOISE, device=options.device, precision="bfloat16")
    return time.perf_counter() - started


def plain(options: argparse.Namespace, batch: int) -> float:
    """Seconds per step, after a few to warm up."""
    data = random_data(options.steps * batch)
    model = build(options.arch, 10, MEAN, STD).to(options.device).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4)
    rng = np.random.default_rng(0)
    padded = np.pad(data.pixels, ((0, 0), (0, 0), (4, 4), (4, 4)))

    def step(index: np.ndarray) -> None:
        images = []
        for i in index:
            top, left = rng.integers(0, 9, 2)
            image = padded[i, :, top : top + 32, left : left + 32]
            images.append(image[:, :, ::-1] if rng.random() < 0.5 else image)
        x = torch.from_numpy(np.stack(images)).to(options.device).float() / 255
        y = torch.from_numpy(data.y[index]).to(options.device)
        loss = F.cross_entropy(model(x + 0.25 * torch.randn_like(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    order = rng.permutation(len(data)).reshape(options.steps, batch)
    for index in order[:5]:
        step(index)
    started = time.perf_counter()
    for index in order:
        step(index)
    return (time.perf_counter() - started) / options.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=TIMED, choices=TIMED)
    parser.add_argument("--arch", default="resnet18-paper")
    parser.add_argument("--batch", type=int, help="Default: what suits the recipe.")
    parser.add_argument("--steps", type=int, default=60, help="per epoch, of three")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    rate = product_rate(options.device)
    print(f"{options.arch}, {options.device}, {rate / 1e12:.3g} TFLOP/s; seconds per {EXAMPLES} images")
    print(f"evaluate {evaluation(options):.3f}")
    for name in options.recipes:
        recipe = SmoothAdv(warmup=0) if name == "smoothadv" else RECIPES[name]()  # the same in every epoch
        batch = options.batch or recipe.sgd(EXAMPLES, EPOCHS).batch_size
        steps = EXAMPLES // batch
        launched, _ = ours(recipe, options, batch, graph=False, compiled=False)
        graphed, was = ours(recipe, options, batch, graph=True, compiled=False)
        line = f"{name:12} batch {batch:3}  launched {launched * steps:7.3f}  graph {graphed * steps:7.3f}"
        line += f"  ratio {launched / graphed:5.2f}{'' if was else ' (NOT a graph)'}"
        if options.compile:
            compiled, was = ours(recipe, options, batch, graph=True, compiled=True)
            line += f"  compiled {compiled * steps:7.3f}{'' if was else ' (NOT a graph)'}"
        if options.plain and name == "cohen":
            line += f"  plain loop {plain(options, batch) * steps:7.3f}"
        print(f"{line}  floor {flops(recipe, options) * EXAMPLES / rate:6.3f}", flush=True)


if __name__ == "__main__":
    main()
