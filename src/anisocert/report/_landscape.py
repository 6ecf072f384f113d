"""A class probability around an input and the certified regions, in the planes where it bends (ANCER, appendix A)."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.engine import Classifier
from anisocert.engine.told import under
from anisocert.errors import AnisocertError
from anisocert.evaluate import Comparison, Entry
from anisocert.geometry.region import p_norm
from anisocert.optimize import ROUND
from anisocert.report._curvature import SmoothProbability, lanczos
from anisocert.report._inputs import inputs_of
from anisocert.report._sampling import examples
from anisocert.report.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SAMPLES, STEPS, GRID = 24, 40, 25
PLANES = ((1, r"$\nu_2$"), (-1, r"$\nu_\mathrm{min}$"))  # the other direction beside the most bent one
LINES = {"anisotropic": "-", "isotropic": "--", "fixed": ":"}


def landscape(comparison: Comparison, model: str | None = None, denoise: str | None = None) -> "Figure | None":
    """The planes of the two most bent directions, and of the most and the least bent one, through one input.

    None where the runs lack what it takes: an input, its network with gradients, and its theta. A network that was
    asked for by name must be there.
    """
    entry = comparison.headline
    theta_of = entry.run.thetas
    ids = [number for number in examples(comparison, 1) if theta_of[number].size > 1]
    inputs = inputs_of(comparison, ids)
    level = entry.before.sigma
    if not ids or ids[0] not in inputs.x or level is None:
        return None
    network = _network(entry, model, denoise)
    if network is None:
        return None
    number = ids[0]
    place = int(np.searchsorted(entry.before.ids, number))
    x = torch.from_numpy(inputs.x[number]).float()
    probability = _probability(network, int(entry.before.prediction[place]), x.shape, entry)
    directions = bent_directions(probability, x, level / 2)
    region = entry.run.region(number, inputs.x[number])
    assert region is not None  # of a correct answer
    balls = _balls(comparison, entry, place)
    figure = new_figure(6.4, 2.9)
    for axis, (j, name) in zip(figure.subplots(1, 2), PLANES, strict=True):
        plane = directions[:, [0, j]]
        outlines = {entry.before.method: outline(region.axes.ravel(), plane, region.norm)}
        outlines |= {
            method: outline(np.full(region.dim, r), plane, region.norm) for method, r in balls.items() if r > 0
        }
        reach = max(level / 2, 1.35 * max(float(np.abs(line).max()) for line in outlines.values()))
        ticks = np.linspace(-reach, reach, GRID)
        steps = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2) @ plane.T
        points = x[None] + torch.from_numpy(steps).float().view(-1, *x.shape)
        heights = probability.values(points).numpy().reshape(GRID, GRID)
        contours = axis.contourf(ticks, ticks, heights, levels=np.linspace(0, 1, 21), cmap="RdBu")
        for method, line in outlines.items():
            axis.plot(line[:, 0], line[:, 1], "k", linestyle=LINES.get(method, "-"), linewidth=1.4, label=method)
        axis.plot(0, 0, "k.", markersize=4)
        axis.set(xlabel=r"$\nu_1$", ylabel=name, aspect="equal")
    axis.legend(loc="upper left", fontsize=6.5, frameon=True)
    figure.colorbar(contours, ax=figure.axes, label=f"smoothed probability of the answer, input {number}", shrink=0.9)
    return figure


def bent_directions(probability: SmoothProbability, x: torch.Tensor, step: float) -> Floats:
    """Eigenvectors of the Hessian at x as columns, most bent first, as far as STEPS products tell."""

    def apply(vector: Floats) -> Floats:
        direction = torch.from_numpy(vector).to(x.dtype).view(x.shape)
        return probability.bend(x, direction, step).double().numpy().reshape(-1)

    return lanczos(apply, x.numel(), STEPS)[1]


def outline(axes: Floats, plane: Floats, norm: int) -> Floats:
    """Where a region's boundary cuts a plane through its centre: `361 x 2` coordinates. plane: `d x 2`, orthonormal."""
    angle = np.linspace(0, 2 * np.pi, 361)
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    return circle / p_norm(np.abs(circle @ plane.T) / axes, norm)[:, None]


def _balls(comparison: Comparison, entry: Entry, place: int) -> dict[str, float]:
    """Radii of the round certificates of the same input and noise level."""
    others = {method: comparison.beside(entry, method) for method in ROUND}
    return {method: float(other.before.radius[place]) for method, other in others.items() if other is not None}


def _probability(network: Classifier, label: int, shape: tuple[int, ...], entry: Entry) -> SmoothProbability:
    """The label's probability under the noise that the search began with."""
    generator = torch.Generator().manual_seed(0)
    half, smoothing = (SAMPLES // 2, *shape), entry.run.configuration.smoothing()
    uniform = smoothing.base == "uniform"
    drawn = (torch.rand if uniform else torch.randn)(half, generator=generator, dtype=torch.float32, device="cpu")
    draw = drawn * 2 - 1 if uniform else drawn
    scale = smoothing.scale(draw, generator)
    eps = torch.cat([scale * draw, -scale * draw])
    return SmoothProbability(under(scale, network), label, eps, str(entry.run.said("outputs") or "logits"))


def _network(entry: Entry, model: str | None, denoise: str | None) -> Classifier | None:
    """The run's network, with gradients to its input; None where it is not there, unless it was asked for."""
    try:
        return entry.run.moved(model=model, denoise=denoise).network("cpu", same_kind=False, gradients=True).model
    except (AnisocertError, OSError):
        if model is not None or denoise is not None:
            raise
        return None
