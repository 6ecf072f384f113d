"""Denoised smoothing: a network that never saw noise, behind a denoiser that removes it (Salman et al. 2020)."""

from collections.abc import Callable

from torch import Tensor, nn

from anisocert.engine.told import is_told
from anisocert.errors import ArgumentError

Function = nn.Module | Callable[[Tensor], Tensor]


class Denoised(nn.Module):
    """`network(denoiser(x))`. The denoiser takes and returns inputs in the data's own units, `b x *shape`.

    A denoiser that is told theta (see `engine.told`) takes `b x 2 x *shape`, and so do the two together.
    """

    def __init__(self, network: nn.Module, denoiser: nn.Module) -> None:
        super().__init__()
        _expect_untold(network)
        self.training = False  # the mode is that of its parts, which are the caller's
        self.denoiser, self.network = denoiser, network

    @property
    def told_theta(self) -> bool:
        """Whether the denoiser is told theta."""
        return is_told(self.denoiser)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`."""
        scores: Tensor = self.network(self.denoiser(x))
        return scores


def denoised(model: Function, denoiser: Function) -> Function:
    """The model behind a denoiser, which is certified as one classifier.

    Two modules make a module, in the mode of each, whose hash covers both, weights and code. A bare callable among them
    makes a bare callable, which is not read for a hash: certify it with a model_id that names both.
    """
    if isinstance(model, nn.Module) and isinstance(denoiser, nn.Module):
        return Denoised(model, denoiser)
    _expect_untold(model)

    def both(x: Tensor) -> Tensor:
        return model(denoiser(x))

    both.told_theta = is_told(denoiser)  # type: ignore[attr-defined]
    return both


def _expect_untold(network: Function) -> None:
    if is_told(network):
        raise ArgumentError("expected a network that is not told theta behind a denoiser, got one that is")
