"""User-supplied arguments, type-checked before any work: one sentence says what was expected, and what to write."""

import math
from typing import Any

import torch

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Network, Numerics
from anisocert.errors import ArgumentError
from anisocert.inputs import told
from anisocert.optimize import Method
from anisocert.smoothing import Smoothing

# How each class of ours is written; of any other class the name and (...) must do.
WRITTEN = {
    "Gaussian": "ac.Gaussian(0.25)", "Uniform": "ac.Uniform(0.5)",
    "GaussianMixture": "ac.GaussianMixture([0.3, 0.7], [0.2, 0.4])", "Fixed": "ac.Fixed()",
    "Isotropic": "ac.Isotropic()", "Anisotropic": "ac.Anisotropic()", "Average": "ac.Average(theta)",
    "Cascade": "ac.Cascade()", "Selected": "ac.Selected()", "TwoStep": "ac.TwoStep()",
    "Plan": "ac.Plan(n=100_000)", "Numerics": "ac.Numerics(precision='float32')",
}  # fmt: skip


def expect_kinds(
    *, smoothing: object, method: object = None, plan: object = None, numerics: object = None, on_votes: object = None
) -> None:
    """An error that names the remedy if an argument has the wrong type, such as a number for a noise."""
    for name, value, kind, usual, meant in (
        ("smoothing", smoothing, Smoothing, "Gaussian", _noise),
        ("method", method, Method | None, "Anisotropic", _method),
        ("plan", plan, Plan | None, "Plan", _plan),
        ("numerics", numerics, Numerics | None, "Numerics", _numerics),
    ):
        if not isinstance(value, kind):
            write = WRITTEN.get(value.__name__, f"{value.__name__}(...)") if isinstance(value, type) else meant(value)
            raise ArgumentError(f"expected {name} as in {name}={write or WRITTEN[usual]}, got {told(value)}")
    if on_votes is not None and not callable(on_votes):
        raise ArgumentError(f"expected on_votes as a function of a number of votes, got {told(on_votes)}")


def as_network(
    model: Classifier | Network,
    num_classes: int,
    device: torch.device | str | None,
    numerics: Numerics | None,
    model_id: str | None,
) -> Network:
    """The model as the engine runs it; a Network already has its own device, numerics and model_id."""
    if not isinstance(model, Network):
        return Network(model, num_classes, device, numerics, model_id)
    for name, value in (("device", device), ("numerics", numerics), ("model_id", model_id)):
        if value is not None:
            raise ArgumentError(f"expected no {name} beside a Network, which has its own, got {value!r}")
    return model


def _noise(value: Any) -> str | None:
    return f"ac.Gaussian({value!r})" if _is_number(value) and value > 0 else None


def _method(value: Any) -> str | None:
    return WRITTEN.get(value.title().replace("-", "")) if isinstance(value, str) else None


def _plan(value: Any) -> str | None:
    if _is_number(value) and 1 <= value < math.inf:
        return f"ac.Plan(n={int(value)})"
    if isinstance(value, dict) and all(isinstance(name, str) and name.isidentifier() for name in value):
        return f"ac.Plan({', '.join(f'{name}={told(setting)}' for name, setting in value.items())})"
    return None


def _numerics(value: Any) -> str | None:
    return f"ac.Numerics(precision={value!r})" if isinstance(value, str) and value in ("float32", "bfloat16") else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
