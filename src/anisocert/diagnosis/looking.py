"""A network's answers without noise, or under the run's noise where it knows nothing else: whether something before the
noise is wrong, and which options may mend it.
"""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import bdtr, bdtrc
from torch import Tensor, nn

from anisocert.data import Dataset, evenly
from anisocert.diagnosis.probing import TINY, span
from anisocert.engine.devices import devices_of
from anisocert.engine.given import home
from anisocert.engine.numerics import computing, native_precision
from anisocert.engine.returned import are_probabilities
from anisocert.engine.told import is_told, under
from anisocert.errors import AnisocertWarning
from anisocert.evaluate import percent
from anisocert.models import Normalized
from anisocert.optimize.soft import TAKEN_FOR_LOGITS
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import noise_like
from anisocert.work import Job

INPUTS = 32  # to look at
UNLIKELY = 0.05  # that a network which is fairly good does so badly on these inputs: more may be bad luck
HARDLY = 1e-3  # that one which guesses does so well on them
LEAST = 0.01  # of what is shown in whole per cent
ABOVE_CHANCE = 0.1  # of the way from chance to 1: less is no better than guessing
MOVED = 0.1  # of the inputs, for another answer in another precision to be worth a word
SAME = 1e-5  # of a score, that rounding may move it
BETTER, AT_LEAST = 0.15, 3  # more of the inputs, and so many, for another normalisation to be worth a word

Normalization = tuple[tuple[float, ...], tuple[float, ...]]


def of_chance(share: float) -> str:
    """Guessing's share, which in per cent would be 0 where there are many classes."""
    return f"{percent(share, digits=0)}%" if share >= LEAST else f"1 in {round(1 / share):,}"


@dataclass(frozen=True)
class Look:
    """Answers to some inputs. one_answer: all get the same, though their labels differ. inputs: how many there are.

    normalization: what makes more of them correct, options where possible, and `mended` the share then; empty where
    the network has its own, or none of those tried helps. noisy: whether the inputs have the run's noise. constant:
    whether scores are the same for every input, in other ranges too.
    """

    accuracy: float
    chance: float
    one_answer: bool
    normalization: str = ""
    mended: float = 0.0
    inputs: int = INPUTS
    noisy: bool = False
    constant: bool = False

    @property
    def low(self) -> bool:
        """Whether few are correct."""
        return self.accuracy < self.chance + ABOVE_CHANCE * (1 - self.chance)

    @property
    def guessing(self) -> bool:
        """Whether it does no better than chance, and on so many inputs that this is no bad luck.

        Luck is judged by a network that is right half of the way from chance to always.
        """
        right = round(self.accuracy * self.inputs)
        fair = (1 + self.chance) / 2
        wrong_all = (1 - fair) ** (self.inputs - right)  # of those that another answer would have been right for
        unlikely = float(bdtr(right, self.inputs, fair)) < UNLIKELY
        return (self.low and unlikely) or (self.one_answer and wrong_all < UNLIKELY)

    def knowing(self, most: float) -> bool:
        """Whether it clearly beats chance, and one answer to all. most: the share of the most frequent label."""
        right = round(self.accuracy * self.inputs)
        lucky = float(bdtrc(right - 1, self.inputs, max(self.chance, most))) if right else 1.0
        return not self.low and lucky < HARDLY

    @property
    def doubt(self) -> str:
        """What is wrong, in one sentence; empty if nothing seems to be."""
        if not self.guessing and not self.normalization:
            return ""
        if self.constant:
            return (
                f"It gives all of {self.inputs} sampled inputs the same scores, with noise and without, and in ranges "
                "255 times as wide and as narrow: its answer does not depend on the input, it seems, so that "
                "certificates are large and mean nothing. Look whether its weights are those of a trained network, and "
                "what is in front of it (--denoise)."
            )
        right, mended = (f"{percent(share, digits=0)}%" for share in (self.accuracy, self.mended))
        where = "Under the noise" if self.noisy else "Without any noise"
        chance = of_chance(self.chance)
        finding = f"{where} it answers {right} of {self.inputs} sampled inputs correctly, and chance is {chance}"
        if self.one_answer and not self.low:
            finding = f"{where} it gives all of {self.inputs} sampled inputs one class, which {right} of them have"
        if self.normalization:
            cause = "something before the noise is wrong" if self.guessing else "its normalisation seems to be missing"
            return f"{finding}: {cause}. With {self.normalization} it answers {mended} correctly."
        suspects = "the normalisation (--mean, --std, --layout), the order of the classes, and the range of the inputs"
        return f"{finding}: something before the noise is wrong. Look at {suspects}."


def look(job: Job, smoothing: Smoothing | None = None) -> Look | None:
    """How a job's network answers some of its inputs; None where there is nothing to compare, or it does not run.

    smoothing: where something seems wrong without noise, the inputs are tried with this noise too, as the network may
    have been trained on that alone. Default: the job's.
    """
    examples, classes = job.examples, job.configuration.num_classes
    if not examples.labelled or classes is None:
        return None
    if (sampled := _sampled(job)) is None:
        return None
    model, x, level, labels = sampled
    y = torch.tensor(labels, device="cpu")
    own = job.metadata.get("mean") is not None or job.configuration.denoise is not None or is_told(model)
    tried = () if own else tuple(_normalizations(examples))
    clean = _looked(model, x, y, level, classes, tried)
    if clean is None or not clean.doubt:
        return clean
    smoothing = smoothing or job.configuration.smoothing()
    with_noise = _with_noise(x, smoothing)
    if _same_scores(model, torch.cat([x, x / 255, 255 * x, with_noise]), float(smoothing.theta.max())):
        return replace(clean, constant=True)
    noisy = _looked(model, with_noise, y, float(smoothing.theta.max()), classes, tried)
    most = float(np.unique(labels, return_counts=True)[1].max() / len(labels))
    return replace(noisy, noisy=True) if noisy is not None and noisy.knowing(most) else clean


