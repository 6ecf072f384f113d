"""The pages: at / for people who ask, at /docs for those who write clients. Nothing is loaded from elsewhere."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.responses import Response

from anisocert import __version__
from anisocert.errors import MissingExtraError
from anisocert.evaluate import ADMITTED, OR_ABSTAINS, explained
from anisocert.memory import POLICIES, Stats
from anisocert.service._openapi import openapi

if TYPE_CHECKING:
    from jinja2 import Environment

    from anisocert.service.service import Service


def front_page(service: "Service") -> Response:
    """The page at /. It holds nothing that a key protects: its script asks for that with the key that is typed in."""
    keeps = POLICIES[service.system.memory.policy].inherits
    config = {
        "name": service.name, "shape": list(service.shape),
        "domain": service.rules.domain or (0.0, 1.0), "classes": list(service.names.classes),
        "norm": service.system.smoothing.norm,
    }  # fmt: skip
    return _response(
        "page.html", "page.js", title=f"{service.name}: answers with certificates", config=config,
        protects=explained([ADMITTED if keeps else OR_ABSTAINS]), version_hash=service.version[:12],
    )  # fmt: skip


def docs_page(service: "Service") -> Response:
    """The OpenAPI description as a page."""
    return _response("docs.html", "", title="The protocol", api=openapi(service.name))


def examples_of(service: "Service") -> dict[str, Any]:
    """Inputs for the page, as float32 in base64."""
    if service.examples is None:
        return {"shape": None, "labels": [], "x": []}
    x = np.ascontiguousarray(service.examples.x, "<f4")
    raw = [base64.b64encode(one.tobytes()).decode() for one in x]
    return {"shape": list(x.shape[1:]), "labels": list(service.examples.labels), "x": raw}


def state_of(service: "Service", now: Stats) -> dict[str, Any]:
    """What an operator sees of the memory."""
    plan = service.system.plan
    names = ("entries", "notes", "classes", "submissions", "alphas", "lifetime", "numbers", "spent", "policy",
             "median_radius", "median_proxy_radius", "file_bytes", "index_bytes", "newest")  # fmt: skip
    state = {name: getattr(now, name) for name in names}
    return state | {"model_hash": service.version, "n": plan.n, "alpha": plan.alpha, "waiting": service.queue.waiting}


def _response(template: str, script: str, **values: Any) -> Response:
    code, style = _resource("anisocert.service", script) if script else "", _resource("anisocert.report", "page.css")
    style += _resource("anisocert.service", "page.css")
    policy = (
        f"default-src 'none'; script-src {_hash(code) if script else repr('none')}; style-src {_hash(style)}; "
        "connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    shared = {"version": __version__, "style": style, "script": code}
    html = _environment().get_template(template).render(shared | values)
    return Response(html, media_type="text/html", headers={"Content-Security-Policy": policy})


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _resource(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text("utf-8")


@cache
def _environment() -> "Environment":
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("the service's pages need jinja2: pip install 'anisocert[serve]'") from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("anisocert.service"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
