"""`anisocert keys`: who may ask a service, and what."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Keys for `anisocert serve`: add, list, remove. Files hold hashes alone.")
File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of keys.")]


@app.command("add", epilog="Example: anisocert keys add keys.json --name alice --rights lookup,admit")
def add(
    file: File,
    name: Annotated[str, typer.Option(help="Whose it is, as logs name it.")],
    rights: Annotated[
        str, typer.Option(help="Of lookup, admit, plan (fewer votes), regions (of others' promises), operate.")
    ] = "lookup,admit",
    per_minute: Annotated[int, typer.Option(help="Inputs it may send per minute.", min=1)] = 600,
    most_bytes: Annotated[int, typer.Option(help="Bytes of one request.", min=1)] = 16 << 20,
) -> None:
    """Add a key to a file, which is created if it does not exist, and print the key: it is stored nowhere."""
    from anisocert.service import add_key

    wanted = tuple(right.strip() for right in rights.split(","))
    typer.echo(add_key(file, name, rights=wanted, per_minute=per_minute, most_bytes=most_bytes))


@app.command("list", epilog="Example: anisocert keys list keys.json")
def list_(file: File) -> None:
    """List the keys of a file: names, rights and limits."""
    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.service import KeyFile

    table = Table("name", "rights", "inputs per minute", "bytes per request", box=None)
    for key in KeyFile(file).keys():  # noqa: SIM118  # not a dictionary
        table.add_row(key.name, ", ".join(key.rights), str(key.per_minute), str(key.most_bytes))
    Console().print(table)


@app.command("remove", epilog="Example: anisocert keys remove keys.json alice")
def remove(file: File, name: Annotated[str, typer.Argument(help="Whose key.")]) -> None:
    """Remove a key; a running service refuses it from then on."""
    from anisocert.service import remove_key

    remove_key(file, name)
