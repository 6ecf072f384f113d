"""The sentence about one input that may be quoted, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.evaluate import ADMITTED, OR_ABSTAINS, OWN, down, keeps_answers, probability
from anisocert.evaluate.protection import whom
from anisocert.evaluate.room import REACH, at_reach
from anisocert.geometry import Region
from anisocert.memory import INHERITED
from anisocert.optimize import CODED
from anisocert.report.evidence import Evidence, Implied, implied_balls
from anisocert.smoothing import named

if TYPE_CHECKING:
    from anisocert.runs import StoredRun

OTHER_NOISE = ": a changed input is answered with another noise, so it is not a claim about a system"
MEMORY_REASON = "the memory gives no answer, because an earlier promise leaves no room for this one"
SYSTEM = "The system of smoothed classifier and memory"
SURE = (
    "The memory ensures that, with no probability involved. The statement that the smoothed classifier agrees "
    "everywhere in the"
)
FINE, PIXEL = 4, 2  # decimals of lengths in the input's units, and in pixels


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
    said = _kept(
        f"{account}{_subject(e)} answers {where}", e.name(e.prediction), _answers(e), e.binding, e.implied(e.binding)
    )
    return f"{said} {_certainty(e)} This is {protects(e)}{OTHER_NOISE if protects(e) == OWN else ''}."


def answer_sentence(answer: Certificate, name: str, keeps: bool, unit_range: bool) -> str:
    """The same about the answer that a system has just given. name: of its class.

    keeps: whether the memory's policy lets no region's input abstain. unit_range: whether values are in [0, 1].
    """
    if answer.prediction == ABSTAIN:
        return f"Nothing is promised about this input: {answer.reason or MEMORY_REASON}."
    if answer.region is None:
        return (
            f"The system answers this input with {name}, because it lies on the border of a region promised earlier; "
            "nothing is promised about its surroundings."
        )
    said = _kept(
        f"{SYSTEM} answers this input",
        name,
        _from_admission(keeps),
        answer.region,
        implied_balls(answer.region, unit_range),
    )
    alpha, whose = probability(answer.alpha), "the input that it was promised to"
    sure = _memory_certainty(alpha, whose if answer.note == INHERITED else None)
    return f"{said} {sure} This is {ADMITTED if keeps else OR_ABSTAINS}."


def _kept(subject: str, answer: str, answers: str, region: Region, implied: Sequence[Implied]) -> str:
    """The answer, and the changes after which it stays."""
    balls = {one.norm: one for one in implied}
    own = balls.pop(f"l{region.norm}")
    said = f"{subject} with {answer}, and {answers} after every change of {own.norm} length up to {_length(own)}"
    if region.enclosing_radius > region.radius:
        said += (
            f" (in the directions it is least sensitive to, up to {down(region.enclosing_radius, FINE)}; the region "
            f"holds as much as a ball of radius {down(region.proxy_radius, FINE)})"
        )
    also = [f"of {name} length up to {_length(one)}" for name, one in balls.items() if name != "l_inf"]
    also += [f"of every value by up to {_length(one)}" for name, one in balls.items() if name == "l_inf"]
    return said + (f", so also {' and '.join(also)}." if also else ".")


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


def _length(one: Implied) -> str:
    text = down(one.radius, FINE)
    return text if one.pixels is None else f"{text} ({down(one.pixels, PIXEL)} in pixel units of 0 to 255)"


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


def assumptions(evidence: Evidence) -> list[str]:
    """What the sentence rests on, and what it does not say."""
    return list(_assumptions(evidence))


def _assumptions(e: Evidence) -> Iterator[str]:
    if e.prediction == ABSTAIN:
        yield "An abstention is not a statement about robustness, for or against it."
        return
    yield f"It is about the smoothed classifier: {_classifier(e)}"
    if not e.note:
        yield (
            "The smoothed classifier is an ideal one. In practice it is asked by votes, and then gives this class or "
            "abstains, except with the probability alpha of that question."
        )
    yield "It says that the answer does not change, not that it is right: the label plays no part in it."
    if e.note:
        yield from _about_memory(e)
    elif not e.for_everyone:
        yield (
            "The noise was chosen for this input, and no memory binds other answers to this one: a neighbouring input "
            "has its own noise and may be answered differently. It is not a promise about one system for all inputs."
        )
    yield _together(e.run)
    numerics = e.run.numerics
    noise = (
        f"rounds its inputs to multiples of {numerics.step:g} first, on which noise is drawn exactly"
        if numerics.step
        else "is given noise in float32, which in the last bits is not the distribution of the theory"
    )
    precision = numerics.precision or "the recorded precision"
    yield f"It holds for the network computing in {precision} as it did here; the network {noise}."
    yield "Lengths are in the units of the network's input; decoding, resizing and scaling before it are not covered."


def _classifier(e: Evidence) -> str:
    """Which one it is, in words."""
    noise, hashed = f"{named(e.row['noise']).title} noise", (e.run.model_hash or "unknown")[:12]
    if e.row["method"] not in CODED:
        return (
            f"the class that the network (hash {hashed}) answers most often when {noise} is added to its input, as "
            "strong as the run says. The bare network may answer differently."
        )
    which = {
        "cascade": "the class with more than half of the answers under the first noise, from the largest on, under "
        "which there is one, or else with most answers under the last",
        "selected": "the class that is answered most often under the noise that a selector names, by most of its own "
        "answers under noise",
        "two-step": "the class that is answered most often when a selector names, from one noisy copy of the input, "
        "the noise of the copy that is answered",
    }[e.row["method"]]
    parts = "network or networks and codebook" if e.row["method"] == "cascade" else "network, selector and codebook"
    return (
        f"{which}. The noises are {noise}, as strong as the run's codebook says; {parts} are one function (hash "
        f"{hashed}), and a bare network may answer differently."
    )


def _together(run: StoredRun) -> str:
    """What the probability is of, where there are many such sentences."""
    chosen = "if every input was chosen without knowledge of the noise drawn for it"
    if run.said("simultaneous"):
        return (
            f"All {run.said('inputs'):,} certificates of this run hold together except with probability "
            f"{probability(run.said('alpha'))} at most, {chosen}."
        )
    if run.said("lifetime"):
        return (
            "The smoothed classifier agrees with all promises that the memory ever makes, except with probability "
            f"{probability(run.said('alpha'))} at most, {chosen}."
        )
    return (
        "The probability is for this one input, chosen without knowledge of the noise drawn for it: a secret seed is "
        "not enough where answers to earlier questions used the same noise. Of many such sentences some may be wrong; "
        "where this one was picked as the best of several runs, their probabilities add up."
    )


def _about_memory(e: Evidence) -> Iterator[str]:
    yield (
        "It holds as long as every answer goes through the same memory, with the same network, and for everything that "
        "arrives later, whoever sends it. What arrived before this input may have been answered differently."
    )
    if not keeps_answers(e.run):
        yield (
            "The memory's policy lets the system abstain inside the region: a changed input may get no answer, "
            "but no other class."
        )
    if e.note == INHERITED:
        whose = f" to input {e.promise.id}" if e.promise is not None else ""
        yield (
            f"The answer is inherited: the input lies in a region promised earlier{whose}, and the votes that it rests "
            "on are those of that input."
        )
    if not e.whole:
        yield (
            "The memory's file is not at hand, or does not hold this promise, so only the ball that the run's row "
            "claims is stated: nothing was derived from the memory."
        )


def region_words(region: Region, norm: str) -> str:
    """The region in one line."""
    if region.radius == region.enclosing_radius:
        return f"a ball of {norm} radius {down(region.radius, FINE)}"
    kind = "an ellipsoid" if region.norm == 2 else "a cross-polytope"
    return (
        f"{kind} with half-widths from {down(region.radius, FINE)} to {down(region.enclosing_radius, FINE)}, "
        f"of the volume of a ball of radius {down(region.proxy_radius, FINE)}"
    )


def region_sentence(evidence: Evidence) -> str:
    """What is promised in the end, in one sentence."""
    if evidence.binding is None:
        return "There is none."
    return f"It is {region_words(evidence.binding, str(evidence.row['norm']))}, around the input."


def limit_words(evidence: Evidence) -> str:
    """Says what bounded the search for theta, and how much of the region is in the run's domain; empty if unknown."""
    return " ".join(_limits(evidence))


def _limits(evidence: Evidence) -> Iterator[str]:
    e = evidence
    shape = e.theta.shape or e.inputs.shape
    if "limit" not in e.run.description or shape is None:
        return
    c = e.run.configuration
    if c.at_limit(e.row["theta_max"], shape):
        bound = f"{c.chooser().limit_for(shape):g} x {c.sigma:g} (--limit)"
        yield f"The search for its noise θ ended at its bound, {bound}: with a higher bound, more may be certified."
    if e.region is None or e.id not in e.inputs.x:
        return
    if c.bounded_reach and at_reach(e.region):
        yield f"The region {REACH}."
    if c.domain is not None:
        low, high = c.domain
        size = down(e.region.proxy_radius_inside(low, high), FINE)
        yield f"The part of it in the domain, {low:g} to {high:g}, has a proxy radius of {size}."
