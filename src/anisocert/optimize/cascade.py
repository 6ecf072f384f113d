"""A cascade: the code of the largest noise under which one class has more than half of the votes gives the answer.

Codes are asked in turn, the largest noise first. g(z) is the class with more than half of the votes at z under the
first code that has one; under the last code, the class with most votes. That is one classifier, which anybody can
evaluate: nothing is trained to choose the noise, and nothing remembered.

Let c be a class, q_i at least every other class's share at x under code i, and p at most c's share under code j > i.
That a vote is not for some other class has a share of at least 1 - q_i, hence more than half within
theta_i gap(1 - q_i, q_i): no other class can win under code i there. Within theta_j gap(p, 1 - p), c has more than half
under code j. So g = c wherever both hold for all i < j: either c has won before j, or it wins there. For j first there
is no more to show: the certificate is that of fixed noise.

Which code is certified for an input, and for which class, is settled by votes that prove nothing (`Stage.NAME`). They
may leave the first code, where fixed noise certifies, for one with a larger ball; few of them may mislead, and then the
input has less than with fixed noise, or nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from anisocert.bounds import Plan, binomial_test
from anisocert.certificate import ABSTAIN
from anisocert.engine import Classifier, Query, Stage, all_votes
from anisocert.errors import ArgumentError
from anisocert.models import Coded
from anisocert.optimize.base import checked_theta
from anisocert.optimize.choice import Capture, Choice, Counts, Event, Floats
from anisocert.optimize.coded import SHARE, CodedMethod, voter
from anisocert.smoothing import Smoothing, cap

DOUBT = 1.0  # standard deviations
NAMING = 50  # of a large plan's votes one in so many settles which code is certified


@dataclass(frozen=True)
class Cascade(CodedMethod):
    """The first code, from the largest noise on, under which one class has a majority. The model is a `Coded`."""

    name = "cascade"

    def pilot_votes(self, plan: Plan, model: Classifier | None = None) -> int:
        """See Method; of two codes without a model. About half of the inputs that reach a code go on to the next."""
        codes = len(model.codes) if isinstance(model, Coded) else 2
        return codes * naming(plan) + int(plan.n * (1 - 0.5 ** (codes - 1)))

    def choose(self, query: Query, plan: Plan) -> Tensor:
        """See Method."""
        model = self.coded(query.network.model, query.smoothing, plan)
        level, _ = _named(query, plan, model)
        codes = torch.tensor([model.order[at] for at in level], device=query.x.device)
        return checked_theta(model.thetas(query.shape)[codes], query.x)

    def decide(self, query: Query, plan: Plan, alphas: Floats) -> Sequence[Choice]:
        """See Method."""
        model = self.coded(query.network.model, query.smoothing, plan)
        level, label = _named(query, plan, model)
        passed = _passed(query, plan, model, level, label, alphas)
        choices = []
        for at in range(len(model.order)):
            kept = np.flatnonzero((level == at) & (passed.cap > 0))
            part, theta = _under(query, model, model.order[at])
            choice = Choice.of(part, checked_theta(theta, query.x), passed, kept.tolist())
            choices.append(choice if at == 0 else replace(choice, settle=_settled(label[kept], theta[kept.tolist()])))
        return choices

    def answers(self, query: Query, plan: Plan) -> Counts:
        """The cascade's own answers, by plan.n votes under each code that is asked; -1 where these leave one open.

        Before the last code a two-sided test of the leading class against all others says that it has a majority, that
        none has, or nothing. If a class has one, that is missed with at most half of the test's level. If none has, a
        class with a share of p <= 1/2 is taken for one with at most 2p times that half (such tails are convex in p),
        the level in all. The codes share alpha, so an answer is wrong with probability alpha at most.
        """
        model = self.coded(query.network.model, query.smoothing, plan)
        answers, remaining = np.full(len(query), ABSTAIN, np.int64), np.arange(len(query))
        for code in model.order:
            last = code == model.order[-1]
            counts = _votes(query.part(remaining.tolist()), model, code, Stage.PREDICT, plan.n)
            top, second = (np.sort(counts, 1)[:, -rank] for rank in (1, 2))
            sure = np.asarray(binomial_test(top, top + second if last else plan.n)) <= plan.alpha / len(model.order)
            wins = sure & (last | (2 * top > plan.n))
            answers[remaining[wins]] = counts.argmax(1)[wins]
            remaining = remaining[sure & ~wins]
            if not len(remaining):
                break
        return answers

    def coded(self, model: Classifier, smoothing: Smoothing, plan: Plan) -> Coded:
        """See CodedMethod."""
        coded = super().coded(model, smoothing, plan)
        first = float(coded.codes[coded.order[0]].min())
        if smoothing.theta.ndim or len(smoothing.weights) > 1 or float(smoothing.theta) != first:
            raise ArgumentError(
                f"expected the smallest value of the codebook's largest noise, {first:g}, for {self.name}, got "
                f"{smoothing}"
            )
        if plan.bound != "one-vs-rest":  # another class may lead where this one has no majority
            raise ArgumentError(f"expected bound one-vs-rest for {self.name}, which needs majorities, got {plan.bound}")
        return coded


def naming(plan: Plan) -> int:
    """Votes under each code that settle which one is certified."""
    return max(plan.n0, plan.n // NAMING, min(10 * plan.n0, plan.n // 4))


def _settled(label: Counts, theta: Tensor) -> Callable[[Counts], Event]:
    return lambda _: Event(label, theta)


def _under(query: Query, model: Coded, code: int) -> tuple[Query, Tensor]:
    """The query to the network of a code, and that code's theta for each input."""
    theta = model.thetas(query.shape)[code]
    return replace(query, network=voter(query.network, code)), theta.expand(len(query), *theta.shape)


