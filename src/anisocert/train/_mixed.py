"""A network as training runs it: mixed precision, channels-last, compiled on request."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from anisocert.engine import Classifier
from anisocert.engine.launching import compiled_if_works
from anisocert.engine.numerics import Precision
from anisocert.engine.told import is_told


class Mixed(nn.Module):
    """`network` with float32 scores whatever it computes in. Weights, and so the optimiser, stay float32."""

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        super().__init__()
        self.network, self.precision = network, precision
        self._run: tuple[Classifier] = (network,)  # in a tuple: not a submodule of its own
        self._beside = dict[tuple[nn.Module, Classifier], Mixed]()  # by network, and how this one was run

    @property
    def told_theta(self) -> bool:
        """Whether the network is told theta."""
        return is_told(self.network)

    @property
    def compiled(self) -> bool:
        """Whether what runs was compiled."""
        return self._run[0] is not self.network

    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x` in float32."""
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            scores = self._run[0](x)
        return scores.float()

    def beside(self, network: nn.Module) -> "Mixed":
        """Another network, which stays as it is, run as this one is."""
        key = network, self._run[0]
        if key not in self._beside:  # once, not in every step: a fresh wrapper compiles, or looks for what was, anew
            wrapper = self._beside[key] = Mixed(network, self.precision)
            if self.compiled:
                wrapper._run = (torch.compile(network, dynamic=False),)
        return self._beside[key]

    def compile_network(self, try_on: Callable[[], Tensor]) -> None:
        """Compile, and check by `try_on`, a loss that is thrown away, that it works.

        If it fails, the plain network, which is the same function, stays.
        """
        weights = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

        def try_out(run: Classifier) -> None:
            self._run = (run,)
            try_on().backward()

        try:
            self._run = (compiled_if_works(self.network, try_out),)
        finally:
            self.network.load_state_dict(weights)
            self.network.zero_grad(set_to_none=True)
