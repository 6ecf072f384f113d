"""`anisocert codebook`: the noises that a selector chooses from."""

from pathlib import Path
from typing import Annotated

import typer

from anisocert.cli import options
from anisocert.errors import ArgumentError

EPILOG = (
    "Example: anisocert codebook --scalars 0.5,0.25 --networks a.safetensors,b.safetensors --out codes.safetensors\n\n"
    "Then: anisocert certify codes.safetensors --method cascade --codebook codes.safetensors --data DATA --out RUN\n\n"
    "Without --networks: anisocert train --codebook FILE gives one network for all codes. With a selector: anisocert "
    "train --recipe selector --codebook FILE --classifier NETWORK, and anisocert certify NETWORK --method selected "
    "--codebook FILE --selector FILE."
)


def codebook(
    out: Annotated[Path, typer.Option(help="The file to write, .safetensors.", dir_okay=False)],
    sigma: Annotated[
        float | None, typer.Option(help="Noise under which a selector names a code. Default: the largest code.")
    ] = None,
    scalars: Annotated[str | None, typer.Option(help="Noise levels that are codes, as in 0.12,0.25,0.5.")] = None,
    of: Annotated[
        Path | None, typer.Option("--of", help="A finished run whose thetas give --shapes codes.", exists=True)
    ] = None,
    shapes: Annotated[int, typer.Option(help="How many codes from --of, by clusters of log theta.", min=1)] = 4,
    networks: Annotated[
        str | None,
        typer.Option(help="A network per code, in their order: 25.safetensors,50.safetensors. Kept in the file."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the clustering.", min=0)] = 0,
    force: options.Force = False,
) -> None:
    """Make a codebook: noise levels, shapes of noise that a run found for its inputs, or both.

    Take the run from training examples (`certify --split train`): codes must not be chosen with the inputs that they
    are measured on.
    """
    import numpy as np

    from anisocert.cli.console import Console
    from anisocert.durable import claim
    from anisocert.models import Codebook, load
    from anisocert.optimize.clusters import clustered
    from anisocert.runs import read_run

    levels = options.numbers("--scalars", scalars) or ()
    if not levels and of is None:
        raise ArgumentError("expected --scalars or --of, which give the codes, got neither")
    codes = [np.float32(level) for level in levels]
    if of is not None:
        run = read_run(of)
        thetas = [run.thetas[row["idx"]] for row in run.rows if row["prediction"] >= 0 and row["idx"] in run.thetas]
        if len({theta.shape for theta in thetas}) != 1:
            raise ArgumentError(f"expected certified inputs with thetas of one shape in {of}, got others")
        codes += list(clustered(thetas, shapes, seed))
    book = Codebook(np.stack(np.broadcast_arrays(*codes)), 1.0 if sigma is None else sigma)
    if sigma is None:
        book = Codebook(book.codes, book.cascade_sigma)
    loaded = [load(name.strip()) for name in networks.split(",")] if networks else []
    if foreign := [type(network).__name__ for network, _ in loaded if getattr(network, "architecture", None) is None]:
        raise ArgumentError(
            f"expected --networks of our architectures, whose weights a file can keep, got {foreign[0]}: in Python, "
            "ac.Coded takes any"
        )
    claim(out, force)
    book.save(out, loaded)
    console = Console()
    console.tell(f"{out}: {len(book)} codes; noise of {book.sigma:g} for a selector, if any")
    for k, code in enumerate(book.codes):
        mean = float(np.exp(np.log(code.astype(float)).mean()))
        extent = f"{mean:.4g}" if code.min() == code.max() else f"{code.min():.4g} to {code.max():.4g}, mean {mean:.4g}"
        own = (
            f"  {loaded[k][1]['architecture']}, trained with {loaded[k][1].get('sigma', 'unknown noise')}"
            if loaded
            else ""
        )
        console.tell(f"{k:>4}  {extent}{own}")
