"""Where a report's numbers come from, and how to get them again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anisocert.errors import AnisocertError
from anisocert.evaluate import Comparison, Entry
from anisocert.evaluate.labels import searched
from anisocert.models.loading import is_function
from anisocert.options import flags
from anisocert.report._notes import notes
from anisocert.shell import shell_join

if TYPE_CHECKING:  # a run needs pyarrow
    from anisocert.runs import StoredRun

SHOWN_LAST = ("files", "versions", "numerics")


@dataclass(frozen=True)
class Provenance:
    """A run: what must be known about it, the commands that check and repeat it, and its description."""

    title: str
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    facts: dict[str, str]


def provenance(comparisons: Sequence[Comparison]) -> Iterator[Provenance]:
    """The provenance of every run that is compared."""
    for comparison in comparisons:
        for entry in comparison.entries:
            description = entry.run.description
            check = shell_join(("anisocert", "verify", entry.run.folder)) if entry.run.on_disk else ""
            order = sorted(description, key=lambda name: SHOWN_LAST.index(name) if name in SHOWN_LAST else -1)
            yield Provenance(
                f"{comparison.data}, {comparison.norm}: {_named(entry)} ({len(entry.run):,} inputs)",
                tuple(notes(entry.run)), tuple(filter(None, (check, command(entry)))),
                {name: _text(description[name]) for name in order},
            )  # fmt: skip


def _named(entry: Entry) -> str:
    """The label, and what the search was told, unless the label says it."""
    search = searched(entry.run)
    return entry.label if search in entry.label else entry.label + search


def command(entry: Entry) -> str:
    """The command that repeats a run; empty where its description is not one of `anisocert certify`."""
    folder = entry.run.folder
    try:
        return entry.run.configuration.command(folder.with_name(folder.name + "-again"))
    except AnisocertError:
        return ""


def functions(run: "StoredRun") -> list[str]:
    """Options that name a run's own functions, which must be typed: a run may not name code that is executed."""
    options = {option: str(run.said(option) or "") for option in ("model", "denoise")}
    return list(flags({name: text for name, text in options.items() if is_function(text)}))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items())
    return "none" if value is None else str(value)
