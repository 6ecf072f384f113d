"""The paper's figures, from any runs: PDF for print and PNG for the screen."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anisocert.evaluate import LEFT, Comparison, wilson
from anisocert.evaluate.results import SIZES, Size
from anisocert.report._charts import curves, histograms
from anisocert.report._inputs import Inputs, inputs_of
from anisocert.report._landscape import landscape
from anisocert.report._pictures import is_image, shades
from anisocert.report._sampling import examples
from anisocert.report.canvas import colour, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXAMPLES = 6
TITLES = {"envelope": "envelope: best level at each radius", "oracle": "oracle: best level per input, by label"}
FINE = 10_000  # points of a curve: a panel shows what a tenth of the inputs reach, a small part of the whole


def write_figures(
    comparisons: Sequence[Comparison],
    folder: Path,
    model: str | None = None,
    force: bool = False,
    denoise: str | None = None,
) -> list[Path]:
    """Write every figure that the runs can fill; its files.

    model, denoise: the network and its denoiser, if not where the run says. force: also in place of files that are not
    ours.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for comparison in comparisons:
        name = f"{comparison.data}-{comparison.norm}"
        ids = examples(comparison, EXAMPLES)
        inputs = inputs_of(comparison, ids)
        with styled():
            for kind, figure in (
                ("accuracy", accuracy(comparison)),
                ("gap-and-noise", noise(comparison)),
                ("theta-ratio", ratio(comparison)),
                ("theta-maps", theta_maps(comparison, ids, inputs)),
                ("landscape", landscape(comparison, model, denoise)),
            ):
                if figure is not None:
                    written += save(figure, folder / f"{kind}-{name}", force=force)
    return written


def accuracy(comparison: Comparison, together: bool = True) -> "Figure":
    """Certified accuracy against radius (above) and proxy radius (below), a column per noise level (Figs. 3 and 4).

    With bands of 95 % confidence about inputs not seen, at each size by itself, but for the envelope; and what a
    stranger who comes first leaves, where that was measured.

    together: whether the envelope and the oracle over the levels have columns too.
    """
    chart = curves(comparison, FINE)
    levels = [level for level in chart["levels"] if together or level["name"] not in ("envelope", "oracle")]
    alone = len(levels) == 1  # then the two stand side by side
    tall = 3.2 if any(curve["attacked"] for level in levels for curve in level["series"]) else 2.6  # a longer legend
    figure = new_figure(5.4, tall) if alone else new_figure(2.3 * len(levels) + 0.6, 4.2)
    axes = figure.subplots(1, 2, sharey=True)[:, None] if alone else figure.subplots(2, len(levels), sharey=True)
    for column, level in enumerate(levels):
        for axis, size in zip(axes[:, column], SIZES, strict=True):
            _draw_curves(axis, chart, level["series"], size)
        if not alone:
            axes[0, column].set_title(TITLES.get(level["name"], level["name"]))
    if alone:
        figure.suptitle(levels[0]["name"], fontsize=8.5)
    for axis in axes[:1, 0] if alone else axes[:, 0]:
        axis.set_ylabel("certified accuracy (%)" if comparison.headline.before.labelled else "certified (%)")
    lines: dict[str, Any] = {}
    for axis in axes[0]:  # envelope and oracle protect others than the levels do
        lines |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    columns = max(1, int(figure.get_figwidth() / 3))
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=columns, fontsize=7)
    return figure


