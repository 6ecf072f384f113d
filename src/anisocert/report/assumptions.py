"""What the sentence about one input rests on, and what it does not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from anisocert.appearance import APPEARANCES
from anisocert.certificate import ABSTAIN
from anisocert.evaluate import keeps_answers, probability
from anisocert.memory import INHERITED
from anisocert.optimize import CODED, SELECTING
from anisocert.report.evidence import Evidence
from anisocert.smoothing import named

if TYPE_CHECKING:
    from anisocert.runs import StoredRun


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
    parts = "network, selector and codebook" if e.row["method"] in SELECTING else "network or networks and codebook"
    return (
        f"{APPEARANCES[e.row['method']].classifier}. The noises are {noise}, as strong as the run's codebook says; "
        f"{parts} are one function (hash {hashed}), and a bare network may answer differently."
    )


def _together(run: StoredRun) -> str:
    """What the probability is of, where there are many such sentences."""
    condition = "if every input was chosen without knowledge of the noise drawn for it"
    if run.said("simultaneous"):
        return (
            f"All {run.said('inputs'):,} certificates of this run hold together except with probability "
            f"{probability(run.said('alpha'))} at most, {condition}."
        )
    if run.said("lifetime"):
        return (
            "The smoothed classifier agrees with all promises that the memory ever makes, except with probability "
            f"{probability(run.said('alpha'))} at most, {condition}."
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
