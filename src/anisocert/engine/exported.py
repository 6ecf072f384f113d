"""Graphs of torch.export and torch.fx as networks: in which mode they compute, and what copying them would lose."""

from collections.abc import Iterator

import torch
from torch import fx, nn

from anisocert.errors import ModelError

OWN_HOOKS = "torch.export._unlift"  # they compare inputs with those of the export, and change nothing
GUARDS = (OWN_HOOKS, "GuardsFn")


def is_exported(module: nn.Module) -> bool:
    """Whether a module is an ExportedProgram's: torch gives it an eval() and a train() that raise.

    A deep copy of it computes the same, and has neither.
    """
    return isinstance(module, fx.GraphModule) and "eval" in vars(module)


def has_exported(model: nn.Module) -> bool:
    """Whether a program of torch.export is in a model."""
    return any(is_exported(module) for module in model.modules())


def training_parts(model: nn.Module, name: str = "") -> Iterator[str]:
    """Names of the parts that are in training mode; in exported programs the graph says so, not the module."""
    if is_exported(model):
        return
    if getattr(model, "training", False):  # a frozen TorchScript module has none
        yield name or type(model).__name__
    for child, module in model.named_children():
        yield from training_parts(module, f"{name}.{child}" if name else child)


def expect_evaluation(model: nn.Module) -> None:
    """An error unless a model is in evaluation mode, its graphs included."""
    if training := next(training_parts(model), None):
        call = "copy.deepcopy(model).eval(), as torch refuses eval() in an exported program itself"
        remedy = call if has_exported(model) else "model.eval()"
        raise ModelError(f"expected a model in evaluation mode, got training mode in {training}: call {remedy}")
    for graph in _graphs(model):
        if trains := next((node.target for node in graph.graph.nodes if _trains(node)), None):
            raise ModelError(
                f"expected a graph that was made in evaluation mode, got {trains} in training mode: call model.eval() "
                "before torch.export.export(model, ...)"
            )


def expect_copied_whole(model: nn.Module) -> None:
    """An error if a graph has hooks or a forward of its own: torch leaves them out of copies, other functions then."""
    for graph in _graphs(model):
        if "forward" in vars(graph):
            raise ModelError(
                "expected a module that torch.fx or torch.export made with the forward of its class, got one that was "
                "replaced, which copies of it lose: put what it does into an nn.Module around it"
            )
        hooks = [*graph._forward_pre_hooks.values(), *graph._forward_hooks.values()]
        if any(getattr(hook, "__module__", None) != OWN_HOOKS for hook in hooks):
            raise ModelError(
                "expected no hooks on a module that torch.fx or torch.export made, as copies of it lose them: put what "
                "they do into an nn.Module around it"
            )


def _graphs(model: nn.Module) -> Iterator[fx.GraphModule]:
    return (module for module in model.modules() if isinstance(module, fx.GraphModule))


def _trains(node: fx.Node) -> bool:
    """Whether a node is an operator that is told to compute as in training."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    for at, argument in enumerate(node.target._schema.arguments):
        if argument.name in ("train", "training"):
            value = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
            return value is True
    return False
