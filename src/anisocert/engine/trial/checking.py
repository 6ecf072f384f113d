"""Whether votes can rest on what a model returns."""

from collections.abc import Callable, Iterable

from torch import Tensor

from anisocert.engine.returned import comparable, remedy
from anisocert.engine.trial.agreement import identical, leads_kept
from anisocert.errors import ModelError


def not_alone(how: str) -> ModelError:
    """The error of a network whose scores of an input depend on something else, too. how: they do so."""
    return ModelError(f"expected scores of an input to depend on that input alone, got ones that {how}")


def expect_shape(scores: object, rows: int, num_classes: int) -> None:
    """An error unless there is one score for each row and class, and one can be said to be the largest."""
    wanted = (rows, num_classes)
    if isinstance(scores, Tensor) and tuple(scores.shape) == wanted and comparable(scores):
        return
    got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    advice = remedy(scores, num_classes, rows)
    raise ModelError(f"expected the model to return scores of shape {wanted}, got {got}{advice}")


def expect_rows_apart(
    evaluate: Callable[[Tensor], Tensor], sample: Tensor, scores: Tensor, changes: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """An error if scores of an input, those of a sample, change with the rest of its batch or from call to call.

    changes: batches with some of the sample's rows, and which these are.
    """
    for changed, kept in changes:
        new_scores = evaluate(changed)[kept]
        # the same rows in a batch of the same shape: not even rounding differs, if a device is deterministic
        if identical(scores[kept], new_scores):
            continue
        repeats = identical(scores, evaluate(sample.clone()))
        if repeats or not leads_kept(scores[kept], new_scores):
            raise not_alone(
                "change with the rest of the batch or from call to call: keep running statistics in its batch norms "
                "(track_running_stats=True), give F.dropout training=self.training, and leave out dynamic quantization "
                "and what draws at random"
            )
