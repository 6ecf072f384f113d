"""Modules that torch puts around a network, and that only call it."""

import sys
from typing import cast

from torch import nn
from torch.optim.swa_utils import AveragedModel


def is_compiled(value: object) -> bool:
    """Whether torch.compile has made a module; nobody can have called it before its own module is imported."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    return compiler is not None and isinstance(value, compiler.OptimizedModule)


def within(model: nn.Module) -> nn.Module | None:
    """The module that a wrapper only calls. torch's wrappers for training split batches, or cannot be traced."""
    if is_compiled(model):
        return cast(nn.Module, model._orig_mod)
    if type(model) in (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel):
        return cast(nn.Module, model.module)
    return None