def warn_if_wrong(job: Job) -> None:
    """Warn, before hours are spent on it, if a network seems not to get its inputs as it was trained on them."""
    answers = look(job)
    for doubt in (answers.doubt if answers is not None else "", rounding_doubt(job), outputs_doubt(job)):
        if doubt:
            warnings.warn(doubt, AnisocertWarning, stacklevel=2)


def rounding_doubt(job: Job) -> str:
    """Whether the network answers otherwise in the precision that will vote, in one sentence; empty if it does not."""
    c = job.configuration
    device = torch.device(devices_of(c.device or "cpu")[0])
    if device.type == "cuda" and not torch.cuda.is_available():
        return ""  # the network will say so
    precision = c.numerics.precision or native_precision(device)
    if precision != "bfloat16":
        return ""
    if (sampled := _sampled(job)) is None:
        return ""
    model, x, level, _ = sampled
    own = _answers(model, x, level)
    with computing(precision, x.device):
        rounded = _answers(model, x, level)
    if own is None or rounded is None or (moved := int((rounded != own).sum())) < max(AT_LEAST, MOVED * len(own)):
        return ""
    return (
        f"In bfloat16, which votes here and keeps 8 bits of a number, it answers {moved} of {len(own)} sampled inputs "
        "otherwise than in float32: use --precision float32, or standardise the inputs, for the network too."
    )


def outputs_doubt(job: Job) -> str:
    """Whether a search by gradients would take probabilities for logits, in one sentence; empty if it would not."""
    c = job.configuration
    if c.outputs != "logits" or not c.chooser(job.theta).ascents(c.plan()):
        return ""
    scores = None if (sampled := _sampled(job)) is None else _scores(*sampled[:3])
    return TAKEN_FOR_LOGITS if scores is not None and are_probabilities(scores) else ""


def _sampled(job: Job) -> tuple[nn.Module, Tensor, float, list[int]] | None:
    """(a copy of the network, inputs where it is, a level of noise that is hardly any, labels); None without a copy."""
    chunk = job.chunk([job.ids[i] for i in evenly(len(job.ids), INPUTS)])
    try:
        model = copy.deepcopy(job.model)  # the hash is of a network that was never called
    except Exception:  # the user's code may raise anything; certifying will report it
        return None
    return model, torch.from_numpy(chunk.x).to(home(model)), TINY * span(chunk.x), chunk.y


def _looked(
    model: nn.Module, x: Tensor, y: Tensor, level: float, classes: int, tried: tuple[Normalization, ...]
) -> Look | None:
    """level: of the noise in x, which a network may be told. None where the network does not run."""
    if (answers := _answers(model, x, level, classes)) is None:
        return None
    plain = Look(_share(answers, y), 1 / classes, len(set(answers.tolist())) == 1 < len(set(y.tolist())), inputs=len(y))
    mended, best = max(((_share_with(pair, model, x, y), pair) for pair in tried), default=(0.0, ((), ())))
    if mended < plain.accuracy + max(BETTER, AT_LEAST / len(y)):
        return plain
    mean, std = (",".join(f"{value:.4g}" for value in values) for values in best)
    bytes_ = "inputs of 0 to 255 (by a package.module:function that multiplies them)"
    return replace(plain, normalization=f"--mean {mean} --std {std}" if any(best[0]) else bytes_, mended=mended)


def _same_scores(model: nn.Module, x: Tensor, level: float) -> bool:
    """Whether all rows of a batch get the same scores, up to rounding."""
    scores = _scores(model, x, level)
    return scores is not None and bool(((scores - scores[0]).abs() <= SAME * scores[0].abs()).all())


def _with_noise(x: Tensor, smoothing: Smoothing) -> Tensor:
    """One noisy copy of each input, the same ones each time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return x + noise_like(x.cpu(), smoothing).to(x.device)


def _normalizations(examples: Dataset) -> Iterator[Normalization]:
    """Mean and standard deviation as networks are usually given inputs: the data's, -1 to 1, and 0 to 255."""
    ones = (1.0,) * len(examples.mean)
    yield examples.mean, examples.std
    yield tuple(0.5 * one for one in ones), tuple(0.5 * one for one in ones)
    yield tuple(0.0 * one for one in ones), tuple(one / 255 for one in ones)


def _answers(model: nn.Module, x: Tensor, level: float, classes: int = 2) -> Tensor | None:
    """Classes, of at least so many; -1, which no label is, where a score is NaN. None where `_scores` has none."""
    scores = _scores(model, x, level, classes)
    return None if scores is None else scores.argmax(1).masked_fill(scores.isnan().any(1), -1)


def _scores(
    model: nn.Module, x: Tensor, level: float, classes: int = 2, two: Normalization | None = None
) -> Tensor | None:
    """Of at least so many classes, on the CPU; None where the network does not run. two: a normalisation before it."""
    try:
        with torch.no_grad():
            scores: Tensor = under(level, (Normalized(model, *two) if two else model).eval())(x).float().cpu()
    except Exception:  # the user's code may raise anything; certifying will report it
        return None
    return scores if scores.dim() == 2 and scores.shape[1] >= classes else None


def _share_with(two: Normalization, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """What another normalisation makes correct: nothing where the network takes no such inputs, or cannot decide."""
    if (scores := _scores(model, x, 0.0, two=two)) is None:  # none is told theta
        return 0.0
    most, classes = scores.topk(2)
    return _share(classes[:, 0].masked_fill(~(most[:, 0] > most[:, 1]), -1), y)


def _share(answers: Tensor, labels: Tensor) -> float:
    return float((answers == labels).double().mean())
