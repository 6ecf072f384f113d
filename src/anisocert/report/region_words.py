"""The region of one input in words, and what bounded the search for it."""

from collections.abc import Iterator

from anisocert.evaluate import down
from anisocert.evaluate.room import REACH, at_reach
from anisocert.geometry import Region
from anisocert.report.evidence import Evidence

FINE, PIXEL = 4, 2  # decimals of lengths in the input's units, and in pixels


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
