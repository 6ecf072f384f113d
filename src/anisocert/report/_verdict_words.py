"""Sentences of a verdict after the first: scale, rivals, certainty, what the promise requires, what is not said."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anisocert.appearance import APPEARANCES
from anisocert.evaluate import (
    EVERYONE,
    OR_ABSTAINS,
    OWN,
    Comparison,
    Entry,
    Results,
    down,
    percent,
    probability,
    short_down,
    times,
)
from anisocert.evaluate.protection import SEEN
from anisocert.evaluate.tables import RHO
from anisocert.report._notes import notes
from anisocert.report._stranger import unmeasured


def scale_words(norm: str, at: float, dim: int | None, unit_range: bool) -> str:
    """What a length means in pixels."""
    if dim is None:
        return ""
    each = at / dim if norm == "l1" else at / np.sqrt(dim)
    unit = "of its whole range" if unit_range else "in the input's own units"
    one = f"one value changed by up to {at:g} {unit}" if at < 1 or not unit_range else "any one value changed at will"
    return (
        f"For scale: that covers {one}, each of the {dim:,} values changed by {short_down(each, 2)} at once, and "
        f"everything between these with the same {norm} length."
        + (f" In pixel units of 0 to 255 these are {_pixels(at)} and {_pixels(each)}." if unit_range else "")
    )


def _pixels(length: float) -> str:
    return short_down(255 * length, 3)


def rivals_words(comparison: Comparison, entry: Entry) -> str:
    """How the headline run compares with the run of fixed noise at the same level."""
    results, fixed = entry.binding, comparison.beside(entry, "fixed")
    if results.method == "fixed" or fixed is None or (base := fixed.binding).mean() == 0:
        return ""
    words = (
        f"Against {APPEARANCES['fixed'].words}: the certified radius is {times(results.mean() / base.mean(), 2)} times "
        f"as large on average ({down(results.mean())} against {down(base.mean())})"
    )
    if results.knows("proxy_radius") and base.knows("proxy_radius"):
        proxy, base_proxy = results.mean("proxy_radius"), base.mean("proxy_radius")
        words += (
            f", and the regions hold as much as balls {times(proxy / base_proxy, 2)} times as wide ({down(proxy)} "
            f"against {down(base_proxy)})"
        )
    if results.protects != base.protects:
        words += f". The promises differ: that of fixed noise is {base.protects}, this one {results.protects}"
    return words + "."


def certainty_words(comparison: Comparison, one: Results, at: float) -> str:
    """What the probability is of. Any of the contenders might have been chosen, so that their alphas add up."""
    alpha = comparison.headline_alpha
    if alpha is None:
        return "The source of these results does not say how certain each statement is."
    most = f"at most {probability(alpha)}{_added(comparison)}"
    if one.stage == "after":
        return (
            "The memory keeps its promises with no probability involved. The statement that the smoothed classifier "
            f"agrees with a given promise of this run, everywhere in its region, is wrong with probability {most}."
        )
    held = float(replace(one, alpha=alpha).claim(at, RHO)[0])
    return (
        f"Each of these statements is wrong with probability {most}. For all {len(one):,} together: at least "
        f"{percent(held)} % hold, with probability {1 - RHO:g}. Both probabilities are over noise drawn "
        "separately for each input."
    )


def _added(comparison: Comparison) -> str:
    """Whose alphas make up a probability; empty where there is only one."""
    runs = sum(not entry.again for entry in comparison.contenders)
    return f" (the α of {runs} runs together, of which the best is shown)" if runs > 1 else ""


def system_words(one: Results) -> str:
    """What the promise requires, and who may rely on it."""
    if one.protects == EVERYONE:
        return "One classifier answers all inputs: its certificates need no memory."
    if one.stage != "after":
        return ""
    words = (
        "All answers have been through one memory, in order of arrival. A promise begins when its input is admitted "
        "and lasts as long as all answers go through that memory; an input that came earlier may have been answered "
        "differently, even within the radius."
    )
    if one.protects == OR_ABSTAINS:
        words += (
            " Its policy lets the system abstain inside a promised region (inherit does not): a small change to an "
            "input may take its answer away, but cannot replace it by another."
        )
    return words


def cautions_words(comparison: Comparison, entry: Entry, at: float) -> Iterator[str]:
    """What the numbers do not say."""
    if entry.seen:
        yield SEEN
    if entry.unbound:
        yield (
            "These certificates have not been through a memory. The noise depends on the input, so each one is "
            f"{OWN}: together they promise nothing about one system that answers all inputs. A memory (anisocert "
            "memory --help) turns them into such a promise, and may shrink regions."
        )
    if entry.before.stage == "before" and (caution := unmeasured(entry, at)):
        yield caution
    if entry.before.stage == "before" and entry.after is not None:
        lost = entry.before.mean() - entry.after.mean()
        if lost > 0.005 * entry.before.mean():
            yield (
                f"The memory has a price: the average radius was {down(entry.before.mean())} before it "
                f"({entry.before.protects}) and is {down(entry.after.mean())} after it ({entry.after.protects}). The "
                "numbers here are those after it."
            )
    rivals = comparison.contenders
    if len(rivals) > 1:
        yield (
            f"Of {len(rivals)} runs compared ({', '.join(rival.label for rival in rivals)}), this is the one with the "
            "largest average radius on these very inputs: on others it may be smaller."
        )
    yield from notes(entry.run)


def nothing_words(entry: Entry) -> str:
    """Why no input is certified, as far as the run knows."""
    words = f"None of the {len(entry.before):,} inputs has a correct certificate of positive size."
    if "reason" in entry.run.table.column_names:
        reasons = [reason for reason in entry.run.table["reason"].to_pylist() if reason]
        if reasons:
            words += f" The first abstention: {reasons[0]}."
    return words
