"""`--config FILE.toml`: options from a file, under their command-line names; the command line wins.

A command takes it as one more parameter, `config: ConfigFile = None`. The file's values become the command's defaults,
so that they are converted and checked as if they had been typed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from anisocert.cli.options import TYPES
from anisocert.errors import ArgumentError
from anisocert.options import fits, plain, words


def _fill(context: typer.Context, file: Path | None) -> None:
    """Read the file before any other option is looked at."""
    if file is None or context.resilient_parsing:
        return
    from anisocert.inputs import read_toml

    try:
        context.default_map = {**(context.default_map or {}), **_defaults(context, file, read_toml(file))}
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error


ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", callback=_fill, is_eager=True, metavar="FILE", help="Options from a TOML file."),
]


def _defaults(context: typer.Context, file: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the command and their values. A table named after a command holds options of that command alone."""
    command, commands = context.command, getattr(context.parent and context.parent.command, "commands", {})
    own = content.get(str(context.info_name), {})
    if not isinstance(own, dict):
        raise ArgumentError(f"{file}: expected [{context.info_name}] as a table, got {own!r}")
    shared = {key: value for key, value in content.items() if key not in commands or not isinstance(value, dict)}
    names = {
        option.lstrip("-").replace("-", "_"): parameter.name
        for parameter in command.params
        if parameter.name != "config"
        for option in parameter.opts
    }
    types = get_type_hints(getattr(command.callback, "__wrapped__", command.callback))
    defaults: dict[str, Any] = {}
    for key, value in {**shared, **own}.items():
        name = names.get(key.replace("-", "_"))
        if name is None and isinstance(value, dict):
            raise ArgumentError(f"{file}: [{key}] is not a command{_nearest(key, commands)}")
        if name is None:
            raise ArgumentError(f"{file}: {key!r} is not an option of {context.command_path}{_nearest(key, names)}")
        if get_origin(plain(TYPES.get(name))) is tuple and isinstance(value, list) and fits(tuple(value), TYPES[name]):
            value = ",".join(map(str, value))  # as it would be typed
        if not fits(value, types[name]) or value == "":  # as a path, nothing is the current folder
            raise ArgumentError(f"{file}: expected {key} as {words(types[name])}, got {value!r}")
        for text in value if isinstance(value, list) else [value]:
            _refuse_function(file, key, text)
        defaults[name] = value
    return defaults


def _refuse_function(file: Path, key: str, value: object) -> None:
    """Code is executed only if the user typed its name, never because a file names it, in whatever option."""
    from anisocert.models.loading import is_function

    if isinstance(value, str) and is_function(value):
        how = value if key == "model" else f"--{key} {value}"
        raise ArgumentError(f"{file}: expected {key} as a file, got the function {value}: type it, as in {how}")


def _nearest(key: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("-", "_"), list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0].replace('_', '-')!r}?" if near else ""
