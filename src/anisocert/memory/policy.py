"""What the system answers, given what it has promised before: the cases, for each policy.

The paper's Algorithm 2 (appendix "Memory-based Certification") abstains where a newcomer lies in a region of another
class, which breaks the promise made for that region. `inherit`, the default, keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.errors import expect_one_of
from anisocert.geometry import Region

NOTES = KEPT, SHRUNK, INHERITED, ABSTAINED = "kept", "shrunk", "inherited", "abstained"


@dataclass(frozen=True)
class Policy:
    """inherits: an input in a stored region gets that region's class. shrinks: a region makes room for earlier ones."""

    name: str
    inherits: bool
    shrinks: bool


POLICIES: Final = {
    policy.name: policy
    for policy in (
        Policy("inherit", inherits=True, shrinks=True),
        Policy("abstain", inherits=False, shrinks=True),
        Policy("worst-case", inherits=False, shrinks=False),
    )
}


def policy_named(name: str) -> Policy:
    """The policy of that name."""
    expect_one_of("policy", name, POLICIES)
    return POLICIES[name]


def settle(
    policy: Policy, proposed: Certificate, covering: Certificate | None, fit: Callable[[Region], Region | None]
) -> Certificate:
    """The system's answer to one input.

    Args:
        policy: how conflicts are settled.
        proposed: the smoothed classifier's certificate of the input.
        covering: the stored promise whose region contains the input, its region already the copy around the input.
        fit: the largest region inside the proposed one that meets no stored region of another class; None: no room.

    Returns:
        A certificate with a note; kept and shrunk ones are to be stored.
    """
    answers = proposed.region is not None
    if covering is not None and not (answers and covering.prediction == proposed.prediction):
        if policy.inherits:
            return inherited(covering, proposed)
        return abstained(proposed, f"lies in the region promised to class {covering.prediction} (input {covering.id})")
    if proposed.region is None:
        return abstained(proposed, proposed.reason)
    # Also where the input lies in a stored region of its own class: its own region reaches beyond that one.
    region = fit(proposed.region)
    if region is None:
        if covering is not None and policy.inherits:
            return inherited(covering, proposed)
        return abstained(proposed, "its region meets one that was promised to another class, and no room is left")
    return replace(proposed, region=region, note=KEPT if region is proposed.region else SHRUNK)


def inherited(covering: Certificate, proposed: Certificate) -> Certificate:
    """The earlier promise, restricted to the newcomer's surroundings; the evidence is that of the promise."""
    where = "inside" if covering.region is not None else "on the boundary of"
    reason = f"{where} the region promised to input {covering.id}"
    if covering.id == proposed.id:
        reason = "answered before, from different votes: that promise stands"
    return replace(covering, id=proposed.id, seconds=proposed.seconds, note=INHERITED, reason=reason)


def abstained(proposed: Certificate, reason: str) -> Certificate:
    """No answer, and no promise."""
    x = proposed.x if proposed.region is None else proposed.region.center
    return replace(proposed, prediction=ABSTAIN, gap=0.0, region=None, note=ABSTAINED, reason=reason, x=x)
