"""What a verdict says of a stranger whose input comes before the clean one, measured or not."""

import shlex
from collections.abc import Sequence

from anisocert.evaluate import OWN, Entry, Results, Withstood, nearest, percent


def strangers_words(lines: Sequence[Withstood], at: float, one: Results, confidence: float) -> str:
    """What an attack achieved that came before the clean inputs, near a radius; empty where none was made."""
    attacked = nearest(lines, at)
    if attacked is None:
        return ""
    low, high = attacked.interval(confidence)
    whose = f"certified, each {OWN}" if one.protects == OWN else one.protects
    said = (
        f"A stranger whose input comes before the clean one: right on {percent(attacked.share)} % "
        f"[{percent(low)} to {percent(high, True)}] at radius {attacked.radius:g}, where "
        f"{percent(attacked.certified_share)} % are {whose}; {attacked.otherwise:,} of {attacked.certified:,} "
        "certified inputs were answered otherwise"
    )
    said += f", and {attacked.abstained:,} not at all." if attacked.abstained else "."
    for line in lines:
        if line.radius is None:
            said += f" Searched in their whole regions instead of the ball: {line.otherwise:,} of {line.certified:,}."
    return said + (f" Attacked: {attacked.inputs:,} of the {len(one):,} inputs." * (attacked.inputs < len(one)))


def unmeasured(entry: Entry) -> str:
    """That nobody has tried what a stranger achieves who comes first, where the promise leaves that open."""
    begins = "" if entry.unbound else "The promise begins with admission. "
    command = "" if entry.run.imported else f": anisocert attack {shlex.quote(str(entry.run.folder))} --first does"
    return f"{begins}Nothing here measures what a stranger achieves whose input comes before the clean one{command}."
