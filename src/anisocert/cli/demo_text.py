"""What the demo says about its numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.cli.console import Console
from anisocert.evaluate import ADMITTED, EVERYONE, OWN, average_certified_radius, certified_accuracy, percent
from anisocert.smoothing import Smoothing

RADII = (0.0, 0.2, 0.4, 0.5, 0.6, 0.8)


def table(results: Mapping[str, Sequence[Certificate]], labels: NDArray[np.int64], smoothing: Smoothing) -> Table:
    """One row a method: accuracy, abstention, certified accuracy at several radii, means of radius and proxy radius."""
    norm = smoothing.norm
    title = f"{len(labels)} test digits, {type(smoothing).__name__} noise {float(smoothing.theta):g}, l{norm} radii"
    shown = Table(
        title=title,
        caption="share of digits certified at each radius; ACR, ACR~: mean radius, mean proxy radius. Fixed: "
        f"{EVERYONE}; the others: {OWN}",
    )
    shown.add_column("certified at", no_wrap=True)
    for r in RADII:
        shown.add_column(f"{r:g}", justify="right")
    for name in ("abstain", "ACR", "ACR~"):
        shown.add_column(name, justify="right", no_wrap=True)
    for name, certificates in results.items():
        if certificates[0].norm != norm:
            continue
        radius, proxy, correct, abstained = _columns(certificates, labels)
        shares = certified_accuracy(radius, correct, RADII)
        means = (average_certified_radius(radius, correct), average_certified_radius(proxy, correct))
        shown.add_row(
            name.split("-")[1], *(f"{share:.0%}" for share in shares), f"{abstained.mean():.0%}",
            *(f"{np.floor(mean * 1e3) / 1e3:.3f}" for mean in means),
        )  # fmt: skip
    return shown


def conclude(
    console: Console,
    results: Mapping[str, Sequence[Certificate]],
    labels: NDArray[np.int64],
    alpha: float,
    out: Path,
) -> None:
    """In plain words what the tables mean, and what to try next."""
    _, proxy, _, _ = _columns(results["l2-anisotropic"], labels)
    fixed, _, correct, abstained = _columns(results["l2-fixed"], labels)
    at = 0.4
    share = float(certified_accuracy(fixed, correct, at)[0])
    console.print(
        f"\n[bold]What this says.[/bold] Take l2, fixed, radius {at:g}: {percent(share)} % of the digits are "
        f"classified correctly, and get the same class after every change of the pixels of l2 length up to {at:g} "
        f"(black to white in one pixel has length 1): {EVERYONE}. Each such statement is wrong with probability at "
        f"most {alpha:g}. It is about the smoothed classifier, the vote of the network over noisy copies of its input, "
        f"which answers {correct.mean():.0%} of the digits correctly (the accuracy at radius 0) and on "
        f"{abstained.mean():.0%} abstains because no class wins clearly enough.",
        markup=True,
    )
    grown = proxy.sum() / max(float(fixed.sum()), 1e-12)
    console.print(
        "The anisotropic regions are ellipsoids, longer where the answer cares less: their proxy radius, of the ball "
        f"of equal volume, is {grown:.2f} times the radius that fixed noise certifies, on average. Noise chosen for "
        f"each input makes each certificate a statement {OWN}, and no claim that a system is robust; a memory of "
        f"certificates ([cyan]anisocert memory --help[/cyan]) makes a system of them, whose answers are {ADMITTED}.",
        markup=True,
    )
    console.print(
        "\n[bold]What to try next.[/bold] More digits, more votes: "
        "[cyan]anisocert demo --max 360 --n 100000[/cyan]. More noise certifies farther and is less accurate: "
        "[cyan]anisocert demo --sigma 0.5[/cyan]."
        f"\nNetworks and runs are in [cyan]{escape(str(out))}[/cyan]; a run is a folder with run.json, "
        "certificates.parquet and theta/.",
        markup=True,
    )


def _columns(
    certificates: Sequence[Certificate], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """(radius, proxy radius, correct, abstained), one entry per input."""
    radius, proxy = (np.array([getattr(c, name) for c in certificates]) for name in ("radius", "proxy_radius"))
    prediction = np.array([c.prediction for c in certificates])
    return radius, proxy, prediction == labels, prediction == ABSTAIN
