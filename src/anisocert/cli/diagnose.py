"""`anisocert diagnose`: what can be certified with a network, before hours are spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.errors import ArgumentError
from anisocert.options import option

if TYPE_CHECKING:
    from anisocert.diagnosis import Diagnosis

EPILOG = "Example: anisocert diagnose nets/cohen/last.safetensors --data cifar10 --figure diagnosis.png"


@options.takes(
    "model", "data", "bound", "seed", "split", "outputs", "num_classes", "layout", "mean", "std", "denoise", "model_id",
    "codebook", "selector", "precision", "rows", "grid",
    n=option(100_000, "Votes per input that you mean to certify with."),
    alpha=option(0.001),
    max=option(64, "Examples to look at under noise, evenly spaced; whether it works without any is seen on 32."),
)  # fmt: skip
def diagnose(
    asked: options.Asked,
    sigma: Annotated[str | None, typer.Option(help="Only these noise levels, as in 0.12,0.25.")] = None,
    norm: Annotated[str, typer.Option(help="l2, l1 or both.")] = "both",
    votes: Annotated[int, typer.Option(help="Noisy copies of each input per noise level.", min=2)] = 100,
    figure: Annotated[Path | None, typer.Option(help="Also draw a .png or .pdf file.", dir_okay=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: options.Device = "auto",
    force: options.Force = False,
    config: ConfigFile = None,
) -> None:
    """Look at a network under a range of noise: what can be certified with it, at what cost, and why inputs abstain.

    A small sample and few votes give estimates, not certificates: accuracy on noisy inputs, the shares that would be
    certified and abstain with --n votes, the mean radius, the training noise that the network seems to match, what the
    votes could reach at best, and a recommendation of noise, norm and method.
    """
    from dataclasses import replace
    from functools import partial

    from anisocert.cli.configuring import configured, loaded
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.diagnosis import GRID
    from anisocert.diagnosis import diagnose as look
    from anisocert.diagnosis.diagnosing import COMPARED
    from anisocert.durable import claim
    from anisocert.engine.devices import devices_of

    if norm not in ("l1", "l2", "both"):
        raise ArgumentError(f"expected --norm l2, l1 or both, got {norm!r}")
    norms, sigmas = ("l2", "l1") if norm == "both" else (norm,), options.numbers("--sigma", sigma)
    if sigmas is not None and min(sigmas) <= 0:
        raise ArgumentError(f"expected --sigma above 0, got {sigma}")
    if figure is not None and figure.suffix not in (".png", ".pdf"):
        raise ArgumentError(f"expected --figure as a .png or .pdf file, got {figure}")
    if figure is not None:
        claim(figure, force)
    coded = "cascade" if asked["selector"] is None else "selected"
    c = configured(asked, sigma=1.0, norm=norms[0], method="fixed" if asked["codebook"] is None else coded)
    job = loaded(replace(c, max=None), partial(typer.echo, err=True))
    steps = 1 + len(norms) * len(sigmas or GRID) + len(COMPARED)
    with Bar(Console(stderr=True), "diagnosing", "steps", steps) as bar:
        diagnosis = look(
            job, devices_of(device)[0], inputs=c.max or 1, votes=votes, sigmas=sigmas, norms=norms,
            on_step=bar.advance,
        )  # fmt: skip
    if figure is not None:
        from anisocert.diagnosis.figure import write_figure

        figure.parent.mkdir(parents=True, exist_ok=True)
        write_figure(diagnosis, figure, force)
    if as_json:
        import json

        from anisocert.evaluate import EVERYONE

        typer.echo(json.dumps(diagnosis.to_dict() | {"protects": EVERYONE}, indent=2))
        return
    _print(diagnosis, len(job.ids))
    if figure is not None:
        Console().tell(f"picture: {figure}")


def _print(diagnosis: "Diagnosis", total: int) -> None:
    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.cli.progress import duration
    from anisocert.evaluate import EVERYONE, down, percent

    console = Console()
    table = Table(box=None, title=f"{diagnosis.inputs} inputs of {diagnosis.data}, {diagnosis.votes} noisy copies each")
    for name in ("", "norm", "noise", "accuracy", "certified", "abstain", "mean radius", "at best"):
        table.add_column(name, justify="left" if name in ("norm", "") else "right")
    r = diagnosis.recommendation
    for level in diagnosis.levels:
        table.add_row(
            ">" if r.useful and (level.sigma, level.norm) == (r.sigma, r.norm) else "", level.norm,
            f"{level.sigma:.3g}", f"{percent(level.accuracy, digits=0)}%", f"{percent(level.certified, digits=0)}%",
            f"{percent(level.abstained, True, digits=0)}%", down(level.mean_radius),
            down(level.farthest),
        )  # fmt: skip
    console.print(table)
    console.print(
        "accuracy: of single noisy copies; certified: answered correctly with a certificate of fixed noise, which is "
        f"{EVERYONE}; at best: the radius if all votes agree. All are estimates.\n"
    )
    for sentence in diagnosis.findings:
        console.print(f"- {sentence}")
    for cost in diagnosis.costs:
        console.print(
            f"- {cost.method}: {cost.evaluations:,} network evaluations per input, {duration(cost.seconds)} here; "
            f"{duration(cost.seconds * total)} for all {total:,} inputs",
        )  # fmt: skip
    if r.useful:
        console.tell(f"\n{r.command}")
    for remedy in diagnosis.remedies:
        console.print(f"\n{remedy.what}:")
        for command in remedy.commands:
            console.tell(command)
