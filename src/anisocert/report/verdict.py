"""What a comparison says, in words that need no paper."""

from dataclasses import dataclass

import numpy as np

from anisocert.evaluate import Comparison, Entry, Results, down, percent, short_down, wilson
from anisocert.evaluate.tables import RHO

WORDS = {
    "fixed": "the same noise for every input",
    "average": "one shaped noise for every input",
    "isotropic": "noise whose strength is chosen for each input",
    "anisotropic": "noise whose shape is chosen for each input",
}


@dataclass(frozen=True)
class Tile:
    """A number to see first."""

    value: str
    name: str
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """lead: the one sentence; points: the next ones; caution: what the numbers do not say, empty if nothing."""

    title: str
    lead: str
    points: tuple[str, ...]
    caution: str
    tiles: tuple[Tile, ...]


def verdict(comparison: Comparison, dim: int | None = None, unit_range: bool = False) -> Verdict:
    """The verdict on a comparison's headline run. dim: values an input has; unit_range: whether they are in [0, 1]."""
    entry = comparison.headline
    one = entry.binding
    at = telling_radius(one)
    share = float(one.accuracy(at)[0])
    low, high = (float(end) for end in wilson(round(share * len(one)), len(one)))
    title = f"{comparison.norm}: {WORDS.get(one.method, one.label)}"
    tiles = (
        Tile(f"{percent(one.accuracy(0)[0])} %", "answered correctly", f"of {len(one):,} inputs"),
        Tile(
            f"{percent(share)} %",
            f"proven at radius {at:g}",
            f"95 % confidence {percent(low)} to {percent(high, True)} %",
        ),
        Tile(down(one.median()), "median radius", f"half of the inputs reach it, in {comparison.norm}"),
        Tile(f"{percent(one.abstention)} %", "without an answer", "the classifier abstains"),
    )
    if at == 0:
        return Verdict(title, _nothing(entry), (), _caution(comparison, entry), tiles)
    lead = (
        f"{percent(share)} % of the {len(one):,} inputs are answered correctly and provably keep that answer under "
        f"every change of {comparison.norm} length up to {at:g}."
    )
    points = [
        _scale(comparison.norm, at, dim, unit_range), _rivals(comparison, entry), _certainty(one, at), _system(entry),
    ]  # fmt: skip
    return Verdict(title, lead, tuple(point for point in points if point), _caution(comparison, entry), tiles)


def telling_radius(one: Results) -> float:
    """A round radius that about half of the inputs reach, or a quarter, or any; 0 if none is certified."""
    sizes = one.certified()
    for share in (0.5, 0.75, 0.95, 1.0):
        size = float(np.quantile(sizes, share, method="lower"))
        if size > 0:
            power = 10.0 ** np.floor(np.log10(size))
            return max(float(f"{power * unit:.3g}") for unit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if power * unit <= size)
    return 0.0


def _scale(norm: str, at: float, dim: int | None, unit_range: bool) -> str:
    """What a length means in pixels."""
    if dim is None:
        return ""
    each = at / dim if norm == "l1" else at / np.sqrt(dim)
    of = "of its whole range" if unit_range else "in the input's own units"
    one = f"one value changed by up to {at:g} {of}" if at < 1 or not unit_range else "any one value changed at will"
    return (
        f"For scale: that covers {one}, each of the {dim:,} values changed by {short_down(each, 2)} at once, and "
        f"everything between these with the same {norm} length."
        + (f" In pixel units of 0 to 255 these are {_pixels(at)} and {_pixels(each)}." if unit_range else "")
    )


def _pixels(length: float) -> str:
    return short_down(255 * length, 3)


def _rivals(comparison: Comparison, entry: Entry) -> str:
    """How the headline run compares with the run of fixed noise at the same level."""
    one = entry.binding
    fixed = [e.binding for e in comparison.entries if e.before.method == "fixed" and e.before.sigma == one.sigma]
    if one.method == "fixed" or not fixed or fixed[0].mean() == 0:
        return ""
    base = fixed[0]
    said = (
        f"Against {WORDS['fixed']}: the certified radius is {one.mean() / base.mean():.2f} times as large on average "
        f"({down(one.mean())} against {down(base.mean())})"
    )
    if one.knows("proxy_radius") and base.knows("proxy_radius"):
        said += (
            f", and the regions hold as much as balls {one.mean('proxy_radius') / base.mean('proxy_radius'):.2f} times "
            f"as wide ({down(one.mean('proxy_radius'))} against {down(base.mean('proxy_radius'))})"
        )
    return said + "."


def _certainty(one: Results, at: float) -> str:
    if one.alpha is None:
        return "How certain each statement is, the source of these results does not say."
    return (
        f"Each of these statements is wrong with probability at most {one.alpha:g}. For all {len(one):,} together: at "
        f"least {percent(float(one.claim(at, RHO)[0]))} % hold, with probability {1 - RHO:g}."
    )


def _system(entry: Entry) -> str:
    """Whether the certificates are promises of one system."""
    if entry.before.stage == "not needed":
        return "One noise serves all inputs, so that the certificates are promises of one system, without any memory."
    if entry.after is not None:
        return "All answers have been through a memory, so that the certificates are promises of one system."
    return ""


def _caution(comparison: Comparison, entry: Entry) -> str:
    if entry.unbound:
        return (
            "These certificates have not been through a memory. The noise depends on the input, so that each one is "
            "about its own input's classifier: together they are no promise about one system that answers all inputs. "
            "A memory (anisocert memory --help) makes them one, and may shrink regions."
        )
    if entry.before.stage == "before" and entry.after is not None:
        lost = entry.before.mean() - entry.after.mean()
        if lost > 0.005 * entry.before.mean():
            return (
                f"The memory had its price: the average radius was {down(entry.before.mean())} before it and is "
                f"{down(entry.after.mean())} after it. The numbers here are those after it."
            )
    if len(comparison.sigmas) > 1:
        return (
            f"Of {len(comparison.sigmas)} noise levels, this is the one with the largest average radius on these "
            "very inputs: on others it may be a little less."
        )
    return ""


def _nothing(entry: Entry) -> str:
    """Why no input is certified, as far as the run knows."""
    said = f"No input has a correct certificate of positive size, out of {len(entry.before):,}."
    if "reason" in entry.run.table.column_names:
        reasons = [reason for reason in entry.run.table["reason"].to_pylist() if reason]
        if reasons:
            said += f" The first abstention: {reasons[0]}."
    return said
