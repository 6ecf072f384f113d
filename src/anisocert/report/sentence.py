"""The sentence about one input that may be quoted."""

from __future__ import annotations

from collections.abc import Sequence

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.evaluate import ADMITTED, OR_ABSTAINS, OWN, down, keeps_answers, probability
from anisocert.evaluate.protection import whom
from anisocert.geometry import Region
from anisocert.memory import INHERITED
from anisocert.report.evidence import Evidence, Implied, implied_balls
from anisocert.report.region_words import FINE, PIXEL

OTHER_NOISE = ": a changed input is answered with another noise, so it is not a claim about a system"
MEMORY_REASON = "the memory gives no answer, because an earlier promise leaves no room for this one"
SYSTEM = "The system of smoothed classifier and memory"
SURE = (
    "The memory ensures that, with no probability involved. The statement that the smoothed classifier agrees "
    "everywhere in the"
)


def sentence(evidence: Evidence) -> str:
    """What may be said about the input, and no more."""
    e = evidence
    where = f"input {e.id} of {e.comparison.data}"
    if e.prediction == ABSTAIN:
        return f"Nothing is promised about {where}: {e.row['reason'] or MEMORY_REASON}."
    if e.binding is None:
        return (
            f"The system answers {where} with {e.name(e.prediction)}, because it lies on the border of a region "
            "promised earlier; nothing is promised about its surroundings."
        )
    account = "" if e.whole else "By the run's own account, which no memory here backs: "
    words = _kept(
        f"{account}{_subject(e)} answers {where}", e.name(e.prediction), _answers(e), e.binding, e.implied(e.binding)
    )
    return f"{words} {_certainty(e)} This is {protects(e)}{OTHER_NOISE if protects(e) == OWN else ''}."


def answer_sentence(answer: Certificate, name: str, keeps: bool, unit_range: bool) -> str:
    """The sentence about an answer that a system has just given. name: of its class.

    keeps: whether the memory's policy lets no region's input abstain. unit_range: whether values are in [0, 1].
    """
    if answer.prediction == ABSTAIN:
        return f"Nothing is promised about this input: {answer.reason or MEMORY_REASON}."
    if answer.region is None:
        return (
            f"The system answers this input with {name}, because it lies on the border of a region promised earlier; "
            "nothing is promised about its surroundings."
        )
    words = _kept(
        f"{SYSTEM} answers this input",
        name,
        _from_admission(keeps),
        answer.region,
        implied_balls(answer.region, unit_range),
    )
    alpha, whose = probability(answer.alpha), "the input that it was promised to"
    certainty = _memory_certainty(alpha, whose if answer.note == INHERITED else None)
    return f"{words} {certainty} This is {ADMITTED if keeps else OR_ABSTAINS}."


def _kept(subject: str, answer: str, answers: str, region: Region, implied: Sequence[Implied]) -> str:
    """The answer, and the changes after which it stays."""
    balls = {ball.norm: ball for ball in implied}
    own = balls.pop(f"l{region.norm}")
    words = f"{subject} with {answer}, and {answers} after every change of {own.norm} length up to {_length(own)}"
    if region.enclosing_radius > region.radius:
        words += (
            f" (in the directions it is least sensitive to, up to {down(region.enclosing_radius, FINE)}; the region "
            f"holds as much as a ball of radius {down(region.proxy_radius, FINE)})"
        )
    also = [f"of {name} length up to {_length(ball)}" for name, ball in balls.items() if name != "l_inf"]
    also += [f"of every value by up to {_length(ball)}" for name, ball in balls.items() if name == "l_inf"]
    return words + (f", so also {' and '.join(also)}." if also else ".")


def protects(evidence: Evidence) -> str:
    """Whom the sentence protects."""
    return whom(evidence.run, "after" if evidence.note else "not needed" if evidence.for_everyone else "before")


def _answers(e: Evidence) -> str:
    """From when on the answer holds, and whether the system may abstain instead."""
    if not e.note:
        return "gives the same answer"
    return _from_admission(keeps_answers(e.run))


def _from_admission(keeps: bool) -> str:
    return "from its admission on gives the same answer" + ("" if keeps else ", or abstains,")


def _subject(e: Evidence) -> str:
    if e.note:
        return SYSTEM
    if e.for_everyone:
        return "The smoothed classifier"
    return "The smoothed classifier with the noise chosen for this input"


def _length(ball: Implied) -> str:
    text = down(ball.radius, FINE)
    return text if ball.pixels is None else f"{text} ({down(ball.pixels, PIXEL)} in pixel units of 0 to 255)"


def _certainty(e: Evidence) -> str:
    """What the sentence's probability is, and of what."""
    alpha = probability(e.row["alpha"])
    if not e.note:
        return f"The probability that this is wrong is at most {alpha}, over the noise drawn for it."
    if e.note != INHERITED:
        return _memory_certainty(alpha, None)
    if e.promise is None:
        return f"{SURE} region is as certain as the promise that it comes from."
    return _memory_certainty(probability(e.promise.alpha), f"input {e.promise.id}")


def _memory_certainty(alpha: str, whose: str | None) -> str:
    """What is certain behind a memory, and what is not. whose: the input that the votes are of, if it is another."""
    if whose is None:
        return f"{SURE} region is wrong with probability at most {alpha}, over the noise drawn for it."
    return f"{SURE} region, with the noise of {whose}, is wrong with probability at most {alpha}."
