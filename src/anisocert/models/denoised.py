"""Denoised smoothing: a network that never saw noise, behind a denoiser that removes it (Salman et al. 2020)."""

from collections.abc import Callable

from torch import Tensor, nn

Function = nn.Module | Callable[[Tensor], Tensor]


class Denoised(nn.Module):
    """`network(denoiser(x))`. The denoiser takes and returns inputs in the data's own units, `b x *shape`."""

    def __init__(self, network: nn.Module, denoiser: nn.Module) -> None:
        super().__init__()
        self.training = network.training or denoiser.training
        self.denoiser, self.network = denoiser, network

    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`."""
        scores: Tensor = self.network(self.denoiser(x))
        return scores


def denoised(model: Function, denoiser: Function) -> Function:
    """The model behind a denoiser, which is certified as one classifier.

    Two modules make a module in evaluation mode, whose hash covers both, weights and code. A bare callable among them
    makes a bare callable, which is not read for a hash: certify it with a model_id that names both.
    """
    if isinstance(model, nn.Module) and isinstance(denoiser, nn.Module):
        return Denoised(model, denoiser).eval()
    return lambda x: model(denoiser(x))
