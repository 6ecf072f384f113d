"""Whether a network says itself what its gradients are: a graph of it has the operators of its forward pass alone."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from anisocert.engine._watching import Watch
from anisocert.engine.numerics import Precision, computing, out_of_memory


def has_own_backward(model: nn.Module, sample: Tensor, precision: Precision) -> bool:
    """Whether it has an `autograd.Function`, or switches gradients off on the way, as to learn through rounding.

    True also where that cannot be seen.
    """
    watch = _Switched()
    try:
        with computing(precision, sample.device), watch.calls, watch:
            model(sample.clone().requires_grad_(True).clone())  # which a network may change
    except Exception as reason:  # operators that no mode may look into; whether the network runs, others find out
        if out_of_memory(reason):
            raise
        return True
    return watch.found


class _Calls(TorchFunctionMode):
    """Knows whether a call of torch is under way that began with gradients: what that switches off is torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        counts = torch.is_grad_enabled()
        self.under_way += counts
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.under_way -= counts


class _Switched(Watch):
    """Looks for operators that are given something with gradients where the network has switched these off.

    Those of an `autograd.Function` are among them, also if it only gives back what it is given.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.found = _Calls(), False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not torch.is_grad_enabled() and not self.calls.under_way:
            leaves = tree_leaves((args, kwargs or {}))
            self.found |= any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
        return func(*args, **(kwargs or {}))
