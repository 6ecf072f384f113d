"""`anisocert verify`: whether a run is what it claims to be."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import FAILED, keeping, options

EPILOG = "Example: anisocert verify runs/demo/l2-fixed --recount 10"
NOT_ALL = 3
VOTERS = ("model", "denoise", "codebook", "selector")  # what nothing looks at unless votes are drawn again

if TYPE_CHECKING:
    from anisocert.runs import StoredRun
    from anisocert.verify import Verification


@options.finds(*options.PLACES)
@keeping("nothing is kept of what was checked, and the run is as it was; the same command begins anew")
def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.", exists=True, file_okay=False)],
    recount: Annotated[
        int, typer.Option(min=0, metavar="K", help="Draw the votes of K rows again, chosen at random.")
    ] = 0,
    *,
    fresh: Annotated[
        int, typer.Option(min=0, metavar="N", help="For --recount: draw N votes per row with a new seed instead.")
    ] = 0,
    places: options.Places,
    device: Annotated[
        str, typer.Option(help="For --recount: auto, cpu, cuda, ...; a device of the run's kind.")
    ] = "auto",
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a run's files, and recompute every row from its votes and theta; print one line per fault.

    It finds any changed byte (SHA-256 of every file, and of run.json by itself), and a row that claims more than its
    votes, alpha and theta give, even if someone made the checksums fit. A memory's answers are derived again from
    the memory, which is checked first.

    It cannot tell votes that a network cast from votes that someone made up. --recount can, for the rows it draws
    again with the same network, data, noise and arithmetic, on the kind of device that the run was made on; it also
    finds examples that were left out. Only for that are --model, --denoise, --codebook and --selector, and --data
    where the run went through no memory. You must know yourself whether network, data and seed are the ones you
    believe them to be.

    Nor can it tell a theta, or a number of votes, that was chosen by the very votes that certify it; alpha is then not
    the probability of an error. --recount K --fresh N draws N votes under the stored theta of K rows, with a random
    seed that nobody can have known, and finds rows whose p_a or p_b they contradict. A row that is right is named with
    probability 0.001; one that claims too much, by no more than chance moves N votes, is not found: take many.

    Nothing that a run names is executed. A network or denoiser that is a function runs only if you type it.

    Exit codes: 0 everything was recomputed and nothing is wrong, 1 something is wrong, 2 wrong usage, 3 nothing wrong
    was found, but not everything could be recomputed.
    """
    from anisocert.verify import verify as check

    given = {"fresh": fresh, "device": device != "auto", **{name: places[name] is not None for name in VOTERS}}
    _expect_recount(recount, [name for name, value in given.items() if value])
    result = check(run, places["memory"], places["data"])
    if result.run is not None and not result.run.has_memory:  # whose answers are derived again from the inputs
        _expect_recount(recount, ["data"] if places["data"] is not None else [])
    recounted: list[int] = []
    if recount and result.run is not None:
        result, recounted = _recounted(result, result.run.moved(**places), recount, device, fresh)
    if json_:
        _print_json(run, result, recounted)
    else:
        undone = (f"not recomputed: {reason}" for reason in result.undone)
        for line in (*result.findings, *undone, *(f"note: {note}" for note in result.notes)):
            typer.echo(line)
        typer.echo(_summary(run, result, recounted, fresh))
    if not result.ok or result.undone:
        raise typer.Exit(NOT_ALL if result.ok else FAILED)


def _expect_recount(count: int, names: list[str]) -> None:
    """An error if options were given that are about the votes of rows, and no rows: nothing would heed them."""
    if names and not count:
        raise typer.BadParameter(
            f"expected --recount K with --{names[0]}, the number of rows to draw votes for, got none"
        )


def _recounted(
    result: "Verification", run: "StoredRun", count: int, device: str, fresh: int
) -> "tuple[Verification, list[int]]":
    """The verification with the findings of some rows' votes, drawn again, and which rows these are."""
    import secrets
    from dataclasses import replace

    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.verify.recounting import other_versions, pick, recount

    drawn = list[int]()
    ids, notes = pick(run, count), other_versions(run)
    new = (fresh, secrets.randbits(64)) if fresh else None
    votes = sum(fresh or int(run.said("n0") or 0) + (run.row(number)["votes"] or 0) for number in ids)
    with Bar(Console(stderr=True), "recounting", "votes", votes) as bar:
        again = recount(
            run, ids, device, lambda number, _: drawn.append(number), lambda rows, _: bar.advance(rows), new
        )
        findings = tuple(finding for finding in again if finding not in result.findings)
    if new is not None:
        notes.append(f"fresh votes are those of seed {new[1]}")
    elif findings and notes:
        notes.append("other versions can round differently: a difference of a few votes need not be anyone's fault")
    return replace(result, findings=result.findings + findings, notes=(*result.notes, *notes)), drawn


def _summary(run: Path, result: "Verification", recounted: list[int], fresh: int) -> str:
    done = f"{result.files} files checked, {result.rows} rows recomputed"
    if recounted:
        how = f"{fresh:,} fresh votes each for {len(recounted)}" if fresh else f"votes of {len(recounted)} drawn again"
        done += f", {how} (ids {', '.join(map(str, recounted))})"
    if result.ok:
        verdict = "nothing wrong found, but not everything was recomputed" if result.undone else "nothing wrong"
        return f"{run}: {verdict}; {done}"
    return f"{run}: {len(result.findings)} thing{'s' * (len(result.findings) > 1)} wrong; {done}"


def _print_json(run: Path, result: "Verification", recounted: list[int]) -> None:
    import json
    from dataclasses import asdict

    document = {
        "run": str(run), "ok": result.ok, "findings": [asdict(finding) for finding in result.findings],
        "not_recomputed": list(result.undone), "notes": list(result.notes), "files": result.files, "rows": result.rows,
        "recounted": recounted,
    }  # fmt: skip
    typer.echo(json.dumps(document, indent=2))
