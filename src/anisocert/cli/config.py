"""`--config FILE.toml`: options from a file, under their names on the command line, which wins.

A command takes it by one more parameter, `config: ConfigFile = None`. The file's values become the command's defaults,
so that they are converted and checked as if they had been typed.
"""

from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def _fill(context: typer.Context, file: Path | None) -> None:
    """Read the file before any other option is looked at."""
    if file is None or context.resilient_parsing:
        return
    import tomllib

    if file.exists() and not (file.is_file() or file.is_dir()):
        raise typer.BadParameter(f"{file} is no regular file")
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{file} is not TOML: {error}") from error
    context.default_map = {**(context.default_map or {}), **_defaults(context, file, said)}


ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", callback=_fill, is_eager=True, metavar="FILE", help="Options from a TOML file."),
]


def _defaults(context: typer.Context, file: Path, said: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the command and their values. A table named after a command holds options of that command alone."""
    command, commands = context.command, getattr(context.parent and context.parent.command, "commands", {})
    own = said.get(str(context.info_name), {})
    if not isinstance(own, dict):
        raise typer.BadParameter(f"{file}: expected [{context.info_name}] as a table, got {own!r}")
    shared = {key: value for key, value in said.items() if key not in commands or not isinstance(value, dict)}
    names = {
        option.lstrip("-").replace("-", "_"): parameter.name
        for parameter in command.params
        if parameter.name != "config"
        for option in parameter.opts
    }
    types = get_type_hints(getattr(command.callback, "__wrapped__", command.callback))
    found: dict[str, Any] = {}
    for key, value in {**shared, **own}.items():
        name = names.get(key.replace("-", "_"))
        if name is None and isinstance(value, dict):
            raise typer.BadParameter(f"{file}: [{key}] is no command{_nearest(key, commands)}")
        if name is None:
            raise typer.BadParameter(f"{file}: {key!r} is no option of {context.command_path}{_nearest(key, names)}")
        if not _fits(value, types[name]):
            raise typer.BadParameter(f"{file}: expected {key} as {_kind(types[name])}, got {value!r}")
        if name in ("model", "denoise"):
            _refuse_function(file, key, value)
        found[name] = value
    return found


def _refuse_function(file: Path, key: str, value: str) -> None:
    """Code is executed where somebody typed its name, and not because a file came along that names it."""
    from anisocert.models.loading import is_function

    if is_function(value):
        how = value if key == "model" else f"--{key} {value}"
        raise typer.BadParameter(f"{file}: expected {key} as a file, got the function {value}: type it, as in {how}")


def _nearest(key: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("-", "_"), list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0].replace('_', '-')!r}?" if near else ""


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a TOML value is of an option's type, as a reader of the file would see it: "7" is no number."""
    if get_origin(wanted) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(wanted) if one is not NoneType)
    if get_origin(wanted) is list:
        return isinstance(value, list) and all(_fits(one, get_args(wanted)[0]) for one in value)
    if wanted is bool or isinstance(value, bool):
        return wanted is bool and isinstance(value, bool)
    if wanted is float:
        return isinstance(value, int | float)
    return isinstance(value, int) if wanted is int else isinstance(value, str) and "\0" not in value


def _kind(wanted: Any) -> str:
    inner = [one for one in get_args(wanted) if one is not NoneType]
    if get_origin(wanted) is list:
        return f"a list, each {_kind(inner[0])}"
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(_kind(one) for one in inner)
    return KINDS.get(wanted, "a text")
