"""`anisocert predict`: the smoothed classifier's answers over a data set, without regions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anisocert.cli.config import ConfigFile

if TYPE_CHECKING:
    from anisocert.engine import Network
    from anisocert.runs import Job

EPILOG = "Example: anisocert predict nets/cohen/best.safetensors --data digits --sigma 0.25 --n 1000 --out answers.csv"
EXAMPLES, NETWORK = "Which examples", "The network"
AT_ONCE = 64  # inputs a call: answers do not depend on it, and the progress bar moves
COLUMNS = ("id", "label", "answer")


def predict(
    model: Annotated[str, typer.Argument(help=".safetensors, .pt, .onnx, or package.module:function.")],
    data: Annotated[str, typer.Option(help="A name of `anisocert data list`, an .npz file or a folder of images.")],
    sigma: Annotated[float, typer.Option(help="Noise level: standard deviation, or with --norm l1 the half-width.")],
    norm: Annotated[str, typer.Option(help="l2: Gaussian noise; l1: uniform noise.")] = "l2",
    n: Annotated[int, typer.Option(help="Votes an input.")] = 100_000,
    alpha: Annotated[float, typer.Option(help="Probability with which an answer may be wrong.")] = 0.001,
    seed: Annotated[int, typer.Option(help="Of all noise.")] = 0,
    form: Annotated[
        str | None, typer.Option("--format", help="table, csv or json. Default: by the name of --out, else table.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv or .json file.", dir_okay=False)] = None,
    split: Annotated[str, typer.Option(help="test or train.", rich_help_panel=EXAMPLES)] = "test",
    skip: Annotated[int, typer.Option(help="Every k-th of them.", rich_help_panel=EXAMPLES)] = 1,
    most: Annotated[int | None, typer.Option("--max", help="How many.", rich_help_panel=EXAMPLES)] = None,
    ids: Annotated[str | None, typer.Option(help="Only these: 3,17,100-199.", rich_help_panel=EXAMPLES)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...", rich_help_panel=NETWORK)] = "auto",
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16. Default: what is fast here.", rich_help_panel=NETWORK)
    ] = None,
    compile: Annotated[
        bool | None, typer.Option(help="Use torch.compile. Default: where it pays.", rich_help_panel=NETWORK)
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Votes a network call. Default: as many as fit.", rich_help_panel=NETWORK)
    ] = None,
    num_classes: Annotated[
        int | None, typer.Option(help="Where the model does not tell.", rich_help_panel=NETWORK)
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="Whose checkpoint it is: cohen, salman or macer.", rich_help_panel=NETWORK)
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Of its inputs, as in 0.49,0.48,0.45.", rich_help_panel=NETWORK)
    ] = None,
    std: Annotated[str | None, typer.Option(help="As in 0.2,0.2,0.2.", rich_help_panel=NETWORK)] = None,
    denoise: Annotated[
        str | None,
        typer.Option(help="A denoiser to put in front of it: package.module:function.", rich_help_panel=NETWORK),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Answer examples of a data set with the smoothed classifier (Cohen et al. 2019, PREDICT); -1 where it abstains.

    An answer is the class that the noisy inputs get most often; with probability alpha at most it is not the smoothed
    classifier's. It comes without a region: `anisocert certify` gives those. Certificates are about the network in one
    precision, so answer in the precision that you certified in.
    """
    import warnings

    from rich.console import Console

    from anisocert.cli.certify import _numbers
    from anisocert.engine import Network, Numerics
    from anisocert.errors import ArgumentError
    from anisocert.runs import Configuration, load_job
    from anisocert.runs.workers import devices_of

    form = form or (out.suffix.removeprefix(".") if out is not None else "table")
    if form not in ("csv", "json") and not (form == "table" and out is None):
        raise ArgumentError(f"expected --format csv or json, or table without --out, got {form!r}")
    options: dict[str, Any] = {
        "model": model, "data": data, "sigma": sigma, "method": "fixed", "norm": norm, "n": n, "alpha": alpha,
        "seed": seed, "split": split, "skip": skip, "max": most, "ids": ids, "num_classes": num_classes,
        "layout": layout, "mean": _numbers("--mean", mean), "std": _numbers("--std", std),
        "denoise": denoise,
        "numerics": Numerics(precision, compile, rows),  # type: ignore[arg-type]  # it checks the name
    }  # fmt: skip
    job = load_job(Configuration(**options))
    assert job.configuration.num_classes is not None
    network = Network(job.model, job.configuration.num_classes, devices_of(device)[0], job.configuration.numerics)
    with warnings.catch_warnings():
        warnings.simplefilter("once")  # a plan that cannot answer says so for every batch
        answers = _answers(job, network)
    labels = job.examples.y.tolist()
    right = sum(answer == label for answer, label in zip(answers, labels, strict=True))
    summary = {
        "inputs": len(answers), "accuracy": right / len(answers), "abstention": answers.count(-1) / len(answers),
        "n": n, "alpha": alpha, "sigma": sigma, "norm": norm, "seed": seed, "model_hash": network.hash,
        "numerics": vars(network.numerics),
    }  # fmt: skip
    _write(list(zip(job.ids, labels, answers, strict=True)), summary, form, out)
    Console(stderr=form != "table" and out is None).print(
        f"{len(answers)} examples of {data}: {right / len(answers):.2%} answered correctly, "
        f"{answers.count(-1) / len(answers):.2%} abstained",
        soft_wrap=True, highlight=False, markup=False,
    )  # fmt: skip


def _answers(job: "Job", network: "Network") -> list[int]:
    """One answer an example, in order of id."""
    from rich.console import Console

    from anisocert.certification import predict as answer
    from anisocert.cli.progress import progress

    c, answers = job.configuration, list[int]()
    network.fit(job.examples.shape, len(job.ids) * c.n)
    with progress(Console(stderr=True), "predict", len(job.ids), "inputs") as advance:
        for first in range(0, len(job.ids), AT_ONCE):
            chunk = job.chunk(job.ids[first : first + AT_ONCE])
            found = answer(network, chunk.x, ids=chunk.ids, smoothing=c.smoothing(), plan=c.plan(), seed=c.seed)
            answers += found.tolist()
            advance(len(chunk.ids), "")
    return answers


def _write(rows: list[tuple[int, int, int]], summary: dict[str, Any], form: str, out: Path | None) -> None:
    import json

    if form == "table":
        from rich.console import Console
        from rich.table import Table

        table = Table(*COLUMNS, box=None)
        for row in rows:
            table.add_row(*("abstains" if value == -1 else str(value) for value in row))
        Console().print(table)
        return
    if form == "json":
        text = (
            json.dumps(summary | {"answers": [dict(zip(COLUMNS, row, strict=True)) for row in rows]}, indent=2) + "\n"
        )
    else:
        text = "".join(",".join(map(str, row)) + "\n" for row in (COLUMNS, *rows))
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text)
