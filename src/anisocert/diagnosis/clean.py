"""A network's answers without noise: whether something before the noise is wrong, and which options may mend it."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from scipy.special import bdtr
from torch import Tensor, nn

from anisocert.data import Dataset, evenly
from anisocert.diagnosis.probing import TINY, span
from anisocert.engine.given import home
from anisocert.engine.told import is_told, under
from anisocert.errors import AnisocertWarning
from anisocert.evaluate import percent
from anisocert.models import Normalized
from anisocert.work import Job

INPUTS = 32  # to look at
UNLIKELY = 0.05  # that a network which is fairly good does so badly on these inputs: more may be bad luck
ABOVE_CHANCE = 0.1  # of the way from chance to 1: less is no better than guessing
BETTER, MORE = 0.15, 3  # more of the inputs, and at least so many, for another normalisation to be worth a word

Normalization = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Clean:
    """Answers to some inputs. one_answer: all get the same, though their labels differ. inputs: how many there are.

    normalization: what makes more of them correct, options where possible, and `mended` the share then; empty where
    the network has its own, or none of those tried helps.
    """

    accuracy: float
    chance: float
    one_answer: bool
    normalization: str = ""
    mended: float = 0.0
    inputs: int = INPUTS

    @property
    def guessing(self) -> bool:
        """Whether it does no better than chance, and on so many inputs that this is no bad luck.

        Luck is judged by a network that is right half of the way from chance to always.
        """
        low = self.accuracy < self.chance + ABOVE_CHANCE * (1 - self.chance)
        right = round(self.accuracy * self.inputs)
        fair = (1 + self.chance) / 2
        wrong_all = (1 - fair) ** (self.inputs - right)  # of those that another answer would have been right for
        return (low and float(bdtr(right, self.inputs, fair)) < UNLIKELY) or (self.one_answer and wrong_all < UNLIKELY)

    @property
    def doubt(self) -> str:
        """What is wrong, in one sentence; empty if nothing seems to be."""
        if not self.guessing and not self.normalization:
            return ""
        shares = (f"{percent(share, digits=0)}%" for share in (self.accuracy, self.chance, self.mended))
        right, chance, mended = shares
        found = (
            f"Without any noise it answers {right} of {self.inputs} sampled inputs correctly, and chance is {chance}"
        )
        if self.normalization:
            wrong = "something before the noise is wrong" if self.guessing else "its normalisation seems to be missing"
            return f"{found}: {wrong}. With {self.normalization} it answers {mended} correctly."
        look = "the normalisation (--mean, --std, --layout), the order of the classes, and the range of the inputs"
        return f"{found}: something before the noise is wrong. Look at {look}."


def look(job: Job) -> Clean | None:
    """How a job's network answers some of its inputs; None where there is nothing to compare, or it does not run."""
    examples, count = job.examples, job.configuration.num_classes
    if not examples.labelled or count is None:
        return None
    chunk = job.chunk([job.ids[i] for i in evenly(len(job.ids), INPUTS)])
    x, y = torch.from_numpy(chunk.x).to(home(job.model)), torch.tensor(chunk.y, device="cpu")
    try:
        model = copy.deepcopy(job.model)  # the hash is of a network that was never called
        level = TINY * span(chunk.x)
        answers = _answers(model, x, level)
    except Exception:  # the user's network may raise anything; certifying will report it
        return None
    accuracy, one = _share(answers, y), len(set(answers.tolist())) == 1 < len(set(chunk.y))
    own = job.metadata.get("mean") is not None or job.configuration.denoise is not None or is_told(model)
    tried = () if own else _normalizations(examples)
    found = [(_share_with(two, model, x, y), two) for two in tried]
    mended, two = max(found, default=(0.0, ((), ())))
    if mended < accuracy + max(BETTER, MORE / len(y)):
        return Clean(accuracy, 1 / count, one, inputs=len(y))
    mean, std = (",".join(f"{value:.4g}" for value in values) for values in two)
    bytes_ = "inputs of 0 to 255 (by a package.module:function that multiplies them)"
    return Clean(accuracy, 1 / count, one, f"--mean {mean} --std {std}" if any(two[0]) else bytes_, mended, len(y))


def warn_if_wrong(job: Job) -> None:
    """Warn, before hours are spent on it, if a network seems not to get its inputs as it was trained on them."""
    found = look(job)
    if found is not None and found.doubt:
        warnings.warn(found.doubt, AnisocertWarning, stacklevel=2)


def _normalizations(examples: Dataset) -> Iterator[Normalization]:
    """Mean and standard deviation as networks are usually given inputs: the data's, -1 to 1, and 0 to 255."""
    ones = (1.0,) * len(examples.mean)
    yield examples.mean, examples.std
    yield tuple(0.5 * one for one in ones), tuple(0.5 * one for one in ones)
    yield tuple(0.0 * one for one in ones), tuple(one / 255 for one in ones)


def _answers(model: nn.Module, x: Tensor, level: float) -> Tensor:
    """Classes; -1, which no label is, where a score is NaN."""
    with torch.no_grad():
        scores = under(level, model.eval())(x)
        return scores.argmax(1).masked_fill(scores.isnan().any(1), -1).cpu()


def _share_with(two: Normalization, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """What another normalisation makes correct: nothing where the network takes no such inputs."""
    try:
        return _share(_answers(Normalized(model, *two), x, 0.0), y)  # none is told theta
    except Exception:  # as above
        return 0.0


def _share(answers: Tensor, labels: Tensor) -> float:
    return float((answers == labels).double().mean())
