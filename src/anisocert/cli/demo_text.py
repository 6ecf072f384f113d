"""What the demo prints about its numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from anisocert.cli.console import Console
from anisocert.evaluate import ADMITTED, EVERYONE, LEFT, OWN, Results, down, percent, times
from anisocert.smoothing import Smoothing

RADII = (0.0, 0.2, 0.4, 0.5, 0.6, 0.8)


def table(results: Sequence[Results], smoothing: Smoothing) -> Table:
    """One row per method: certified accuracy at several radii, abstention, means of radius and proxy radius."""
    noise = f"{type(smoothing).__name__} noise {float(smoothing.theta):g}"
    drawn = Table(
        title=f"{len(results[0])} test digits, {noise}, l{smoothing.norm} radii",
        caption="share of digits certified at each radius; ACR, ACR~: mean radius, mean proxy radius. Fixed: "
        f"{EVERYONE}; the others: {OWN}",
    )
    drawn.add_column("certified at", no_wrap=True)
    for r in RADII:
        drawn.add_column(f"{r:g}", justify="right")
    for name in ("abstain", "ACR", "ACR~"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for result in results:
        drawn.add_row(
            result.method, *(f"{percent(share, digits=0)}%" for share in result.accuracy(RADII)),
            f"{percent(result.abstention, True, digits=0)}%",
            *(down(mean) for mean in (result.mean(), result.mean("proxy_radius"))),
        )  # fmt: skip
    return drawn


def conclude(console: Console, results: Mapping[str, Results], alpha: float, out: Path) -> None:
    """In plain words what the tables mean, and what to try next."""
    fixed, shaped = results["l2-fixed"], results["l2-anisotropic"]
    at = 0.4
    share = float(fixed.accuracy(at)[0])
    console.print(
        f"\n[bold]What this says.[/bold] Take l2, fixed, radius {at:g}: {percent(share)} % of the digits are "
        f"classified correctly, and get the same class after every change of the pixels of l2 length up to {at:g} "
        f"(black to white in one pixel has length 1): {EVERYONE}. Each such statement is wrong with probability at "
        f"most {alpha:g}. It is about the smoothed classifier, the vote of the network over noisy copies of its input, "
        f"which answers {percent(fixed.correct.mean(), digits=0)}% of the digits correctly (the accuracy at radius 0) "
        f"and on {percent(fixed.abstention, True, digits=0)}% abstains because no class wins clearly enough.",
        markup=True,
    )
    grown = shaped.proxy_radius.sum() / max(float(fixed.radius.sum()), 1e-12)
    console.print(
        "The anisotropic regions are ellipsoids, longer where the answer varies less: their proxy radius, of the ball "
        f"of equal volume, is {times(grown, 2)} times the radius that fixed noise certifies, on average. Noise chosen "
        f"for each input makes each certificate a statement {OWN}, not a claim that a system is robust; a memory of "
        f"certificates ([cyan]anisocert memory --help[/cyan]) makes a system of them, whose answers are {ADMITTED}. "
        f"What is {LEFT}, before that, [cyan]anisocert attack RUN --first[/cyan] measures.",
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
