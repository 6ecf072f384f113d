"""The commands, assembled. Each command imports what it needs when it runs, so that `--help` is quick."""

from importlib import import_module
from typing import Annotated

import typer

from anisocert import __version__
from anisocert.cli import data, keys, memory, tsv

# In the order of the help. Each is a function in a module of its name, with an EPILOG that shows it in use.
COMMANDS = (
    "demo", "diagnose", "certify", "predict", "train", "codebook", "quantize", "verify", "attack", "show", "report",
    "serve", "reproduce",
)  # fmt: skip

app = typer.Typer(
    name="anisocert",
    help="Certify large regions around inputs in which a smoothed classifier's answer does not change.",
    epilog="Start with: anisocert demo    (--debug anywhere shows tracebacks)\n\n"
    "Exit codes: 0 done; 1 an error, or verify, attack or memory check found something wrong; 2 wrong usage; 3 stopped "
    "before the end, by --time-budget or Ctrl-C: the same command resumes, or begins anew; or verify could not "
    "recompute everything.",
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
    """Certify large regions around inputs in which a smoothed classifier's answer does not change."""


for name in COMMANDS:
    module = import_module(f"anisocert.cli.{name}")
    app.command(name, epilog=module.EPILOG)(getattr(module, name))
app.add_typer(data.app, name="data")
app.add_typer(memory.app, name="memory")
app.add_typer(keys.app, name="keys")
app.command("import", epilog=tsv.IMPORT_EPILOG)(tsv.import_)
app.command("export", epilog=tsv.EXPORT_EPILOG)(tsv.export)
