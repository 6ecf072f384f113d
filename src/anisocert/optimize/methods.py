"""The methods by name, as a run's configuration asks for them. A new one is a file with a Method, and its line here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anisocert.optimize.anisotropic import Anisotropic, Prefer
from anisocert.optimize.average import Average
from anisocert.optimize.base import Method
from anisocert.optimize.cascade import Cascade
from anisocert.optimize.coded import CodedMethod, SelectingMethod
from anisocert.optimize.domain import Domain
from anisocert.optimize.fixed import Fixed
from anisocert.optimize.isotropic import Isotropic
from anisocert.optimize.published import PublishedAnisotropic, PublishedIsotropic
from anisocert.optimize.selected import Selected
from anisocert.optimize.soft import Outputs
from anisocert.optimize.two_step import TwoStep


@dataclass(frozen=True, eq=False)
class Settings:
    """What a configuration says to every method, of which each takes what concerns it; None: the method's default.

    theta: for all inputs, the mean of another run's; None until that run is read.
    """

    outputs: Outputs = "logits"
    limit: float | None = None
    iterations: int | None = None
    prefer: Prefer = "ball"
    domain: Domain | None = None
    theta: NDArray[np.float32] | None = None


def _published_isotropic(s: Settings) -> PublishedIsotropic:
    steps = {} if s.iterations is None else {"iterations": s.iterations}
    return PublishedIsotropic(outputs=s.outputs, **steps)


METHODS: Final[dict[str, Callable[[Settings], Method]]] = {
    "fixed": lambda _: Fixed(),
    "isotropic": lambda s: Isotropic(limit=s.limit),
    "anisotropic": lambda s: Anisotropic(s.prefer, s.domain, isotropic=Isotropic(limit=s.limit), outputs=s.outputs),
    "average": lambda s: Fixed() if s.theta is None else Average(s.theta),
    "cascade": lambda _: Cascade(),
    "selected": lambda _: Selected(),
    "two-step": lambda _: TwoStep(),
}
ROUND: Final = ("fixed", "isotropic")
"""Methods whose regions are balls, which are their own proxies."""
SAME_FOR_ALL: Final = ("fixed", "average")
"""One theta for all inputs."""
_EACH: Final = {name: make(Settings()) for name, make in METHODS.items()}
SELECTING: Final = tuple(name for name, method in _EACH.items() if isinstance(method, SelectingMethod))
"""A theta for each input, which a selector chooses from a codebook."""
CODED: Final = tuple(name for name, method in _EACH.items() if isinstance(method, CodedMethod))
"""A theta for each input, chosen from a codebook: the model is a `Coded`."""
FOR_EVERYONE: Final = (*SAME_FOR_ALL, *CODED)
"""One classifier answers all inputs: certificates bind without a memory."""
PUBLISHED: Final[dict[str, Callable[[Settings], Method]]] = {
    "isotropic": _published_isotropic,
    "anisotropic": lambda s: PublishedAnisotropic(isotropic=_published_isotropic(s), outputs=s.outputs),
}
