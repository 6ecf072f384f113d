"""Certificates in the plane: a network on two-dimensional data whose classes differ in distance from the origin.

The regions are certified by the library, with the same votes as everywhere (ANCER, Fig. 1).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.certification import certify
from anisocert.data import Dataset
from anisocert.engine import Network
from anisocert.optimize import Isotropic, PublishedAnisotropic
from anisocert.report._landscape import outline
from anisocert.report.canvas import new_figure
from anisocert.smoothing import Gaussian, Uniform
from anisocert.train import Cohen, Sgd, train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RING, EDGES, FARTHEST = 1, (1.0, 2.0), 2.8
NEAR = np.array([[0.0, 1.5], [-1.45, 0.0]])  # the two examples are the data points next to these
SIGMA, LAM = 0.1, 0.2


@dataclass(frozen=True, eq=False)
class Toy:
    """The network, its data, and the certificates of two points by panel: (norm, method)."""

    model: nn.Module
    data: Dataset
    certificates: dict[tuple[str, str], list[Certificate]]


def radial_data(seed: int = 0) -> Dataset:
    """2,500 points in a disc of radius 2.8; class 1 is the ring from 1 to 2, with a margin on both sides."""
    generator = np.random.default_rng(seed)
    radius = FARTHEST * np.sqrt(generator.random(10_000))
    radius = radius[np.abs(radius[:, None] - EDGES).min(1) > 0.05][:2500]
    angle = 2 * np.pi * generator.random(len(radius))
    x = (radius * np.array([np.cos(angle), np.sin(angle)])).T.astype(np.float32)
    y = ((radius > EDGES[0]) & (radius < EDGES[1])).astype(np.int64)
    return Dataset("radial", x, y, np.arange(len(x)), 2, (0.0, 0.0), (1.0, 1.0))


def toy(plan: Plan, seed: int = 0, epochs: int = 40) -> Toy:
    """Train the network, and certify two points in l1 and l2, isotropic and anisotropic."""
    data = radial_data(seed=seed)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    train(model, data, Cohen(), Gaussian(0.05), sgd=Sgd(epochs, 64, 0.05), seed=seed, compile=False)
    network = Network(model, 2)
    ring = np.flatnonzero(data.y == RING)
    places = [ring[np.linalg.norm(data.x[ring] - near, axis=1).argmin()] for near in NEAR]
    # the paper's ascent, which trades a little radius for volume; the default would keep the ball
    shaped, certificates = PublishedAnisotropic(isotropic=Isotropic()), {}
    for smoothing in (Uniform(LAM), Gaussian(SIGMA)):
        for method in (Isotropic(), shaped):
            certificates[f"l{smoothing.norm}", method.name] = certify(
                network, data.x[places], ids=[int(place) for place in places], smoothing=smoothing, method=method,
                plan=plan, seed=seed,
            )  # fmt: skip
    return Toy(model, data, certificates)


def toy_figure(made: Toy) -> "Figure":
    """The landscape of the ring's class, the data, and the certificates' boundaries: one panel per norm and method."""
    ticks = np.linspace(-2.4, 2.4, 161)
    grid = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2).astype(np.float32)
    with torch.no_grad():
        heights = made.model(torch.from_numpy(grid)).softmax(1)[:, RING].numpy().reshape(len(ticks), -1)
    figure = new_figure(8.6, 2.5)
    panels = zip(figure.subplots(1, 4, sharey=True), "abcd", made.certificates.items(), strict=True)
    for axis, letter, ((norm, method), certificates) in panels:
        contours = axis.contourf(ticks, ticks, heights, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.85)
        points = made.data.x[(np.abs(made.data.x) < ticks.max()).all(1)]
        axis.plot(points[::3, 0], points[::3, 1], ".", color="black", markersize=0.8, alpha=0.5)
        for certificate in certificates:
            region = certificate.region
            if region is None:
                continue
            line = region.center + outline(region.axes, np.eye(2), region.norm)
            axis.fill(line[:, 0], line[:, 1], facecolor="none", edgecolor="black", linewidth=1.6)
            axis.plot(*region.center, "o", color="black", markersize=3)
        axis.set(
            xlim=(-2.4, 2.4),
            ylim=(-2.4, 2.4),
            title=f"({letter}) {norm}, {method}",
            aspect="equal",
            xticks=[-2, 0, 2],
            yticks=[-2, 0, 2],
        )
    figure.colorbar(contours, ax=figure.axes, label="f of the ring's class", ticks=[0, 0.5, 1], shrink=0.85)
    return figure
