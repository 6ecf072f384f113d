"""`anisocert demo`: the main job end to end, on data that needs no download."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import options

if TYPE_CHECKING:
    from anisocert.bounds import Plan
    from anisocert.certificate import Certificate
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Advance
    from anisocert.data import Dataset
    from anisocert.engine import Network
    from anisocert.models import Normalized
    from anisocert.optimize import Method
    from anisocert.smoothing import Smoothing

AT_ONCE = 16  # inputs per call: results do not depend on it, and the progress bar moves


def demo(
    out: Annotated[Path, typer.Option(help="Folder for networks and runs.")] = Path("runs/demo"),
    sigma: Annotated[float, typer.Option(help="Gaussian noise: standard deviation; pixels are in [0, 1].")] = 0.25,
    lam: Annotated[float, typer.Option(help="Uniform noise: half-width.")] = 0.5,
    n: Annotated[int, typer.Option(help="Votes per input for its certificate.")] = 10_000,
    n0: Annotated[int, typer.Option(help="Votes per input to select its class.")] = 100,
    alpha: Annotated[float, typer.Option(help="Probability with which a certificate may be wrong.")] = 0.001,
    most: Annotated[int, typer.Option("--max", help="How many test digits.")] = 32,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of training and of all noise.")] = 0,
    toy: Annotated[
        bool, typer.Option("--toy", help="A picture instead: regions around two points of two-dimensional data.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Train small networks on handwritten digits with noise, certify test digits in three ways, explain the numbers.

    In l2 (Gaussian noise) and in l1 (uniform noise): fixed noise, the best scale for each input (isotropic), and the
    best shape for each input (anisotropic). It ends with a report, one HTML file.
    """
    from anisocert.bounds import Plan
    from anisocert.cli.console import Console
    from anisocert.cli.demo_text import conclude, table
    from anisocert.cli.progress import progress
    from anisocert.data import digits
    from anisocert.engine import Network, Stage, Stream
    from anisocert.optimize import Anisotropic, Fixed, Isotropic
    from anisocert.smoothing import Gaussian, Uniform

    console = Console()
    noises, plan = (Gaussian(sigma), Uniform(lam)), Plan(n0=n0, n=n, alpha=alpha)
    Stream(seed, Stage.ESTIMATE, 0)  # a seed or a folder that will not do is said now, not after the training
    out.mkdir(parents=True, exist_ok=True)
    if toy:
        return _toy(console, out, plan, seed, force)
    _claim(out, force)
    tests = digits("test").subset(most=most)
    results: dict[str, list[Certificate]] = {}
    for smoothing in noises:
        network = Network(_trained(console, out, smoothing, epochs, seed), tests.num_classes)
        methods: tuple[Method, ...] = (Fixed(), Isotropic(), Anisotropic())
        with progress(console, f"certify l{smoothing.norm}", len(methods) * len(tests), "inputs") as advance:
            for method in methods:
                name = f"l{smoothing.norm}-{method.name}"
                results[name] = _run(network, tests, smoothing, method, plan, seed, advance)
                _save(out, name, network, smoothing, results[name], tests, plan, seed)
        console.print(table(results, tests.y, smoothing))
    conclude(console, results, tests.y, alpha, out)
    _report(console, [out / name for name in results], tests, out / "report.html")


def _report(console: "Console", folders: list[Path], tests: "Dataset", out: Path) -> None:
    """The report on all runs; where the noise depends on the input, after a memory, as a system would have it."""
    from rich.markup import escape

    from anisocert.evaluate.results import SAME_FOR_ALL
    from anisocert.memory import Memory
    from anisocert.report import write_report
    from anisocert.runs import read_run
    from anisocert.work import add_to_memory

    inputs = dict(zip(tests.ids.tolist(), tests.x, strict=True))
    for folder in folders:
        if read_run(folder).description["method"] not in SAME_FOR_ALL:
            with Memory() as memory:
                add_to_memory(folder, memory, inputs)
    write_report([read_run(folder) for folder in folders], out)
    console.print(f"The report, for a browser: [cyan]{escape(str(out.resolve()))}[/cyan]", soft_wrap=True, markup=True)


