"""`anisocert import` and `anisocert export`: runs from and to the field's tab-separated files."""

from pathlib import Path
from typing import Annotated

import typer

from anisocert.cli import options

IMPORT_EPILOG = (
    "Example: anisocert import noise_0.25/test/sigma_0.25 --norm l2 --method fixed --sigma 0.25 --out runs/cohen-0.25"
)
EXPORT_EPILOG = "Example: anisocert export runs/a --format ancer --out a.tsv"


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Results as TSV.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder of the run that is made.")],
    sigma: Annotated[float | None, typer.Option(help="Noise level of the training, if you know it.")] = None,
    norm: Annotated[str | None, typer.Option(help="Norm of the radii: l2 or l1. Default: what the file says.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="fixed (one noise for all inputs: only then do radii hold for everyone), isotropic or anisotropic. "
            "Default: what the file says, or its layout."
        ),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Probability that a certificate is wrong.")] = None,
    n: Annotated[int | None, typer.Option(help="Votes per input.")] = None,
    data: Annotated[str | None, typer.Option(help="Name of the data set.")] = None,
    force: options.Force = False,
) -> None:
    """Make a run from a file in the layout of Cohen et al. (2019), data-dependent smoothing or ANCER.

    Reports and comparisons treat it like any other run. Files may be incomplete; a truncated last line is skipped.
    Radii are taken as they are, and the published scripts round to the nearest: about half are a little too large.
    `anisocert verify` can check only that the run's files are unchanged, as there are no votes to recompute from.
    """
    from anisocert.evaluate.exchange import import_tsv

    imported = import_tsv(file, out, sigma=sigma, norm=norm, method=method, alpha=alpha, n=n, data=data, force=force)
    cut = "; the last line was truncated and is left out" if imported.cut else ""
    typer.echo(f"{len(imported.lines)} results of {file} (layout {imported.format}) are now the run {out}{cut}")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.", exists=True, file_okay=False)],
    out: Annotated[Path, typer.Option(help="The file to write.", dir_okay=False)],
    layout: Annotated[str, typer.Option("--format", help="cohen, ddrs (one sigma per input) or ancer.")] = "cohen",
    after_memory: Annotated[
        bool, typer.Option("--after-memory", help="What the memory answered and promised, not what was proposed.")
    ] = False,
    digits: Annotated[
        int | None,
        typer.Option(help="Significant digits of radii, which are rounded down. Default: all.", min=1, max=17),
    ] = None,
    force: options.Force = False,
) -> None:
    """Write a run's results as TSV, for scripts of the field. Abstentions are -1, 0.0, 0.

    Norm and method are columns after those of the layout, so that `anisocert import` knows what the radii are of.
    """
    from anisocert.durable import claim
    from anisocert.evaluate import results_of
    from anisocert.evaluate.exchange import export_run
    from anisocert.runs import read_run
    from anisocert.verify import memory_backing

    claim(out, force)
    stored = read_run(run)
    count = export_run(stored, out, layout, after_memory, digits)  # type: ignore[arg-type]  # it checks the name
    if after_memory and (unbacked := memory_backing(stored)):
        typer.echo(f"warning: {unbacked}", err=True)
    whose = results_of(stored, memory=after_memory).protects
    typer.echo(f"{count} results {'after' if after_memory else 'before'} the memory in {out}: {whose}")
