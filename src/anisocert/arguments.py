"""User-supplied arguments, type-checked before any work."""

import torch

from anisocert.bounds import Plan
from anisocert.engine import Classifier, Network, Numerics
from anisocert.errors import ArgumentError
from anisocert.optimize import Method
from anisocert.smoothing import Smoothing


def expect_kinds(*, smoothing: object, method: object = None, plan: object = None) -> None:
    """An error that names the remedy if an argument has the wrong type, such as a number for a noise."""
    for name, value, kind, like in (
        ("smoothing", smoothing, Smoothing, "ac.Gaussian(0.25)"),
        ("method", method, Method | None, "ac.Anisotropic()"),
        ("plan", plan, Plan | None, "ac.Plan(n=100_000)"),
    ):
        if not isinstance(value, kind):
            raise ArgumentError(f"expected {name} as in {name}={like}, got {value!r}")


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
