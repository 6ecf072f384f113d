"""The diagnosis as a picture."""

from pathlib import Path

from anisocert.diagnosis.diagnosing import Diagnosis
from anisocert.evaluate import EVERYONE
from anisocert.report.canvas import new_figure, save, styled
from anisocert.smoothing import usual


def write_figure(diagnosis: Diagnosis, out: Path, force: bool) -> None:
    """Accuracy, abstention and radius against the noise, one column per norm; the format is that of the file's name.

    force: in place of a file that is not ours.
    """
    norms = list(dict.fromkeys(level.norm for level in diagnosis.levels))
    with styled():
        figure = new_figure(3.2 * len(norms) + 0.4, 4.6)
        axes = figure.subplots(2, len(norms), sharex="col", squeeze=False)
        for (above, below), norm in zip(axes.T, norms, strict=True):
            levels = [level for level in diagnosis.levels if level.norm == norm]
            at = [level.sigma for level in levels]
            for name, values, colour in (
                ("noisy inputs answered correctly", [level.accuracy for level in levels], "#7a7f87"),
                ("certified correctly with fixed noise (estimate)", [level.certified for level in levels], "#0b63a8"),
                ("abstained", [level.abstained for level in levels], "#b3382c"),
            ):
                above.plot(at, [100 * value for value in values], marker="o", markersize=2.5, color=colour, label=name)
            above.axhline(100 * diagnosis.chance, color="#bbbbbb", linestyle=":", linewidth=0.9)
            above.set_ylim(0, 102)
            above.set_title(f"{norm}, {usual(norm).title} noise")
            below.plot(at, [level.farthest for level in levels], color="#bbbbbb", label="at best")
            below.plot(
                at, [level.mean_radius for level in levels], marker="o", markersize=2.5, color="#0b63a8", label="mean"
            )
            below.set_ylim(0, 1.15 * max(1e-9, *(level.mean_radius for level in levels)) * 2)
            below.set_xscale("log")
            ticks = at[:: 1 + len(at) // 8]
            below.set_xticks(ticks, [f"{sigma:.2g}" for sigma in ticks])
            below.set_xticks([], minor=True)
            below.set_xlabel(f"noise {usual(norm).symbol}")
            for axis in (above, below):
                axis.grid(visible=True, axis="y")
                if diagnosis.matches > 0 and norm == norms[0]:
                    axis.axvline(
                        diagnosis.matches, color="#1a7f4b", linestyle="--", linewidth=0.9, label="trained on, it seems"
                    )
        axes[0, 0].set_ylabel("% of inputs")
        axes[1, 0].set_ylabel(f"radius, {EVERYONE}")
        above, below = axes[:, 0]
        figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        below.legend(*(part[:2] for part in below.get_legend_handles_labels()), loc="upper left")
        save(figure, out.with_suffix(""), [out.suffix.removeprefix(".")], force)
