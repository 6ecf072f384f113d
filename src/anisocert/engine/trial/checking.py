"""Whether votes can rest on what a model returns."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from anisocert.engine.numerics import out_of_memory
from anisocert.engine.returned import comparable, remedy
from anisocert.engine.trial.agreement import identical, leads_kept
from anisocert.errors import ModelError


def expect_shape(scores: object, rows: int, num_classes: int) -> None:
    """An error unless there is one score for each row and class, and one can be said to be the largest."""
    wanted = (rows, num_classes)
    if isinstance(scores, Tensor) and tuple(scores.shape) == wanted and comparable(scores):
        return
    got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    what = remedy(scores, num_classes, rows)
    raise ModelError(f"expected the model to return scores of shape {wanted}, got {got}{what}")


def expect_rows_apart(
    evaluate: Callable[[Tensor], Tensor], sample: Tensor, scores: Tensor, changes: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """An error if scores of an input, those of a sample, change with the rest of its batch or from call to call.

    changes: batches with some of the sample's rows, and which these are.
    """
    for changed, kept in changes:
        found = evaluate(changed)[kept]
        # the same rows in a batch of the same shape: not even rounding differs, if a device is deterministic
        if identical(scores[kept], found):
            continue
        repeats = identical(scores, evaluate(sample.clone()))
        if repeats or not leads_kept(scores[kept], found):
            raise ModelError(
                "expected scores of an input to depend on that input alone, got ones that change with the rest of the "
                "batch or from call to call: keep running statistics in its batch norms (track_running_stats=True), "
                "give F.dropout training=self.training, and leave out dynamic quantization and what draws at random"
            )


def expect_places_alike(evaluate: Callable[[Tensor], Tensor], sample: Tensor, same: Callable[[Tensor], bool]) -> None:
    """An error if scores of an input change with its place in the batch. same: whether some are those of the sample."""
    generator = torch.Generator().manual_seed(2)  # the same order on every device
    order = torch.randperm(len(sample), generator=generator, device="cpu").to(sample.device)
    if not same(evaluate(sample[order])[order.argsort()]):
        raise ModelError(
            "expected scores of an input to depend on that input alone, got ones that change with its place in a batch"
        )


def expect_sizes_alike(evaluate: Callable[[Tensor], Tensor], few: Tensor, same: Callable[[Tensor], bool]) -> None:
    """An error if scores change with the size of a batch. few: its first rows; same: whether some are those of them."""
    try:
        found = evaluate(few.clone())
    except Exception as reason:  # as of a program that was exported for batches of one size
        if out_of_memory(reason):
            raise
        return
    if not same(found):
        raise ModelError(
            "expected scores of an input to depend on that input alone, got ones that change with the size of a batch"
        )
