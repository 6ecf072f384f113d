"""Seconds an epoch of training the paper's ResNet18 with noise on 50,000 images of 32x32: ours and a plain loop.

The plain loop is what the field's scripts do: images cropped and mirrored one by one on the host, float32, a wait for
the device at every step. Prints both and their ratio. Random pixels: speed does not depend on them.

    python benchmarks/train.py                      # a GPU, 50,000 images, some epochs
    python benchmarks/train.py --examples 512       # a CPU, to see that it runs
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F

from anisocert.data import Dataset
from anisocert.models import build
from anisocert.smoothing import Gaussian
from anisocert.train import Cohen, Sgd, train

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def ours(data: Dataset, arch: str, batch: int, device: str, epochs: int, compiled: bool) -> float:
    model = build(arch, 10, MEAN, STD)
    records = train(
        model, data, Cohen(), Gaussian(0.25), sgd=Sgd(epochs, batch), device=device, compile=compiled
    )  # fmt: skip
    return min(record["train_seconds"] for record in records)


def plain(data: Dataset, arch: str, batch: int, device: str) -> float:
    """One epoch, after a few steps to warm up."""
    model = build(arch, 10, MEAN, STD).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4)
    rng = np.random.default_rng(0)
    padded = np.pad(data.pixels, ((0, 0), (0, 0), (4, 4), (4, 4)))

    def step(index: np.ndarray) -> None:
        images = []
        for i in index:
            top, left = rng.integers(0, 9, 2)
            image = padded[i, :, top : top + 32, left : left + 32]
            images.append(image[:, :, ::-1] if rng.random() < 0.5 else image)
        x = torch.from_numpy(np.stack(images)).to(device).float() / 255
        y = torch.from_numpy(data.y[index]).to(device)
        loss = F.cross_entropy(model(x + 0.25 * torch.randn_like(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    order = rng.permutation(len(data))
    for start in range(0, min(5 * batch, len(data)), batch):
        step(order[start : start + batch])
    started = time.perf_counter()
    for start in range(0, len(data) - batch + 1, batch):
        step(order[start : start + batch])
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--arch", default="resnet18-paper")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (options.examples, 3, 32, 32)).astype(np.uint8)
    labels = rng.integers(0, 10, options.examples)
    data = Dataset("random", pixels, labels, np.arange(options.examples), 10, MEAN, STD, crop=4, flip=True)
    fast = ours(data, options.arch, options.batch, options.device, options.epochs, options.compile)
    slow = plain(data, options.arch, options.batch, options.device)
    print(f"{options.arch}, {options.examples} images, batch {options.batch}, {options.device}")
    print(f"ours {fast:.3f} s an epoch, plain loop {slow:.3f} s, ratio {slow / fast:.2f}")


if __name__ == "__main__":
    main()