def _votes(query: Query, model: Coded, code: int, stage: Stage, n: int) -> Counts:
    part, theta = _under(query, model, code)
    return all_votes(part, query.smoothing.scales(theta), stage, [n])


def _named(query: Query, plan: Plan, model: Coded) -> tuple[Counts, Counts]:
    """(place in the order, class) to certify for each input: what few votes say has the largest ball.

    The first code, which costs nothing more, is kept unless another is better beyond the luck of these votes.
    """
    m, classes, rows = naming(plan), query.network.num_classes, np.arange(len(query))
    sizes = model.codes.view(len(model.codes), -1).amin(1).double().cpu().numpy()
    counts = [_votes(query, model, code, Stage.NAME, m) for code in model.order]
    label = np.stack([votes.argmax(1) for votes in counts])

    def reach(votes: Floats, code: int) -> Floats:
        """How far a majority of so many votes reaches."""
        top = np.clip(np.floor(votes), 0, m).astype(np.int64)
        radii: Floats = query.smoothing.gap(*plan.projected(top, m - top, m, classes, unseen=1)) * sizes[code]
        return radii

    def ball(at: int, luck: float) -> Floats:
        """The ball of the code at a place, if its votes, and those that pass it on, are lucky by so many deviations."""
        c = label[at]
        votes = counts[at][rows, c]
        radii = reach(votes + luck * _deviation(votes, m), model.order[at])
        for before in range(at):
            free = m - np.where(np.arange(classes) == c[:, None], 0, counts[before]).max(1)
            radii = np.minimum(radii, reach(free + luck * _deviation(free, m), model.order[before]))
        return radii

    unlucky, plain, lucky = (np.stack([ball(at, luck) for at in range(len(counts))]) for luck in (-DOUBT, 0.0, DOUBT))
    best = 1 + np.where(plain[1:].max(0) > 0, plain[1:].argmax(0), lucky[1:].argmax(0))
    better = np.where(lucky[0] > 0, unlucky[best, rows] > lucky[0], lucky[best, rows] > 0)
    level = np.where(better, best, 0)
    return level, label[level, rows]


def _deviation(votes: Counts, m: int) -> Floats:
    """Standard deviation of a count of m votes."""
    deviation: Floats = np.sqrt(np.maximum(votes * (m - votes) / m, 1.0))
    return deviation


def _passed(query: Query, plan: Plan, model: Coded, level: Counts, label: Counts, alphas: Floats) -> "Passed":
    """What proves that no code before an input's own gives it another class."""
    classes, n = query.network.num_classes, plan.n
    top, sigma, caps = np.zeros(len(query), np.int64), np.zeros(len(query)), np.full(len(query), np.inf)
    spent = np.where(level > 0, SHARE * alphas, 0.0)
    for at, code in enumerate(model.order[:-1]):
        later = np.flatnonzero(level > at)
        if not len(later):
            continue
        counts = _votes(query.part(later.tolist()), model, code, Stage.CAPTURE, n)
        free = n - np.where(np.arange(classes) == label[later, None], 0, counts).max(1)
        size = float(model.codes[code].min())
        alpha = spent[later] / ((classes - 1) * level[later])  # of any other class, under any of the codes before
        reach = cap(type(query.smoothing), free, n, alpha, size)
        nearer = reach < caps[later]
        caps[later] = np.where(nearer, reach, caps[later])
        top[later], sigma[later] = np.where(nearer, free, top[later]), np.where(nearer, size, sigma[later])
    names = [",".join(str(code) for code in model.order[: at + 1]) for at in level]
    return Passed(names, top, n, spent, sigma, caps)


@dataclass(frozen=True, eq=False)
class Passed(Capture):
    """What votes say in a cascade. codes: those asked, the last of which answers; one of the others binds first.

    top: votes under that one, less those for the other class that has most. Nothing is spent on the first code.
    """

    def reason(self, i: int) -> str:
        """See Capture."""
        return (
            f"another class may have a majority under more noise: {self.votes - self.top[i]} of {self.votes} votes, "
            f"before code {self.codes[i].rpartition(',')[2]} is asked"
        )
