"""What a network returned: where scores may be in it, and how to turn anything else into scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
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


def comparable(scores: Tensor) -> bool:
    """Whether torch can say which one of a row is the largest."""
    return scores.layout == torch.strided and not scores.is_complex()


def are_probabilities(scores: Tensor) -> bool:
    """Whether the scores of each row are, up to rounding. scores: `b x classes`."""
    return bool((scores >= 0).all() and ((scores.sum(1) - 1).abs() < 1e-2).all())


def remedy(found: Any, num_classes: int | None = None, rows: int | None = None) -> str:
    """How to make scores of what a network returned. rows: of the inputs that it was given, if they are known."""
    if isinstance(found, np.ndarray):
        return ": return torch.from_numpy(scores)"
    if isinstance(found, Tensor):
        return _of_tensor(found, num_classes, rows)
    inside = parts(found)
    if fit := likely(inside, num_classes):
        named = ", or ".join([f"anisocert.models.ScoresOf(model, {fit[0]!r})", *map(repr, fit[1:MOST_NAMED])])
        return f": take them out of it with {named} (on the command line, in a package.module:function that returns it)"
    if isinstance(found, list) and found and isinstance(found[0], list | float):
        return ": return torch.tensor(scores)"
    names = ", ".join(map(repr, list(inside)[:MOST_NAMED]))
    wanted = f"(b, {num_classes or 'classes'})"
    wide = ", ".join(f"{name!r} has {width(inside[name])} columns" for name in likely(inside)[:MOST_NAMED])
    note = f" ({wide})" if wide else ""
    return f" with {names}, none of them floats of shape {wanted}{note}: return such scores" if names else RETURN


def _of_tensor(scores: Tensor, num_classes: int | None, rows: int | None) -> str:
    if scores.is_complex():
        return f" of {str(scores.dtype)[6:]}, of which none is the largest: return real ones, as in scores.real"
    if not comparable(scores):
        return ", sparse: return scores.to_dense()"
    if scores.dim() == 1 and not scores.is_floating_point():
        classes = num_classes or "num_classes"
        return f", labels: return scores, as in torch.nn.functional.one_hot(labels, {classes}).float()"
    if scores.dim() == 1 or (scores.dim() == 2 and scores.shape[1] == 1):
        return _of_one_score(scores)
    if tuple(scores.shape) == (num_classes, rows):
        return ", a row for each class: return scores.T"
    if (many := width(scores)) is not None and rows in (None, len(scores)):
        return f": give num_classes={many} (--num-classes {many})"
    if scores.dim() == 2 and len(scores) == 1 and rows is not None:
        return f", one row for {rows:,} inputs: return one for each, with the batch as first axis from beginning to end"
    if scores.dim() > 2 and scores[0].numel() == max(scores.shape[1:]) > 1:
        return ": return scores.flatten(1)"
    if scores.dim() == 3 and scores.shape[2] == num_classes:
        return f", scores at {scores.shape[1]} places of each input: return one row for each, as in scores.mean(1)"
    return RETURN


def _of_one_score(scores: Tensor) -> str:
    """Two columns of one. Probabilities are never below 0: as logits, all of them would name the second class."""
    if bool(((scores >= 0) & (scores <= 1)).all()):
        return ", one probability per input, it seems: return torch.stack([1 - p, p], 1), where p = score.flatten()"
    return ", one score per input: for two classes, return torch.stack([-z, z], 1), where z = score.flatten()"
