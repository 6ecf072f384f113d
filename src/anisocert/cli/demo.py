"""`anisocert demo`: the main job end to end, on data that needs no download."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from anisocert.certificate import Certificate
    from anisocert.data import Dataset
    from anisocert.models import Normalized

RADII = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("runs/demo"),
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise; pixels are in [0, 1].")] = 0.25,
    n: Annotated[int, typer.Option(help="Votes an input for its certificate.")] = 10_000,
    n0: Annotated[int, typer.Option(help="Votes an input to select its class.")] = 100,
    alpha: Annotated[float, typer.Option(help="Probability with which a certificate may be wrong.")] = 0.001,
    most: Annotated[int, typer.Option("--max", help="How many test digits.")] = 120,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of training and of all noise.")] = 0,
) -> None:
    """Train a small network on handwritten digits with noise, certify test digits, and explain the numbers."""
    from rich.console import Console

    from anisocert.bounds import Plan
    from anisocert.certification import certify
    from anisocert.cli.progress import progress
    from anisocert.data import digits
    from anisocert.engine import Network
    from anisocert.optimize import Fixed
    from anisocert.runs import save_run
    from anisocert.smoothing import Gaussian

    console = Console()
    smoothing, plan, method = Gaussian(sigma), Plan(n0=n0, n=n, alpha=alpha), Fixed()
    tests = digits("test").subset(most=most)
    network = Network(_trained(console, out, sigma, epochs, seed), tests.num_classes)
    with progress(console, "certifying", len(tests) * (n0 + n), "votes") as advance:
        certificates = certify(
            network, tests.x, ids=tests.ids.tolist(), smoothing=smoothing, method=method, plan=plan, seed=seed,
            on_votes=lambda votes: advance(votes, ""),
        )  # fmt: skip
    config = {
        "data": "digits", "max": most, "model": "model.safetensors", "method": method.name, "norm": "l2",
        "sigma": sigma, "n0": n0, "n": n, "alpha": alpha, "bound": plan.bound, "stop": plan.stop, "seed": seed,
        "numerics": vars(network.numerics),
    }  # fmt: skip
    save_run(out, config, certificates, tests.y.tolist(), sigma)
    _explain(console, certificates, tests, sigma, alpha, out)


def _trained(console: "Console", out: Path, sigma: float, epochs: int, seed: int) -> "Normalized":
    """The small network, trained with noise, also saved to the run's folder."""
    import torch

    from anisocert.cli.progress import progress
    from anisocert.data import digits
    from anisocert.models import build, save
    from anisocert.smoothing import Gaussian
    from anisocert.train import Cohen, Sgd, train

    data, recipe = digits("train"), Cohen()
    torch.manual_seed(seed)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    with progress(console, "training", epochs, "epochs") as advance:
        train(
            model, data, recipe, Gaussian(sigma), sgd=Sgd.suited(len(data), epochs), seed=seed,
            on_epoch=lambda record: advance(1, f"loss {record['loss']:.3f}"),
        )  # fmt: skip
    network = {"architecture": "small-cnn", "num_classes": data.num_classes, "mean": data.mean, "std": data.std}
    training = {"data": data.name, "recipe": recipe.name, "noise": "gaussian", "sigma": sigma, "epochs": epochs}
    save(model, out / "model.safetensors", network | training | {"seed": seed})
    return model


def _explain(
    console: "Console", certificates: "list[Certificate]", tests: "Dataset", sigma: float, alpha: float, out: Path
) -> None:
    """The table, and in plain words what it means and what to try next."""
    import numpy as np
    from rich.table import Table

    from anisocert.certificate import ABSTAIN
    from anisocert.evaluate import average_certified_radius, certified_accuracy

    radius = np.array([c.radius for c in certificates])
    prediction = np.array([c.prediction for c in certificates])
    correct, abstained = prediction == tests.y, prediction == ABSTAIN
    shares = certified_accuracy(radius, correct, RADII)
    table = Table(title=f"{len(tests)} test digits, fixed sigma = {sigma}, l2")
    table.add_column("certified accuracy at radius", no_wrap=True)
    for r in RADII:
        table.add_column(f"{r:g}", justify="right")
    table.add_row("", *(f"{share:.0%}" for share in shares))
    console.print(table)
    console.print(
        f"accuracy {correct.mean():.1%}   abstained {abstained.mean():.1%}   "
        f"average certified radius {average_certified_radius(radius, correct):.3f}   "
        f"median radius {np.median(radius * correct):.3f}"
    )
    middle = RADII[len(RADII) // 2]
    share = shares[len(RADII) // 2]
    console.print(
        f"\n[bold]What this says.[/bold] At radius {middle:g}, {share:.0%} of the digits are classified correctly and "
        f"provably keep their class under every change of the pixels of l2 length up to {middle:g} (black to white in "
        f"one pixel has length 1). Each such statement is wrong with probability at most {alpha:g}. It is about the "
        "smoothed classifier, the vote of the network over noisy copies of its input, which answers "
        f"{correct.mean():.0%} of the digits correctly, and on {abstained.mean():.0%} abstains because no class wins "
        "clearly enough."
    )
    console.print(
        "\n[bold]What to try next.[/bold] Less noise is more accurate, more noise certifies farther: "
        "[cyan]anisocert demo --sigma 0.5[/cyan]. More votes tighten every radius: "
        "[cyan]anisocert demo --n 100000[/cyan]."
        f"\nEverything is in [cyan]{out}[/cyan]: run.json, certificates.parquet, theta/, model.safetensors."
    )
