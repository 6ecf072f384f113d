"""The commands, assembled. Each command imports what it needs when it runs, so that `--help` is quick."""

from typing import Annotated

import typer

from anisocert import __version__
from anisocert.cli import certify, data, demo, memory, train

app = typer.Typer(
    name="anisocert",
    help="Certify the largest region around an input in which a classifier's answer provably does not change.",
    epilog="Start with: anisocert demo    (--debug anywhere shows tracebacks)",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anisocert {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Certify the largest region around an input in which a classifier's answer provably does not change."""


app.command("demo", epilog="Example: anisocert demo --max 50 --n 1000 --out runs/quick")(demo.demo)
app.command("certify", epilog=certify.EPILOG)(certify.certify)
app.add_typer(data.app, name="data")
app.add_typer(memory.app, name="memory")
app.command("train", epilog="Example: anisocert train --data cifar10 --arch resnet18 --sigma 0.25 --out nets/cohen")(
    train.train
)
