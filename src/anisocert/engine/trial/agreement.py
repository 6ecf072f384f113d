"""Whether scores of the same inputs mean the same votes. No score is judged by another class's, however widely spread.

Rows of a sample alternate between `GROUPS` kinds of inputs (small and large), each compared by itself.
"""

import logging
import math

import torch
from torch import Tensor

from anisocert.engine.numerics import Precision
from anisocert.engine.returned import are_probabilities

log = logging.getLogger(__name__)

GROUPS = 4
# How far rounding moves scores of another form of the network: relative to how much a class's score changes from input
# to input, and to its size. And how many votes: measured in bfloat16, 0 to 0.2 %, all of them near ties.
ROUNDING = {"float32": (1e-2, 1e-5), "bfloat16": (0.1, 1e-2)}
MOVED = {"float32": 1e-3, "bfloat16": 1e-2}
# In times of the errors that the model's own scores have in bfloat16. What is rounded in a weight is off for all inputs
# alike, so chance makes a form better or worse as a whole: by 0.6 to 2.3, measured on 16 networks, trained and not. Of
# many classes it moves one far: of 10 by up to 2.3, of 1,000 by 7.8. What changes from input to input it hardly does.
WORSE = 3.0  # errors of another form
ALIKE = 4.0  # those of one class, times how far the largest of so many normal numbers lies
APART = 5.0  # of one class, what changes from input to input: measured up to 2.8
OFF = 16.0  # those of one input
FAR = 10.0  # the margin of a vote that no rounding turns
MORE = 2.5  # times as many votes may move as move anyway
STEEPER = 2.0  # how far gradients by another form are from the model's, times how far those are from float32's
SLOPES = 0.1  # the least such distance, relative to gradients, that is too much: rounding turns some ReLUs
TINY = torch.finfo(torch.float32).tiny
STEP = 2.0**-9  # the least error, relative to an input's scores, that is taken for usual: bfloat16's rounding


def identical(scores: Tensor, others: Tensor) -> bool:
    """Whether scores are bitwise the same, NaN being equal to NaN."""
    return scores.shape == others.shape and bool(_equal(scores, others).all())


def leads_kept(scores: Tensor, others: Tensor) -> bool:
    """Whether each row votes as before, and its winner's lead before each class is the same within a half.

    For kernels that do not repeat bitwise: nothing but a tie could be turned by what they change.
    """
    a, b = scores.double(), others.double()
    lead, other_lead = _leads(a, b)
    kept = ((other_lead - lead).abs() <= 0.5 * lead) | _equal(a, b).all(1, keepdim=True)
    return bool((a.argmax(1) == b.argmax(1)).all() and kept.all())


def same_votes(scores: Tensor, others: Tensor, precision: Precision) -> bool:
    """Whether two forms of a network differ by rounding alone: in their scores, and in the votes these give."""
    if scores.shape != others.shape:
        return False
    a, b = scores.double(), others.double()
    groups = [(a[group::GROUPS], b[group::GROUPS]) for group in range(min(GROUPS, len(a)))]
    if not all(alike(one, other, *ROUNDING[precision]) for one, other in groups):
        return False
    allowed = max(1, int(MOVED[precision] * len(a)))
    if int((a.argmax(1) != b.argmax(1)).sum()) > allowed:
        return False
    return all(_only_ties_moved(one, other, *ROUNDING[precision]) for one, other in groups)


def no_worse(exact: Tensor, plain: Tensor, others: Tensor) -> bool:
    """Whether scores of another form are about as near to the model's in float32 as those of the model as it stands.

    For networks whose scores, in bfloat16, are rounding for the most part, as those of untrained ones: their votes are
    no worse by the other form than they are anyway.
    """
    if not exact.shape == plain.shape == others.shape:
        return False
    a, b, c = (scores.double() for scores in (exact, plain, others))
    if are_probabilities(a):
        a, b, c = map(_logits, (a, b, c))
    far = 0
    for group in range(min(GROUPS, len(a))):
        ideal, by_plain, by_other = (scores[group::GROUPS] for scores in (a, b, c))
        if not _classes_no_worse(by_plain - ideal, by_other - ideal) or not _rows_no_worse(ideal, by_plain, by_other):
            return False
        far += _moved_far(ideal, by_other, _allowed((by_plain - ideal).square().mean(0)).sqrt())
    if far > max(1, int(MOVED["float32"] * len(a))):
        log.info("%d of %d votes moved that were no near ties", far, len(a))
        return False
    return True


