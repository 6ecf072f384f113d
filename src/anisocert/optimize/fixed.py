"""The same theta for every input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anisocert.bounds import Plan
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.optimize.base import Method
from anisocert.smoothing import Smoothing


@dataclass(frozen=True)
class Fixed(Method):
    """The smoothing's own theta, whatever the input (Cohen et al. 2019)."""

    name = "fixed"

    def choose(
        self, network: Network, x: Tensor, ids: Sequence[int], smoothing: Smoothing, plan: Plan, seed: int
    ) -> Tensor:
        """See Method."""
        theta, shape = smoothing.theta, tuple(x.shape[1:])
        if theta.ndim and theta.shape != shape:
            raise ArgumentError(
                f"expected the smoothing's parameter as a scalar or of shape {shape}, got {theta.shape}"
            )
        one = torch.from_numpy(np.array(theta)).to(x.device).reshape(shape if theta.ndim else (1,) * len(shape))
        return one.expand(len(x), *one.shape)
