"""What HTML pages are made of: templates, which escape and clean whatever they are given, and files of a package."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from anisocert.errors import from_extra
from anisocert.plain import plain

if TYPE_CHECKING:
    from jinja2 import Environment


def templates(package: str, extra: str) -> "Environment":
    """The templates of a package. extra: what to install where jinja2 is missing."""
    with from_extra(extra, "HTML pages need jinja2"):
        import jinja2
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=_finalized,
    )  # fmt: skip
    environment.policies["json.dumps_function"] = _dumped
    return environment


def _dumped(value: object, **options: Any) -> str:
    """JSON of what a page draws, in which a name could do the same as in its text."""
    return json.dumps(_cleaned(value), **options)


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {_finalized(name): _cleaned(inner) for name, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list | tuple) else _finalized(value)


def _finalized(value: object) -> object:
    """A value as it is put into a page: a name that reverses the direction of text would reorder what follows it."""
    return plain(value) if type(value) is str else value  # not markup, which is a page's own


@cache
def resource(package: str, name: str) -> str:
    """The text of a file in a package."""
    return files(package).joinpath(name).read_text("utf-8")


def source_hash(text: str) -> str:
    """A script or a style, as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
