"""Where a report's numbers come from, and how to get them again."""

import shlex
from collections.abc import Sequence
from typing import Any

from anisocert.errors import AnisocertError
from anisocert.evaluate import Comparison, Entry, paper_source, published
from anisocert.report.html import tag, words
from anisocert.report.notes import notes

SHOWN_LAST = ("files", "versions", "numerics")


def provenance(comparisons: Sequence[Comparison]) -> str:
    """The section with each run's configuration, its command and what vouches for it."""
    parts = [
        words("h2", "How to reproduce"),
        words("p", "A run made here holds the votes and the noise of each certificate. The first command recomputes "
              "the certificates from them and checks the files, and says what it could not recompute; the second, "
              "where there is one, certifies anew."),
    ]  # fmt: skip
    for comparison in comparisons:
        parts += [_run(comparison, entry) for entry in comparison.entries]
    if any(published(c.data, c.norm, c.entries[0].recipe) for c in comparisons):
        parts.append(words("p", f"The paper's numbers: {paper_source()}", class_="small soft"))
    return tag("section", *parts, id="reproduce")


def _run(comparison: Comparison, entry: Entry) -> str:
    said = entry.run.description
    commands = [shlex.join(("anisocert", "verify", str(entry.run.folder)))]
    again = command(said, entry)
    if again:
        commands.append(again)
    order = [name for name in said if name not in SHOWN_LAST] + [name for name in SHOWN_LAST if name in said]
    lines = "".join(words("dt", name) + words("dd", _text(said[name])) for name in order)
    title = f"{comparison.data}, {comparison.norm}: {entry.label} ({len(entry.run):,} inputs)"
    known = [words("p", note, class_="caution") for note in notes(entry.run)]
    return tag("details", words("summary", title), *known, words("pre", "\n".join(commands)), tag("dl", lines))


def command(said: dict[str, Any], entry: Entry) -> str:
    """The command that repeats a run; empty where its description is not one of `anisocert certify`."""
    from anisocert.runs.configuration import Configuration

    try:
        return Configuration.from_dict(said).command(entry.run.folder.with_name(entry.run.folder.name + "-again"))
    except (AnisocertError, KeyError, TypeError, ValueError, AttributeError):
        return ""


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items())
    return "none" if value is None else str(value)
