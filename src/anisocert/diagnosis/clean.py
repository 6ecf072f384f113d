"""A network's answers without noise: whether something before the noise is wrong, and which options may mend it."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from scipy.special import bdtr, bdtrc
from torch import Tensor, nn

from anisocert.data import Dataset, evenly
from anisocert.diagnosis.probing import TINY, span
from anisocert.engine.given import home
from anisocert.engine.told import is_told, under
from anisocert.errors import AnisocertWarning
from anisocert.evaluate import percent
from anisocert.models import Normalized
from anisocert.runs import Configuration
from anisocert.train.recipe import noise_like
from anisocert.work import Job

INPUTS = 32  # to look at
UNLIKELY = 0.05  # that a network which is fairly good does so badly on these inputs: more may be bad luck
HARDLY = 1e-3  # that one which knows no more under noise than without it does so well there
ABOVE_CHANCE = 0.1  # of the way from chance to 1: less is no better than guessing
BETTER, MORE = 0.15, 3  # more of the inputs, and at least so many, for another normalisation to be worth a word

Normalization = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Clean:
    """Answers to some inputs. one_answer: all get the same, though their labels differ. inputs: how many there are.

    normalization: what makes more of them correct, options where possible, and `mended` the share then; empty where
    the network has its own, or none of those tried helps. noisy: the share under noise, where that was looked at: a
    network that was trained on one noise alone may know nothing else.
    """

    accuracy: float
    chance: float
    one_answer: bool
    normalization: str = ""
    mended: float = 0.0
    inputs: int = INPUTS
    noisy: float = 0.0

    @property
    def low(self) -> bool:
        """Whether few are correct without noise."""
        return self.accuracy < self.chance + ABOVE_CHANCE * (1 - self.chance)

    @property
    def knows_noise(self) -> bool:
        """Whether few are correct without noise, and so many under it that this is no good luck."""
        right, same = round(self.noisy * self.inputs), max(self.accuracy, self.chance)
        return self.low and float(bdtrc(right - 1, self.inputs, same)) < HARDLY

    @property
    def guessing(self) -> bool:
        """Whether it does no better than chance, and on so many inputs that this is no bad luck.

        Luck is judged by a network that is right half of the way from chance to always.
        """
        right = round(self.accuracy * self.inputs)
        fair = (1 + self.chance) / 2
        unlucky = self.low and float(bdtr(right, self.inputs, fair)) < UNLIKELY
        wrong_all = (1 - fair) ** (self.inputs - right)  # of those that another answer would have been right for
        return not self.knows_noise and (unlucky or (self.one_answer and wrong_all < UNLIKELY))

    @property
    def doubt(self) -> str:
        """What is wrong, in one sentence; empty if nothing seems to be."""
        if self.knows_noise or not (self.guessing or self.normalization):
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
        answers = _answers(model, x, TINY * span(chunk.x))
    except Exception:  # the user's network may raise anything; certifying will report it
        return None
    one = len(set(answers.tolist())) == 1 < len(set(chunk.y))
    found = Clean(_share(answers, y), 1 / count, one, inputs=len(y))
    if found.guessing:
        found = replace(found, noisy=_share_under(job.configuration, model, x, y))
    own = job.metadata.get("mean") is not None or job.configuration.denoise is not None or is_told(model)
    tried = () if own else _normalizations(examples)
    mended, two = max(((_share_with(two, model, x, y), two) for two in tried), default=(0.0, ((), ())))
    if mended < found.accuracy + max(BETTER, MORE / len(y)):
        return found
    mean, std = (",".join(f"{value:.4g}" for value in values) for values in two)
    bytes_ = "inputs of 0 to 255 (by a package.module:function that multiplies them)"
    return replace(found, normalization=f"--mean {mean} --std {std}" if any(two[0]) else bytes_, mended=mended)


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


def _share_under(c: Configuration, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """What is correct of one noisy copy of each input, the same ones each time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        noise = noise_like(x.cpu(), c.smoothing()).to(x.device)
    try:
        return _share(_answers(model, x + noise, c.sigma), y)
    except Exception:  # as above
        return 0.0


def _share(answers: Tensor, labels: Tensor) -> float:
    return float((answers == labels).double().mean())
