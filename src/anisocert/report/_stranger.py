"""What a verdict says of a stranger whose input comes before the clean one, measured or not."""

from anisocert.evaluate import OWN, Entry, effort, nearest, percent, probability, short_down, withstood
from anisocert.report._provenance import functions
from anisocert.shell import shell_join


def strangers_words(entry: Entry, at: float, confidence: float) -> str:
    """What an attack achieved, near a radius, before the system saw the clean inputs; empty where none was made."""
    lines, results = withstood(entry), entry.binding
    attacked = nearest(lines, at)
    if attacked is None:
        return ""
    low, high = attacked.interval(confidence)
    whose = f"certified, each {OWN}" if results.protects == OWN else results.protects
    words = (
        f"A stranger whose input comes before the clean one: right on {percent(attacked.share)} % "
        f"[{percent(low)} to {percent(high, True)}] at radius {short_down(attacked.radius or 0.0, 6)}, where "
        f"{percent(attacked.certified_share)} % are {whose}; {attacked.otherwise:,} of {attacked.certified:,} "
        "certified inputs were answered otherwise"
    )
    words += f", and {attacked.abstained:,} not at all." if attacked.abstained else "."
    for line in lines:
        if line.radius is None:
            words += f" Searched in their whole regions instead of the ball: {line.otherwise:,} of {line.certified:,}"
            words += f", and {line.abstained:,} not answered at all." if line.abstained else "."
    return f"{words} The attack: {effort(entry.run)}."


def unmeasured(entry: Entry, at: float) -> str:
    """That nobody has measured, near a radius, what a stranger achieves who comes first; empty where somebody has."""
    lines = withstood(entry)
    if nearest(lines, at) is not None or (lines and not at):
        return ""
    begins = "" if entry.unbound else "The promise begins with admission. "
    here = f", at radius {at:g}" if lines else ""
    # with those that are kept
    radii = sorted({line.radius for line in lines if line.radius} | ({at} if lines else set()))
    options = [word for radius in radii for word in ("--radius", f"{radius:g}")]
    command = shell_join(("anisocert", "attack", entry.run.folder, "--first", *options, *functions(entry.run)))
    can_run = entry.run.on_disk and not entry.run.imported and entry.before.labelled  # it needs labels
    does = f": {command} does" if can_run else ""
    return f"{begins}Nothing here measures what a stranger achieves whose input comes before the clean one{here}{does}."


def contradicted(entry: Entry) -> str:
    """That an attack contradicts a run which is certified for everyone; empty where it does not."""
    attack = entry.run.attacked
    if attack is None or attack.expected is None or not attack.failed:
        return ""
    return (
        f"Do not rely on {entry.label} ({entry.run.folder}): in {attack.otherwise_inside():,} of its "
        f"{attack.has_region.sum():,} regions an attack was answered with another class, where errors lead one to "
        f"expect {probability(attack.expected)}. One classifier answers all inputs, so something is wrong with the "
        "run, with its network, or with this program."
    )
