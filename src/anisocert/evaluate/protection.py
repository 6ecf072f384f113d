"""Whom a certificate protects, in the same words wherever a certified accuracy is shown."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from anisocert.memory import Policy
    from anisocert.runs import StoredRun

Stage = Literal["not needed", "before", "after"]

EVERYONE = "certified for everyone"
ADMITTED = "promised from admission on"
OWN = "about one input's own classifier"
OR_ABSTAINS = f"{ADMITTED}: the class or an abstention"
NOBODY = "no system's: chosen with the label"
AT_EACH = ", one radius at a time"  # after any of these, of a curve that takes the best noise level at each radius
SEEN = "The network was trained on these inputs: their share says nothing about others."
# What intervals are about, beyond the inputs themselves: only like inputs are told of.
UNSEEN, ALSO_SEEN = "inputs not seen", "other inputs that the network was trained on"

MEANING = {
    EVERYONE: "one smoothed classifier answers all inputs, so it makes no difference who asks, or in which order",
    ADMITTED: "a system with a memory gives the class to every input in the region that arrives after this one was "
    "admitted; what arrived earlier may have been answered differently",
    OR_ABSTAINS: "the policy of the memory lets the system abstain in the region of an admitted input; it gives no "
    "other class there",
    OWN: "the classifier with the noise chosen for this input; its neighbours are answered with another noise, so "
    "this is not a claim that a system is robust",
    NOBODY: "for each input the noise level that turned out best for its true label, which no system can know",
}


def whom(run: "StoredRun", stage: Stage) -> str:
    """The phrase for a run's results at a stage."""
    if stage != "after":
        return EVERYONE if stage == "not needed" else OWN
    return promised(None if run.memory is None else run.memory.rules)


def promised(policy: "Policy | None") -> str:
    """The phrase for what a memory of this policy keeps.

    Where the policy is not known it is the weaker promise, which is true under all of them.
    """
    return ADMITTED if policy is not None and policy.inherits else OR_ABSTAINS


def keeps_answers(run: "StoredRun") -> bool:
    """Whether the run's memory gives the class everywhere in a promised region, and never abstains there."""
    return whom(run, "after") == ADMITTED


def either(phrases: Iterable[str]) -> str:
    """The phrases that occur, joined by "or"."""
    wanted = set(phrases)
    return " or ".join(phrase for phrase in MEANING if phrase in wanted)


def explained(phrases: Iterable[str]) -> str:
    """What the phrases mean, each once, in the order of their strength."""
    wanted = set(phrases)
    return " ".join(f"“{phrase}”: {MEANING[phrase]}." for phrase in MEANING if phrase in wanted)
