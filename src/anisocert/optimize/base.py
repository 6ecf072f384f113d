"""What every way to choose theta must say."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Network
from anisocert.smoothing import Smoothing


class Method(ABC):
    """Chooses the scale of the noise for each input, from noise that no later stage sees."""

    name: str

    @abstractmethod
    def choose(
        self, network: Network, x: Tensor, ids: Sequence[int], smoothing: Smoothing, plan: Plan, seed: int
    ) -> Tensor:
        """Theta of each input, float32. x: `b x *shape` -> `b x *shape`, or `b x 1 x ...` where isotropic."""