def same_slopes(exact: Tensor, plain: Tensor, others: Tensor) -> bool:
    """Whether gradients by another form are those of the network as it stands, up to what rounding changes in them.

    That is how far these are from those in float32, of which the first rows are enough.
    """
    a, b, c = (slopes.double().flatten(1) for slopes in (exact, plain, others))
    finite = b.isfinite().all(1)
    usual, actual = float(_distance(b[: len(a)], a)), float(_distance(c[finite], b[finite]))
    if actual <= max(0.0 if math.isnan(usual) else STEEPER * usual, SLOPES):
        return True
    log.info("gradients are off by %.2g times their size, where rounding moves the model's own by %.2g", actual, usual)
    return False


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Relative to the second."""
    distance: Tensor = (a - b).norm() / b.norm().clamp_min(TINY)
    return distance


def _logits(probabilities: Tensor) -> Tensor:
    """What they were before the softmax, up to what all classes of a row share: all of it is rounded alike."""
    logs = probabilities.clamp_min(TINY).log()
    return logs - logs.mean(1, keepdim=True)


def _classes_no_worse(plain: Tensor, others: Tensor) -> bool:
    """Whether errors of another form are about as large as the model's own, in all and in each class."""
    usual, actual = (errors.square().mean(0) for errors in (plain, others))
    apart, actual_apart = (errors.var(0, correction=0) for errors in (plain, others))  # without what all inputs share
    allowed, allowed_apart = map(_allowed, (usual, apart))
    farthest = ALIKE * math.sqrt(2 * math.log(plain.shape[1]))
    if (
        actual.median() <= WORSE**2 * usual.median()
        and bool((actual <= farthest**2 * allowed).all())
        and bool((actual_apart <= (APART**2 * allowed_apart).maximum(allowed)).all())
    ):
        return True
    ratios = (actual.median() / usual.median(), (actual / allowed).max(), (actual_apart / allowed_apart).max())
    log.info(
        "scores are off by %.1f times what bfloat16 rounds anyway, those of a class by %.1f, from input to input %.1f",
        *(float(ratio.sqrt()) for ratio in ratios),
    )
    return False


def _allowed(of_classes: Tensor) -> Tensor:
    """The value of each class, and at least the median of all classes: one may happen to be exact."""
    return of_classes.clamp_min(of_classes.median())


def _rows_no_worse(exact: Tensor, plain: Tensor, others: Tensor) -> bool:
    """Whether hardly a row is much further off than it is anyway: where some have large scores, those hide the others.

    A row where the model happens to be exact may be off by what is usual for scores of its size.
    """
    usual, actual = ((scores - exact).square().mean(1).sqrt() for scores in (plain, others))
    size = exact.abs().amax(1)
    step = (usual / size.clamp_min(torch.finfo(size.dtype).tiny)).median().clamp_min(STEP)
    off = int((actual > OFF * usual.maximum(step * size)).sum())
    if off > max(1, int(MOVED["bfloat16"] * len(exact))):
        log.info("%d of %d inputs have scores that are off by more than %g times the usual", off, len(exact), OFF)
        return False
    return True


def moves_no_more(exact: Tensor, plain: Tensor, others: Tensor) -> bool:
    """Whether about as many votes differ from float32's as by the model as it stands, near ties or not."""
    moved = [int((scores.argmax(1) != exact.argmax(1)).sum()) for scores in (plain, others)]
    return moved[1] <= MORE * moved[0] + max(1, int(MOVED["float32"] * len(exact)))


def _moved_far(a: Tensor, b: Tensor, error: Tensor) -> int:
    """How many votes moved that errors of a usual size (of each class) would not move: many may be near ties."""
    first, second = a.argmax(1), b.argmax(1)
    margin = (a.gather(1, first[:, None]) - a.gather(1, second[:, None]))[:, 0]
    return int((margin > FAR * torch.hypot(error[first], error[second])).sum())


def alike(a: Tensor, b: Tensor, relative: float, absolute: float) -> bool:
    """Whether scores (float64) are close: each to the changes and the size of its own class's, or of a usual class's.

    Or so that its distance to the row's winner stays as it is, up to `relative`: as probabilities of classes that are
    out of the question change by orders of magnitude, and no vote with them.
    """
    finite, zero = a.isfinite(), torch.zeros_like(a)
    size = torch.where(finite, a.abs(), zero).amax(0)
    highest, lowest = torch.where(finite, a, -torch.inf).amax(0), torch.where(finite, a, torch.inf).amin(0)
    spread = (highest - lowest).clamp_min(0)
    own = relative * spread.maximum(spread.median()) + absolute * size.maximum(size.median())
    widest = relative * spread.max() + absolute * size.max()
    lead, other_lead = _leads(a, b)
    harmless = (lead > 0) & ((other_lead - lead).abs() <= relative * lead)
    difference = (a - b).abs()
    return bool((_equal(a, b) | (difference <= own) | (harmless & (difference <= widest))).all())


def _only_ties_moved(a: Tensor, b: Tensor, relative: float, absolute: float) -> bool:
    """Whether each vote that moved was a near tie: by the row's own top score and how the two classes' scores vary.

    The latter is their difference's median absolute deviation; an extreme score lies about five of these away.
    """
    rows = (a.argmax(1) != b.argmax(1)).nonzero()[:, 0]
    if len(rows) == 0:
        return True
    differences = a[:, a[rows].argmax(1)] - a[:, b[rows].argmax(1)]  # rows x moved
    usual = (differences - differences.nanmedian(0).values).abs().nanmedian(0).values
    margin = differences[rows, torch.arange(len(rows), device=rows.device)]
    return bool((margin <= 5 * relative * usual + absolute * a[rows].amax(1).abs()).all())


def _leads(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """How far the winner by `a` is ahead of each class, in `a` and in `b`."""
    winner = a.argmax(1, keepdim=True)
    return a.gather(1, winner) - a, b.gather(1, winner) - b


def _equal(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan())
