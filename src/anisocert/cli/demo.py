"""`anisocert demo`: the main job end to end, on data that needs no download."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import keeping, options
from anisocert.errors import ArgumentError
from anisocert.options import option

if TYPE_CHECKING:
    from anisocert.bounds import Plan
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.evaluate import Results
    from anisocert.runs import Configuration
    from anisocert.smoothing import Smoothing

EPILOG = "Example: anisocert demo --max 50 --n 1000 --out runs/quick"
DEMONSTRATED = ("fixed", "isotropic", "anisotropic")


@options.takes(
    "n0", "alpha", n=option(10_000), max=option(32, "How many test digits."),
    seed=option(0, "Seed of training and of all noise."),
)  # fmt: skip
@keeping("what is finished stays in the folder of --out; the same command begins anew and replaces it")
def demo(
    asked: options.Asked,
    out: Annotated[Path, typer.Option(help="Folder for networks and runs.", file_okay=False)] = Path("runs/demo"),
    sigma: Annotated[float, typer.Option(help="Gaussian noise: standard deviation; pixels are in [0, 1].")] = 0.25,
    lam: Annotated[float, typer.Option(help="Uniform noise: half-width.")] = 0.5,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 60,
    toy: Annotated[
        bool, typer.Option("--toy", help="A picture instead: regions around two points of two-dimensional data.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Train small networks on handwritten digits with noise, certify test digits in three ways, explain the numbers.

    In l2 (Gaussian noise) and in l1 (uniform noise): fixed noise, the best scale for each input (isotropic), and the
    best shape for each input (anisotropic). It ends with a report, one HTML file.
    """
    from anisocert.cli.configuring import configured
    from anisocert.cli.console import Console
    from anisocert.cli.demo_text import conclude, table
    from anisocert.cli.progress import Bar
    from anisocert.evaluate import results_of
    from anisocert.runs import read_run

    console = Console()
    configurations = {
        out / f"{norm}-{method}": configured(
            asked, model=str((out / f"{norm}.safetensors").resolve()), data="digits", sigma=level, norm=norm,
            method=method, device="cpu",
        )
        for norm, level in (("l2", sigma), ("l1", lam))
        for method in DEMONSTRATED
    }  # fmt: skip
    first = next(iter(configurations.values()))
    out.mkdir(parents=True, exist_ok=True)  # an error now, not after the training, if this cannot work
    if toy:
        return _toy(console, out, first.plan(), first.seed, force)
    _claim(configurations, force)
    results: dict[str, Results] = {}
    for norm in ("l2", "l1"):
        folders = {folder: c for folder, c in configurations.items() if c.norm == norm}
        c = next(iter(folders.values()))
        _train(console, Path(c.model), c.smoothing(), epochs, c.seed)
        with Bar(console, f"certify {norm}", "inputs", len(folders) * (c.max or 0)) as bar:
            for folder, configuration in folders.items():
                _run(configuration, folder, bar)
        results |= {folder.name: results_of(read_run(folder)) for folder in folders}
        console.print(table([results[folder.name] for folder in folders], c.smoothing()))
    conclude(console, results, first.alpha, out)
    _report(console, list(configurations), out / "report.html")


def _run(configuration: "Configuration", folder: Path, bar: "Bar") -> None:
    """The run of one method, as `anisocert certify` does it; from the beginning, since the network is a new one."""
    from anisocert.runs.folder import clear
    from anisocert.work import Circumstances, certify_run, load_job
    from anisocert.work.unfinished import Unfinished
    from anisocert.work.workers import InProcess

    job = load_job(configuration)
    if configuration.method == DEMONSTRATED[0]:
        job.warn()  # the other runs would repeat it
    Unfinished(folder).remove()
    clear(folder)
    before, method = bar.done, configuration.method
    in_process = partial(InProcess, job, "cpu", lambda _, inputs: bar.advance(inputs, method))
    certify_run(job, folder, in_process, Circumstances(force=True))
    bar.reach(before + len(job.ids), method)


