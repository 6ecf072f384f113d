"""Certified robustness by randomized smoothing: regions in which a smoothed classifier's answer does not change.

Public names are loaded when first used, so that importing the package (and `anisocert --help`) costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from anisocert import bounds, geometry
    from anisocert.bounds import Plan
    from anisocert.certificate import Certificate
    from anisocert.certification import certify
    from anisocert.engine import Network, Numerics
    from anisocert.errors import AnisocertError
    from anisocert.evaluate import evaluate
    from anisocert.geometry import Region
    from anisocert.memory import Memory
    from anisocert.models import Codebook, Coded
    from anisocert.optimize import Anisotropic, Average, Cascade, Fixed, Isotropic, Selected, TwoStep
    from anisocert.prediction import predict
    from anisocert.report import report
    from anisocert.smoothing import Gaussian, GaussianMixture, Uniform
    from anisocert.system import System

_HOME = {
    "AnisocertError": "errors",
    "Certificate": "certificate",
    "Anisotropic": "optimize",
    "Average": "optimize",
    "Cascade": "optimize",
    "Codebook": "models",
    "Coded": "models",
    "Isotropic": "optimize",
    "Fixed": "optimize",
    "Gaussian": "smoothing",
    "GaussianMixture": "smoothing",
    "Memory": "memory",
    "Network": "engine",
    "Numerics": "engine",
    "Plan": "bounds",
    "Region": "geometry",
    "Selected": "optimize",
    "System": "system",
    "TwoStep": "optimize",
    "Uniform": "smoothing",
    "certify": "certification",
    "predict": "prediction",
}
_ROOMS = ("bounds", "evaluate", "geometry", "report")  # two of them are functions too

__all__ = [
    "AnisocertError", "Anisotropic", "Average", "Cascade", "Certificate", "Codebook", "Coded", "Fixed", "Gaussian",
    "GaussianMixture", "Isotropic", "Memory", "Network", "Numerics", "Plan", "Region", "Selected", "System", "TwoStep",
    "Uniform", "bounds", "certify", "evaluate", "geometry", "predict", "report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"anisocert.{name}")
    if name in _HOME:
        value = getattr(import_module(f"anisocert.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'anisocert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
