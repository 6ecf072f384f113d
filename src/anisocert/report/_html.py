"""HTML pages from templates. Whatever a template is given is escaped, so that no name in a run becomes markup."""

from functools import cache
from typing import TYPE_CHECKING, Any

from anisocert import __version__
from anisocert.evaluate.table import WHOM, interval, text
from anisocert.report.rendering import resource, source_hash, templates

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "anisocert.report"
NOTHING_LOADED = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def fill(template: str, script: str = "", **values: Any) -> str:
    """The page that a template makes of some values. script: the file of the only script that may run in it."""
    code = resource(PACKAGE, script) if script else ""
    policy = NOTHING_LOADED + (f"; script-src {source_hash(code)}" if script else "")
    shared = {"version": __version__, "style": resource(PACKAGE, "page.css"), "script": code, "policy": policy}
    return _environment().get_template(template).render(shared | values)


@cache
def _environment() -> "Environment":
    environment = templates(PACKAGE, "report")
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.globals |= {"text": text, "interval": interval, "WHOM": WHOM}
    return environment
