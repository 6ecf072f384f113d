"""What a network returned: where scores may be in it, and how to make scores of what is none."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

Part = str | int
MOST_NAMED = 8
RETURN = ": return a tensor of floats of shape (b, classes)"


def part(found: Any, name: Part) -> Any:
    """The attribute or key of that name, or the element at that position."""
    return getattr(found, name) if isinstance(name, str) and not isinstance(found, Mapping) else found[name]


def parts(found: Any) -> dict[Part, Any]:
    """What a network returned together: by key, position or attribute."""
    if isinstance(found, Mapping):
        return {key: value for key, value in found.items() if isinstance(key, str)}
    if isinstance(found, tuple | list):
        return dict(enumerate(found))
    return {} if isinstance(found, Tensor | np.ndarray) else dict(getattr(found, "__dict__", {}))


def width(scores: Any) -> int | None:
    """The number of classes of a tensor `b x classes`; None of anything else."""
    return scores.shape[1] if isinstance(scores, Tensor) and scores.dim() == 2 and scores.shape[1] > 1 else None


def likely(inside: dict[Part, Any], num_classes: int | None = None) -> list[Part]:
    """Where the scores may be: floats `b x classes`, of that many classes where their number is known."""
    wide = {name: width(value) for name, value in inside.items() if getattr(value, "is_floating_point", bool)()}
    return [name for name, classes in wide.items() if classes is not None and num_classes in (None, classes)]


def remedy(found: Any, num_classes: int | None = None) -> str:
    """How to make scores of what a network returned; empty of tensors whose shape says nothing."""
    classes = "num_classes" if num_classes is None else num_classes
    if isinstance(found, np.ndarray):
        return ": return torch.from_numpy(scores)"
    if isinstance(found, Tensor):
        return _of_tensor(found, classes)
    inside = parts(found)
    if fit := likely(inside, num_classes) or likely(inside):
        named = ", or ".join([f"anisocert.models.ScoresOf(model, {fit[0]!r})", *map(repr, fit[1:MOST_NAMED])])
        return f": take them out of it with {named} (on the command line, in a package.module:function that returns it)"
    if isinstance(found, list) and found and isinstance(found[0], list | float):
        return ": return torch.tensor(scores)"
    names = ", ".join(map(repr, list(inside)[:MOST_NAMED]))
    return f" with {names}, none of them floats of shape (b, classes): return such scores" if names else RETURN


def _of_tensor(found: Tensor, classes: object) -> str:
    if found.dim() == 1 and not found.is_floating_point():
        return f", labels: return scores, as in torch.nn.functional.one_hot(labels, {classes}).float()"
    if found.dim() == 1 or (found.dim() == 2 and found.shape[1] == 1):
        return ", one score per input: for two classes, return torch.stack([-z, z], 1), where z = score.flatten()"
    if (many := width(found)) is not None:
        return f": give num_classes={many} (--num-classes {many})"
    if found.dim() > 2 and found[0].numel() == found.shape[1] > 1:
        return ": return scores.flatten(1)"
    return ""