def _claim(out: Path, force: bool) -> None:
    """Refuse to replace what no demo has written, before any work."""
    from anisocert.durable import claim
    from anisocert.errors import ArgumentError
    from anisocert.runs.files import TABLE, read_description

    for path in (out / "report.html", out / "l2.safetensors", out / "l1.safetensors"):
        claim(path, force)
    for run in (out / f"{norm}-{method}" for norm in ("l1", "l2") for method in ("fixed", "isotropic", "anisotropic")):
        if force:
            continue
        if not (run / "run.json").exists():
            claim(run / TABLE)
        elif read_description(run).get("model") not in ("../l1.safetensors", "../l2.safetensors"):
            raise ArgumentError(f"expected no run but a demo's at {run}, got another: choose another --out, or --force")


def _toy(console: "Console", out: Path, plan: "Plan", seed: int, force: bool) -> None:
    """The figure that shows, in two dimensions, what isotropic and anisotropic regions are."""
    from rich.markup import escape

    from anisocert.evaluate import down
    from anisocert.report.canvas import save, styled
    from anisocert.report.toy import toy, toy_figure

    with styled(), console.status("training and certifying"):
        made = toy(plan, seed)
        files = save(toy_figure(made), out / "toy", force=force)
    for (norm, method), certificates in made.certificates.items():
        sizes = ", ".join(" x ".join(down(axis) for axis in c.region.axes) for c in certificates if c.region)
        console.print(f"{norm} {method:<12} half-widths of the two regions: {sizes}")
    console.print(
        "The network knows a ring. Isotropic regions are round, as wide as the ring is narrow; anisotropic ones follow "
        "it. The picture: " + " and ".join(f"[cyan]{escape(str(file.resolve()))}[/cyan]" for file in files),
        soft_wrap=True,
        markup=True,
    )


def _run(
    network: "Network",
    tests: "Dataset",
    smoothing: "Smoothing",
    method: "Method",
    plan: "Plan",
    seed: int,
    advance: "Advance",
) -> "list[Certificate]":
    """Certificates of all test digits by one method."""
    from anisocert.certification import certify

    found: list[Certificate] = []
    for first in range(0, len(tests), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        found += certify(
            network,
            tests.x[part],
            ids=tests.ids[part].tolist(),
            smoothing=smoothing,
            method=method,
            plan=plan,
            seed=seed,
        )
        advance(len(found) - first, method.name)
    return found


def _save(
    out: Path,
    name: str,
    network: "Network",
    smoothing: "Smoothing",
    certificates: "list[Certificate]",
    tests: "Dataset",
    plan: "Plan",
    seed: int,
) -> None:
    """The run folder of one method."""
    from anisocert.runs import save_run

    sigma = float(smoothing.theta)
    config = {
        "data": tests.name, "max": len(tests), "model": f"../l{smoothing.norm}.safetensors",
        "method": certificates[0].method, "norm": f"l{smoothing.norm}", "sigma": sigma, "n0": plan.n0, "n": plan.n,
        "alpha": plan.alpha, "bound": plan.bound, "stop": plan.stop, "seed": seed, "numerics": vars(network.numerics),
    }  # fmt: skip
    save_run(out / name, config, certificates, tests.y.tolist(), sigma)


def _trained(console: "Console", out: Path, smoothing: "Smoothing", epochs: int, seed: int) -> "Normalized":
    """The small network, trained with noise, also saved to the folder."""
    import torch

    from anisocert.cli.progress import progress
    from anisocert.data import digits
    from anisocert.models import build, save
    from anisocert.train import Cohen, Sgd, train

    data, recipe = digits("train"), Cohen()
    torch.manual_seed(seed)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    with progress(console, f"train l{smoothing.norm}", epochs, "epochs") as advance:
        train(
            model, data, recipe, smoothing, sgd=Sgd.suited(len(data), epochs), seed=seed,
            on_epoch=lambda record: advance(1, f"loss {record['loss']:.3f}"),
        )  # fmt: skip
    described = {
        "architecture": "small-cnn", "num_classes": data.num_classes, "mean": data.mean, "std": data.std,
        "data": data.name, "recipe": recipe.name, "noise": type(smoothing).__name__.lower(),
        "norm": f"l{smoothing.norm}", "sigma": float(smoothing.theta), "epochs": epochs, "seed": seed,
    }  # fmt: skip
    save(model, out / f"l{smoothing.norm}.safetensors", described)
    return model
