"""Denoised smoothing: a network that never saw noise, behind a denoiser that removes it (Salman et al. 2020)."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

Function = nn.Module | Callable[[Tensor], Tensor]


class Denoised(nn.Module):
    """`network(denoiser(x))`. The denoiser takes and returns inputs in the data's own units, `b x *shape`.

    The denoiser's settings (numbers, texts and tuples among its attributes) are a buffer, so that the hash of the whole
    tells a filter of width 3 from one of width 5 although neither has weights.
    """

    settings: Tensor

    def __init__(self, network: nn.Module, denoiser: nn.Module) -> None:
        super().__init__()
        self.denoiser, self.network = denoiser, network
        digest = hashlib.sha256(_settings(denoiser).encode()).digest()
        self.register_buffer("settings", torch.frombuffer(bytearray(digest), dtype=torch.uint8))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`."""
        scores: Tensor = self.network(self.denoiser(x))
        return scores


def denoised(model: Function, denoiser: Function) -> Function:
    """The model behind a denoiser, which is certified as one classifier.

    Two modules make a module in evaluation mode, whose hash covers the weights of both. A bare callable among them
    makes a bare callable, which has no weights to hash: certify it with a model_id that names both.
    """
    if isinstance(model, nn.Module) and isinstance(denoiser, nn.Module):
        return Denoised(model, denoiser).eval()
    return lambda x: model(denoiser(x))


def _settings(module: nn.Module) -> str:
    parts = []
    for name, one in module.named_modules():
        plain = {
            key: value
            for key, value in vars(one).items()
            if isinstance(value, bool | int | float | str | tuple) and key != "training"
        }
        parts.append(f"{name} {type(one).__module__}.{type(one).__qualname__} {sorted(plain.items())!r}")
    return "\n".join(parts)
