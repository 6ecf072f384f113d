"""A network that is told theta: beside each noisy input it takes the scale of that input's noise, value by value.

Such a network has an attribute `told_theta` that is true, and takes `b x 2 x *shape`: the noisy inputs first, then the
scales. For one certificate theta is fixed, so that f(., theta) is one function of the noisy input, and what is
certified is that function, smoothed with that very theta. A certificate would be about nobody's classifier if votes,
a prediction or a recount told it another theta than the noise has. So noise and scales come from one place: whoever
counts votes draws them by `ToldNoise`, from the scales that the noise itself is drawn with.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.engine.given import Classifier
from anisocert.engine.noise import NoiseSource, sent, span
from anisocert.engine.streams import Stream
from anisocert.engine.wrapped import within
from anisocert.errors import ArgumentError


def is_told(model: object) -> bool:
    """Whether a model, or one that it only calls, is told theta."""
    inner = within(model) if isinstance(model, nn.Module) else None
    return bool(getattr(model, "told_theta", False)) or (inner is not None and is_told(inner))


def beside(noisy: Tensor, scale: Tensor | float, place: Tensor | None = None) -> Tensor:
    """Inputs and the scale of their noise, as a network that is told theta takes them.

    noisy: `b x *shape`; scale: broadcastable to it -> `b x 2 x *shape`. place: memory for that.
    """
    scale = scale if isinstance(scale, Tensor) else torch.full_like(noisy[:1], scale)
    return torch.stack([noisy, scale.expand_as(noisy)], 1, out=place)


def under(scale: Tensor | float, model: Classifier) -> Callable[[Tensor], Tensor]:
    """The model as a function of inputs alone: one that is told theta is told this scale for all of them."""
    return (lambda x: model(beside(x, scale))) if is_told(model) else model


def expect_one_level(weights: Sequence[float]) -> None:
    """An error unless each value's noise has one scale, which a network can be told."""
    if len(weights) > 1:
        raise ArgumentError(
            f"expected a noise of one component for a network that is told theta, got {len(weights)} components, of "
            "which no single theta could be told: use Gaussian noise, or a network that is not told"
        )


class ToldNoise:
    """A noise source whose rows are what a network that is told theta takes: `rows x 2 x *shape`."""

    def __init__(self, source: NoiseSource, slots: int, shape: tuple[int, ...], device: torch.device) -> None:
        self.source = source
        # positive also where padding comes before any input
        self.scales = torch.ones(slots, *shape, dtype=torch.float32, device=device)

    @property
    def unsettled(self) -> Tensor | None:
        """See NoiseSource."""
        return self.source.unsettled

    def open(self, slots: Sequence[int], streams: Sequence[Stream], x: Tensor, scales: Tensor) -> None:
        """See NoiseSource."""
        self.source.open(slots, streams, x, scales)
        self.scales[span(slots)] = scales[:, 0].to(self.scales).expand_as(x)

    def noisy(self, slot: np.ndarray, vote: np.ndarray, place: Tensor | None = None) -> Tensor:
        """See NoiseSource."""
        scales = self.scales[sent(slot, self.scales.device)]  # of padding, in slot -1, any will do
        return beside(self.source.noisy(slot, vote), scales, place)

    def settle(self, noisy: Tensor, rows: np.ndarray, slot: np.ndarray, vote: np.ndarray) -> None:
        """See NoiseSource."""
        self.source.settle(noisy[:, 0], rows, slot, vote)
