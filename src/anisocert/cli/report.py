"""`anisocert report`: runs, compared in a report."""

from pathlib import Path
from typing import Annotated

import typer

from anisocert.cli import options
from anisocert.errors import expect_one_of

EPILOG = "Example: anisocert report runs/demo/l2-fixed runs/demo/l2-anisotropic --out report.html"


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished runs.", exists=True, file_okay=False)],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The HTML file. Default: report.html in the run's folder; for several runs, in the current one.",
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write the paper's figures, PDF and PNG, into this folder.")
    ] = None,
    gallery: Annotated[int, typer.Option(min=0, help="How many inputs to show one by one.")] = 24,
    table: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Also print the tables: terminal, markdown, latex or csv.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="For --figures: the network, if not where the run says.")] = None,
    denoise: Annotated[
        str | None, typer.Option(help="For --figures: the run's denoiser, if not where the run says.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Compare runs in one HTML file that needs nothing else: a verdict in plain words, curves, tables, single inputs.

    Runs are grouped by data set and norm; within a group they are compared on the inputs that all of them have, before
    and after a memory where they went through one. Radii are rounded down wherever they are shown.
    """
    from dataclasses import replace

    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.durable import claim
    from anisocert.evaluate import NO_LABELS, render, tables_of, terminal
    from anisocert.evaluate.render import FORMATS
    from anisocert.report import page_file, write_report
    from anisocert.runs import StoredRun, read_run
    from anisocert.verify import memory_backing

    if table is not None:
        expect_one_of("--table", table, FORMATS)
    console = Console(stderr=table is not None)  # standard output is kept for what other programs read
    target = page_file(out or (runs[0] if len(runs) == 1 else Path()) / "report.html")
    claim(target, force)
    folders, stored = list(dict.fromkeys(runs)), list[StoredRun]()
    with Bar(Console(stderr=True), "report", "runs read and shown", 2 * len(folders)) as bar:
        for folder in folders:
            stored.append(read_run(folder))
            bar.advance()
        comparisons = write_report(stored, target, gallery, bar.advance)
    if table is not None:
        stdout, unbacked = Console(), [warning for run in stored if (warning := memory_backing(run))]
        for comparison in comparisons:
            also = unbacked if comparison.headline.before.labelled else [NO_LABELS, *unbacked]
            for drawn in (replace(drawn, caption=" ".join((drawn.caption, *also))) for drawn in tables_of(comparison)):
                if table == "terminal" and stdout.is_terminal:
                    stdout.print(terminal(drawn, stdout.width), "")
                else:
                    typer.echo(render(drawn, table))
    console.tell(f"report: {target}")
    if figures is not None:
        from anisocert.report.figures import write_figures

        for name in write_figures(comparisons, figures, model, force, denoise):
            console.tell(f"figure: {name}")
