"""`anisocert show`: one input's evidence."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anisocert.cli import options
from anisocert.errors import AnisocertError, ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anisocert.cli.console import Console
    from anisocert.evaluate import Table
    from anisocert.report import Evidence
    from anisocert.runs import StoredRun

EPILOG = "Example: anisocert show runs/demo/l2-anisotropic 15 --out input15.html"


@options.finds(*options.PLACES)
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.", exists=True, file_okay=False)],
    id: Annotated[str, typer.Argument(metavar="ID", help="An example id in the run, or the name of its image file.")],
    out: Annotated[Path | None, typer.Option(help="Also write an HTML page with pictures.", dir_okay=False)] = None,
    recount: Annotated[
        bool, typer.Option("--recount", help="Draw the votes again, to show those of every class.")
    ] = False,
    *,
    places: options.Places,
    device: Annotated[str, typer.Option(help="For --recount: a device of the run's kind.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    force: options.Force = False,
) -> None:
    """Show what was promised about one input, and why: votes, bounds, gap, region, noise, what the memory did.

    It begins with the sentence that may be quoted and what it rests on. Balls of every norm inside the region are
    stated in the units of the input and, for images, in pixel units of 0 to 255; lengths are rounded down.
    """
    from anisocert.cli.console import Console
    from anisocert.durable import claim, write_whole
    from anisocert.report import evidence_of, evidence_page, page_file
    from anisocert.runs import read_run

    if out is not None:
        claim(page_file(out), force)
    stored = read_run(run).moved(**places)
    number = int(id) if id.isascii() and id.isdigit() and len(id) < 19 else _named(stored, id)
    counts = _recounted(stored, number, device) if recount else None
    evidence = evidence_of(stored, number, counts)
    if as_json:
        _print_json(evidence)
    else:
        _print(Console(), evidence)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        text = evidence_page(evidence)
        write_whole(out, lambda part: part.write_text(text, "utf-8"))
        Console(stderr=as_json).tell(f"page: {out}")


def _named(stored: "StoredRun", name: str) -> int:
    """The id of the example whose image file has this name."""
    examples = stored.examples(whole=False)
    ids = examples.named
    if name not in ids:
        like = f", as in {next(iter(ids))}" if ids else ""
        raise ArgumentError(
            f"expected the id of an example in {stored.folder}, or the name of its file{like}, got {name!r}"
        )
    return ids[name]


def _recounted(stored: "StoredRun", number: int, device: str) -> "NDArray[Any]":
    """The votes of every class, after a check that they are those of the run."""
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.verify.recounting import recount

    votes = int(stored.said("n0") or 0) + (stored.row(number)["votes"] or 0)  # an error if it is not in the run
    counts: list[NDArray[Any]] = []
    with Bar(Console(stderr=True), "recounting", "votes", votes) as bar:
        findings = list(
            recount(stored, [number], device, lambda _, votes: counts.append(votes), lambda rows, _: bar.advance(rows))
        )
    if findings and not counts:
        raise AnisocertError(f"expected votes that can be drawn again, got none drawn: {findings[0]}")
    if findings:
        raise AnisocertError(f"expected the run's votes when drawn again, got others: {findings[0]}")
    return counts[0]


def _print(console: "Console", e: "Evidence") -> None:
    from anisocert.evaluate import percent
    from anisocert.report import assumptions, limit_words, region_sentence, sentence
    from anisocert.report.evidence_tables import implied_table, memory_table, vote_counts, votes_table
    from anisocert.report.gallery import NOTES

    file = f" ({e.inputs.names[e.id]})" if e.id in e.inputs.names else ""
    console.print(f"Input {e.id}{file} of {e.comparison.data}: {e.name(e.prediction)}", style="bold")
    console.print(f"{e.label}; {e.row['method']} noise, {e.row['norm']}\n")
    console.print("What may be quoted", style="bold")
    console.print(sentence(e))
    for assumption in assumptions(e):
        console.print(f"- {assumption}")
    console.print("\nRegion", style="bold")
    console.print(region_sentence(e))
    if e.binding is not None:
        _print_table(console, implied_table(e))
    console.print("\nVotes and bounds", style="bold")
    for name, count in vote_counts(e):
        share = count / e.row["votes"]
        console.tell(f"{name:<24} {count:>10,} {percent(share, digits=2):>7}% {'#' * round(share * 30)}")
    _print_table(console, votes_table(e))
    if limited := limit_words(e):
        console.print(limited)
    if e.note:
        console.print("\nMemory", style="bold")
        console.print(NOTES.get(e.note, e.note))
        _print_table(console, memory_table(e))
    if e.inputs.missing:
        console.print(f"\nThe input itself is not at hand: {e.inputs.missing}.")


def _print_table(console: "Console", table: "Table") -> None:
    from rich.table import Table as Drawn

    drawn = Drawn(box=None, show_header=any(column.name for column in table.columns), padding=(0, 2, 0, 0))
    for column in table.columns:
        drawn.add_column(column.name)
    for row in table.rows:
        drawn.add_row(*(str(cell.value) for cell in row))
    console.print(drawn)


def _print_json(e: "Evidence") -> None:
    import json
    from dataclasses import asdict

    from anisocert.report import assumptions, sentence

    document = {
        "id": e.id, "data": e.comparison.data, "label": e.row["label"], "prediction": e.prediction,
        "sentence": sentence(e), "assumptions": assumptions(e), "row": dict(e.row),
        "implied": None if e.binding is None else [asdict(ball) for ball in e.implied(e.binding)],
        "radius": 0.0 if e.binding is None else e.binding.radius,
        "proxy_radius": 0.0 if e.binding is None else e.binding.proxy_radius, "whole": e.whole,
        "promise": None if e.promise is None else e.promise.id,
        "votes": None if e.counts is None else e.counts.tolist(),
    }  # fmt: skip
    typer.echo(json.dumps(document, indent=2))
