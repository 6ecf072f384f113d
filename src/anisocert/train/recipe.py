"""What every training recipe must say: its loss on a batch under noise."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from anisocert.smoothing import Smoothing


class Recipe(ABC):
    """A way to train a base classifier; a small frozen dataclass that holds its own options."""

    name: str

    @abstractmethod
    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """Mean loss of a batch. x: `b x *shape`; y: `b`."""
