"""HTML pages from templates. Whatever a template is given is escaped, so that no name in a run becomes markup."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from anisocert import __version__
from anisocert.errors import MissingExtraError
from anisocert.evaluate.table import WHOM, interval, text

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING_LOADED = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def fill(template: str, script: str = "", **values: Any) -> str:
    """The page that a template makes of some values. script: the file of the only script that may run in it."""
    code = _resource(script) if script else ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = NOTHING_LOADED + (f"; script-src 'sha256-{digest}'" if script else "")
    shared = {"version": __version__, "style": _resource("page.css"), "script": code, "policy": policy}
    return _environment().get_template(template).render(shared | values)


@cache
def _environment() -> "Environment":
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("HTML pages need jinja2: pip install 'anisocert[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("anisocert.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.globals |= {"text": text, "interval": interval, "WHOM": WHOM}
    return environment


def _resource(name: str) -> str:
    return files("anisocert.report").joinpath(name).read_text("utf-8")