def _draw_curves(axis: "Axes", chart: dict[str, Any], series: Sequence[dict[str, Any]], size: Size) -> None:
    """Certified accuracy of the runs of one noise level. chart: by `curves`."""
    at = chart["sizes"][size]["step"] * np.arange(chart["sizes"][size]["points"])
    memory = any(curve["stage"] == "after" for curve in series)
    known_curves = [curve for curve in series if curve[size] is not None]
    for curve in known_curves:
        before, shade = memory and curve["stage"] == "before", colour(curve["method"], curve["label"])
        axis.step(
            at, 100 * np.array(curve[size]) / chart["n"], where="pre", color=shade, linestyle=":" if before else "-",
            label=f"{curve['label']}: {curve['protects']}",
        )  # fmt: skip
        if not before and curve["interval"]:
            low, high = wilson(curve[size], chart["n"])
            axis.fill_between(at, 100 * low, 100 * high, step="pre", color=shade, alpha=0.12, linewidth=0)
        if size == "radius" and curve["attacked"]:
            whiskers(axis, **curve["attacked"], shade=shade, label=curve["label"])
    counts = np.array([curve[size] for curve in known_curves] or [[0]])
    seen = np.flatnonzero(counts.max(0) > chart["n"] // 10)  # a long tail would flatten the rest
    end = at[min(int(1.5 * seen[-1]) + 1, len(at) - 1)] if len(seen) else at[-1]
    axis.set(xlim=(0, end), ylim=(0, 100), xlabel=f"{chart['norm']} {size.replace('_', ' ')}")
    axis.grid(visible=True)


def whiskers(
    axis: "Axes",
    radii: Sequence[float],
    shares: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    shade: str,
    label: str,
) -> None:
    """Accuracy under the attack of a stranger who comes first, with its intervals."""
    height = 100 * np.array(shares)
    ends = np.abs(100 * np.array([low, high]) - height)
    axis.errorbar(
        radii, height, ends, color=shade, linestyle=(0, (1, 1.6)), linewidth=1, marker="o", markersize=3, capsize=2,
        elinewidth=0.8, markerfacecolor="white", label=f"{label}: {LEFT}",
    )  # fmt: skip


def noise(comparison: Comparison) -> "Figure | None":
    """Histograms of the two factors of the radius, gap and smallest noise, with their medians (Fig. 5)."""
    charts = [chart for chart in histograms(comparison) if chart["title"] in ("Gap r", "Smallest noise factor")]
    if not charts:
        return None
    figure = new_figure(2.6 * len(charts), 2.2)
    for axis, chart in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        _histogram(axis, chart)
    return figure


def ratio(comparison: Comparison) -> "Figure | None":
    """Histogram of the largest over the smallest theta of an input."""
    charts = [chart for chart in histograms(comparison) if chart["title"].startswith("Shape")]
    if not charts:
        return None
    figure = new_figure(2.8, 2.2)
    _histogram(figure.subplots(), charts[0])
    return figure


def theta_maps(comparison: Comparison, ids: Sequence[int], inputs: Inputs) -> "Figure | None":
    """Inputs, and the noise chosen for them, isotropic and anisotropic, on a log scale; a colour for each channel."""
    shaped = comparison.headline
    thetas = shaped.run.thetas
    wanted = [number for number in ids if number in thetas and is_image(thetas[number].shape)]
    if not wanted:
        return None
    isotropic = comparison.beside(shaped, "isotropic")
    if isotropic is not None and not all(number in isotropic.run.thetas for number in wanted):  # an imported one
        isotropic = None
    rows = (["input"] if inputs.x else []) + (["isotropic"] if isotropic else []) + [shaped.before.method]
    figure = new_figure(0.95 * len(wanted) + 0.5, 0.98 * len(rows) + 0.2)
    axes = figure.subplots(len(rows), len(wanted), squeeze=False)
    for column, number in enumerate(wanted):
        theta = thetas[number].astype(np.float64)
        for axis, row in zip(axes[:, column], rows, strict=True):
            axis.set(xticks=[], yticks=[])
            if row == "input":
                low, high = inputs.domain
                axis.imshow(_channels((inputs.x[number] - low) / (high - low)), cmap="gray", vmin=0, vmax=1)
                continue
            row_theta = isotropic.run.thetas[number] if isotropic and row == "isotropic" else theta
            values = np.broadcast_to(np.asarray(row_theta, np.float64), theta.shape)
            levels = shades(values, float(theta.min()), float(theta.max()))
            axis.imshow(_channels(levels), cmap="viridis", vmin=0, vmax=1)
            ends = dict.fromkeys(f"{end:.2g}" for end in (values.min(), values.max()))
            axis.set_xlabel("–".join(ends), fontsize=6, labelpad=1)
    for axis, row in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(row if row == "input" else f"θ, {row}", fontsize=7)
    return figure


def _histogram(axis: "Axes", chart: dict[str, Any]) -> None:
    edges = np.linspace(chart["low"], chart["high"], len(chart["series"][0]["counts"]) + 1)
    for series in chart["series"]:
        shade = colour(series["method"])
        axis.stairs(series["counts"], edges, fill=True, color=shade, alpha=0.3)
        axis.stairs(series["counts"], edges, color=shade, label=series["label"])
        axis.axvline(series["median"], color=shade, linestyle="--", linewidth=1)
    axis.set(xlabel=chart["title"], ylabel="inputs")
    axis.legend(fontsize=6.5)


def _channels(image: np.ndarray) -> np.ndarray:
    """`c x h x w` as matplotlib takes it."""
    pixels: np.ndarray = np.clip(np.moveaxis(image, 0, -1) if image.ndim == 3 else image, 0, 1)
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
