"""Whether a network says itself what its gradients are: a graph of it has the operators of its forward pass alone."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from anisocert.engine.numerics import differentiating, out_of_memory


def has_own_backward(model: nn.Module, sample: Tensor) -> bool:
    """Whether it has an `autograd.Function`, or switches gradients off on the way, as to learn through rounding.

    True also where that cannot be seen.
    """
    watch = _Switched()
    try:
        with differentiating(), watch:
            model(sample.clone().requires_grad_(True).clone())  # which a network may change
    except Exception as reason:  # operators that no mode may look into; whether the network runs, others find out
        if out_of_memory(reason):
            raise
        return True
    return watch.found


class _Switched(TorchDispatchMode):
    """Looks for operators that are given something with gradients where these are switched off.

    Those of an `autograd.Function` are among them, also if it only gives back what it is given.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would import its compiler here, for more than a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_leaves((args, kwargs or {}))
        if not torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in given):
            self.found = True
        return func(*args, **(kwargs or {}))
