"""The pages: at / for people who ask, at /docs for those who write clients. Nothing is loaded from elsewhere."""

import base64
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.responses import Response

from anisocert import __version__
from anisocert.evaluate import ADMITTED, OR_ABSTAINS, explained
from anisocert.memory import POLICIES, Stats
from anisocert.report.rendering import resource, source_hash, templates
from anisocert.service._openapi import openapi

if TYPE_CHECKING:
    from jinja2 import Environment

    from anisocert.service.service import Service

PACKAGE = "anisocert.service"


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
    raw = [base64.b64encode(point.tobytes()).decode() for point in x]
    return {"shape": list(x.shape[1:]), "labels": list(service.examples.labels), "x": raw}


def state_of(service: "Service", now: Stats) -> dict[str, Any]:
    """What an operator sees of the memory."""
    plan = service.system.plan
    names = ("entries", "notes", "classes", "submissions", "alphas", "lifetime", "numbers", "spent", "policy",
             "median_radius", "median_proxy_radius", "file_bytes", "index_bytes", "newest")  # fmt: skip
    state = {name: getattr(now, name) for name in names}
    return state | {"model_hash": service.version, "n": plan.n, "alpha": plan.alpha, "waiting": service.queue.waiting}


def _response(template: str, script: str, **values: Any) -> Response:
    code = resource(PACKAGE, script) if script else ""
    style = "".join(resource(package, "page.css") for package in ("anisocert.report", PACKAGE))
    policy = (
        f"default-src 'none'; script-src {source_hash(code) if script else repr('none')}; "
        f"style-src {source_hash(style)}; "
        "connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    shared = {"version": __version__, "style": style, "script": code}
    html = _environment().get_template(template).render(shared | values)
    return Response(html, media_type="text/html", headers={"Content-Security-Policy": policy})


@cache
def _environment() -> "Environment":
    return templates(PACKAGE, "serve")