def _report(console: "Console", folders: list[Path], out: Path) -> None:
    """The report on all runs; where the noise depends on the input, after a memory, as a system would have it."""
    from rich.markup import escape

    from anisocert.memory import Memory
    from anisocert.optimize import FOR_EVERYONE
    from anisocert.report import write_report
    from anisocert.runs import read_run
    from anisocert.work import add_to_memory

    for folder in folders:
        if read_run(folder).configuration.method not in FOR_EVERYONE:
            with Memory() as memory:
                add_to_memory(folder, memory)
    write_report([read_run(folder) for folder in folders], out)
    console.tell(f"The report, for a browser: [cyan]{escape(str(out.resolve()))}[/cyan]", markup=True)


def _claim(configurations: "dict[Path, Configuration]", force: bool) -> None:
    """Refuse to replace what no demo has written, before any work."""
    from anisocert.durable import claim, refuse_link
    from anisocert.runs.files import DESCRIPTION, expect_own_folders, read_description
    from anisocert.runs.folder import claim_files
    from anisocert.work.unfinished import Unfinished

    for run, c in configurations.items():
        for path in (run.parent / "report.html", Path(c.model)):
            claim(path, force)
        refuse_link(run)
        expect_own_folders(run)
        if force:
            continue
        if (run / DESCRIPTION).exists():
            model = read_description(run).get("model")
        elif (begun := Unfinished(run).configuration()) is not None:
            model = begun.model
        else:
            claim_files(run)
            continue
        if (run / str(model)).resolve() != Path(c.model):
            raise ArgumentError(f"expected a demo's run or none at {run}, got another: use another --out, or --force")


def _toy(console: "Console", out: Path, plan: "Plan", seed: int, force: bool) -> None:
    """The figure that shows, in two dimensions, what isotropic and anisotropic regions are."""
    from rich.markup import escape

    from anisocert.evaluate import OWN, down
    from anisocert.report.canvas import save, styled
    from anisocert.report.toy import toy, toy_figure

    with styled(), console.status("training and certifying"):
        trained = toy(plan, seed)
        files = save(toy_figure(trained), out / "toy", force=force)
    for (norm, method), certificates in trained.certificates.items():
        sizes = ", ".join(" x ".join(down(axis) for axis in c.region.axes) for c in certificates if c.region)
        console.print(f"{norm} {method:<12} half-widths of the two regions: {sizes}")
    console.tell(
        "The network knows a ring. Isotropic regions are round, as wide as the ring is narrow; anisotropic ones follow "
        f"it. Each is {OWN}. The picture: "
        + " and ".join(f"[cyan]{escape(str(file.resolve()))}[/cyan]" for file in files),
        markup=True,
    )


def _train(console: "Console", file: Path, smoothing: "Smoothing", epochs: int, seed: int) -> None:
    """A file of the small network, trained with noise."""
    import torch

    from anisocert.cli.progress import Bar
    from anisocert.data import digits
    from anisocert.models import build, save
    from anisocert.train import Cohen, Sgd, train

    data, recipe = digits("train"), Cohen()
    torch.manual_seed(seed)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    with Bar(console, f"train l{smoothing.norm}", "epochs", epochs) as bar:
        train(
            model, data, recipe, smoothing, sgd=Sgd.suited(len(data), epochs), seed=seed,
            on_epoch=lambda record: bar.advance(1, f"loss {record['loss']:.3f}"),
        )  # fmt: skip
    described = {
        "architecture": "small-cnn", "num_classes": data.num_classes, "mean": data.mean, "std": data.std,
        "data": data.name, "recipe": recipe.name, "noise": smoothing.name,
        "norm": f"l{smoothing.norm}", "sigma": float(smoothing.theta), "epochs": epochs, "seed": seed,
    }  # fmt: skip
    save(model, file, described)
