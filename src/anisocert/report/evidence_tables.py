"""What one input's evidence says in numbers, for a terminal as for a page."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from anisocert.certificate import ABSTAIN
from anisocert.evaluate import Cell, Column, Table, above, down, probability
from anisocert.memory import INHERITED
from anisocert.optimize import Cascade
from anisocert.report.evidence import Evidence
from anisocert.report.region_words import FINE, PIXEL, region_words


def implied_table(e: Evidence) -> Table:
    """The balls inside the region that is promised in the end."""
    assert e.binding is not None
    balls = e.implied(e.binding)
    columns = [Column("ball inside the region"), Column("radius")]
    pixels = [Column("in pixel units, 0 to 255")] if balls[0].pixels is not None else []
    rows = []
    for ball in balls:
        row = [Cell(ball.norm.replace("_inf", "∞")), Cell(down(ball.radius, FINE))]
        rows.append((*row, *([Cell(down(ball.pixels, PIXEL))] if ball.pixels is not None else [])))
    return Table("", tuple(columns + pixels), tuple(rows))


def votes_table(e: Evidence) -> Table:
    """The numbers that the certificate follows from."""
    row = e.row
    facts = {
        "votes": f"{row['votes']:,}", f"for {_top(e)}": f"{row['top_votes']:,}",
        "for the next class": f"{row['runner_up_votes']:,}", "bound": str(row["bound"]),
        "taken after": f"{row['bound_n']:,} votes ({row['bound_k']:,} for the class)",
        "alpha": probability(row["alpha"]),
        "lower bound of its share, p_A": down(row["p_a"], 6), "upper bound of any other's, p_B": above(row["p_b"], 6),
        "gap r": down(row["gap"], FINE), "noise θ": _theta(e),
    }  # fmt: skip
    if row.get("codes") is not None:
        facts |= _codes(row)
    if row["reason"]:
        facts["why it abstains"] = str(row["reason"])
    if e.note == INHERITED:
        facts["note"] = "these are the votes on this input itself; the answer rests on those of the promise"
    return _facts(facts)


def _codes(row: Mapping[str, Any]) -> dict[str, str]:
    """How the code of this noise was chosen."""
    *before, own = row["codes"].split(",")
    far = {} if row["cap"] is None else {"how far that surely holds": down(row["cap"], FINE)}
    if row["method"] != Cascade.name:
        by = f"{row['codes']}, by {row['selector_top']:,} of {row['selector_votes']:,} votes under noise of "
        return {"code that the selector names": by + f"{row['selector_sigma']:.4g}"} | far
    if not before:
        return {"code that answers": f"{own}, which is asked first"}
    most = f"{row['selector_votes'] - row['selector_top']:,} of {row['selector_votes']:,} votes"
    outcome = f"no other class has a majority under code {', '.join(before)}: at most {most} under noise of "
    return {"code that answers": own, "codes asked before": outcome + f"{row['selector_sigma']:.4g}"} | far


def memory_table(e: Evidence) -> Table:
    """What was proposed to the memory, and what it did with it."""
    row, facts = e.row, dict[str, str]()
    facts["proposed"] = e.name(int(row["prediction"]))
    if e.region is not None:
        facts["proposed region"] = region_words(e.region, str(row["norm"]))
    facts["what it did"] = e.note
    facts["answer"] = e.name(e.prediction)
    if e.binding is not None:
        kept = region_words(e.binding, str(row["norm"]))
        facts["promised region"] = kept if e.whole else f"at least {kept}"
    if e.promise is not None and e.note == INHERITED:
        facts["promised to"] = f"input {e.promise.id}"
    return _facts(facts)


def _facts(facts: dict[str, str]) -> Table:
    rows = tuple((Cell(name), Cell(value)) for name, value in facts.items())
    return Table("", (Column(""), Column("")), rows)


def _top(e: Evidence) -> str:
    """The class that the votes are of: an abstention does not say which."""
    return "the leading class" if e.row["prediction"] == ABSTAIN else e.name(int(e.row["prediction"]))


def _theta(e: Evidence) -> str:
    low, high = float(e.theta.min()), float(e.theta.max())
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, geometric mean {e.row['theta_geomean']:.4g}"


def vote_counts(e: Evidence) -> list[tuple[str, int]]:
    """(class, votes), most first."""
    if e.counts is not None:
        order = np.argsort(-e.counts, kind="stable")
        return [(e.name(int(label)), int(e.counts[label])) for label in order if e.counts[label]]
    rest = e.row["votes"] - e.row["top_votes"]
    # The runner-up's votes are those among the first bound_n; where all were counted by then, the rest is known too.
    if e.row["bound_n"] == e.row["votes"]:
        second = e.row["runner_up_votes"]
        rows = [(_top(e), e.row["top_votes"]), ("the next class", second), ("all others", rest - second)]
        return [row for row in rows if row[1]]
    return [(_top(e), e.row["top_votes"]), ("all other classes", rest)]
