"""`anisocert predict`: the smoothed classifier's answers over a data set, without regions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anisocert.cli import keeping, options
from anisocert.cli.config import ConfigFile
from anisocert.errors import ArgumentError
from anisocert.options import option

if TYPE_CHECKING:
    from anisocert.engine import Network
    from anisocert.work import Job

EPILOG = "Example: anisocert predict nets/cohen/last.safetensors --data cifar10 --sigma 0.25 --n 1000 --out answers.csv"
AT_ONCE = 64  # inputs per call: answers do not depend on it, and the progress bar moves
COLUMNS = ("id", "label", "answer")


@options.takes(
    "model", "data", "sigma", "norm", "seed", "split", "skip", "max", "ids", "num_classes", "layout", "mean", "std",
    "denoise", "model_id", *options.COMPUTING,
    codebook=option(None, "Answer as the cascade of these codes does: a file of `codebook`."),
    n=option(100_000, "Votes per input."),
    alpha=option(0.001, "Probability with which an answer may be wrong."),
)  # fmt: skip
@keeping("no answer is kept; the same command begins anew, and is done sooner with a smaller --max or --n")
def predict(
    asked: options.Asked,
    form: Annotated[
        str | None, typer.Option("--format", help="table, csv or json. Default: by the name of --out, else table.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv or .json file.", dir_okay=False)] = None,
    device: options.Device = "auto",
    force: options.Force = False,
    config: ConfigFile = None,
) -> None:
    """Answer examples of a data set with the smoothed classifier (Cohen et al. 2019, PREDICT); -1 where it abstains.

    An answer is the class that the noisy inputs get most often, with --codebook the cascade's; with probability at
    most alpha it is not the smoothed classifier's. It comes without a region: `anisocert certify` gives those.
    Certificates are about the network in one precision and on one grid, so answer with those that you certified with.
    """
    import warnings
    from functools import partial

    from anisocert import __version__
    from anisocert.certificate import ABSTAIN
    from anisocert.cli.configuring import configured, loaded
    from anisocert.cli.console import Console
    from anisocert.data.dataset import UNLABELLED
    from anisocert.durable import claim
    from anisocert.engine.devices import devices_of
    from anisocert.evaluate import percent
    from anisocert.work.doubts import warn_of_doubts

    form = form or (out.suffix.removeprefix(".") if out is not None else "table")
    if form not in ("csv", "json") and not (form == "table" and out is None):
        raise ArgumentError(f"expected --format csv or json, or table without --out, got {form!r}")
    if out is not None:
        claim(out, force)
    tell = partial(typer.echo, err=True)
    asked |= {"method": "fixed" if asked["codebook"] is None else "cascade"}
    job = loaded(configured(asked, tell), tell)
    c = job.configuration
    warn_of_doubts(c, job.model, job.metadata)
    network = c.network(job.model, devices_of(device)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("once")  # a plan that cannot answer warns for every batch
        answers = _answers(job, network)
    labels = job.examples.y.tolist()
    right = sum(answer == label != UNLABELLED for answer, label in zip(answers, labels, strict=True))
    accuracy = right / len(answers) if job.examples.labelled else None
    summary = {
        "made_by": f"anisocert {__version__}", "inputs": len(answers), "accuracy": accuracy,
        "abstention": answers.count(ABSTAIN) / len(answers),
        "method": c.method, "n": c.n, "alpha": c.alpha, "sigma": c.sigma, "norm": c.norm, "seed": c.seed,
        "model_hash": network.hash, "numerics": vars(network.numerics),
    }  # fmt: skip
    _write(list(zip(job.ids, labels, answers, strict=True)), summary, form, out, job.examples.names)
    Console(stderr=form != "table" and out is None).tell(
        f"{len(answers)} examples of {c.data}: "
        f"{'' if accuracy is None else f'{percent(accuracy, digits=2)}% answered correctly, '}"
        f"{percent(answers.count(ABSTAIN) / len(answers), True, digits=2)}% abstained"
    )


def _answers(job: "Job", network: "Network") -> list[int]:
    """One answer per example, in order of id."""
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.optimize import Cascade
    from anisocert.prediction import predict as answer

    c, answers = job.configuration, list[int]()
    method = Cascade() if c.codebook is not None else None
    network.fit(job.examples.shape, len(job.ids) * c.n)
    with Bar(Console(stderr=True), "predict", "inputs", len(job.ids)) as bar:
        network.on_rows = lambda rows, _: bar.advance(rows / c.n)
        for first in range(0, len(job.ids), AT_ONCE):
            chunk = job.chunk(job.ids[first : first + AT_ONCE])
            chunk_answers = answer(
                network, chunk.x, ids=chunk.ids, smoothing=c.smoothing(), method=method, plan=c.plan(), seed=c.seed
            )
            answers += chunk_answers.tolist()
            bar.reach(len(answers))
    return answers


def _write(
    rows: list[tuple[int, int, int]], summary: dict[str, Any], form: str, out: Path | None, names: tuple[str, ...]
) -> None:
    import csv
    import io
    import json

    from anisocert.durable import write_whole

    if form == "table":
        from rich.table import Table

        from anisocert.certificate import ABSTAIN
        from anisocert.cli.console import Console
        from anisocert.data.dataset import UNLABELLED

        table = Table("file" if names else "id", *COLUMNS[1:], box=None)
        for place, (number, label, answer) in enumerate(rows):
            which = names[place] if names else str(number)
            table.add_row(
                which, "" if label == UNLABELLED else str(label), "abstains" if answer == ABSTAIN else str(answer)
            )
        Console().print(table)
        return
    if form == "json":
        files = [{"file": name} for name in names] or [{}] * len(rows)
        answers = [dict(zip(COLUMNS, row, strict=True)) | file for row, file in zip(rows, files, strict=True)]
        text = json.dumps(summary | {"answers": answers}, indent=2) + "\n"
    else:
        lines: list[tuple[Any, ...]] = [COLUMNS, *rows]
        if names:
            lines = [(*line, file) for line, file in zip(lines, ("file", *names), strict=True)]
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows(lines)
        text = written.getvalue()
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, lambda part: part.write_text(text, "utf-8"))
