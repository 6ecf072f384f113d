"""`anisocert memory`: what was promised, and whether it can be kept."""

from pathlib import Path
from typing import Annotated

import typer

from anisocert.cli import options
from anisocert.errors import ArgumentError

app = typer.Typer(
    no_args_is_help=True,
    help="The certificate memory: add a run, look inputs up, prove that all promises can be kept. It is a file or, as "
    "postgresql://..., in a database, and holds raw inputs: protect it like them.",
)

File = Annotated[
    str, typer.Argument(metavar="FILE", help="The memory: a file or a URL.", callback=options.memory_there)
]
Inputs = Annotated[
    Path | None,
    typer.Option(help="An .npz file with the inputs as the network sees them (x) and their ids (ids).", exists=True),
]


@app.command("add", epilog="Example: anisocert memory add runs/demo --memory memory.sqlite")
def add(
    run: Annotated[Path, typer.Argument(help="A finished run.")],
    memory: Annotated[str, typer.Option("--memory", help="The memory; created if it does not exist.")],
    policy: Annotated[
        str | None,
        typer.Option("--memory-policy", help="For a new memory: inherit, abstain or worst-case. Default: inherit."),
    ] = None,
    prefer: options.MemoryPrefer = "volume",
    inputs: Inputs = None,
    data: Annotated[str | None, typer.Option(help=options.PLACES["data"])] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for a copy of the run with these answers; the run stays as it is.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace the answers of another memory in the run, or of this one, or what is in --out."
        ),
    ] = False,
) -> None:
    """Pass a run through a memory in order of example id, and record its answers in the run (columns memory_*).

    If it is interrupted, the same command resumes, with the same answers; so it does once it is done. With --force a
    memory that has answered is asked again: an input that abstained may by now lie in the region of a later one.
    """
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.data.numpy_files import inputs_by_id
    from anisocert.evaluate.protection import promised
    from anisocert.memory import NOTES, POLICIES, Memory, shown
    from anisocert.runs import read_run
    from anisocert.runs.files import WrongFileError
    from anisocert.runs.folder import copy_run
    from anisocert.work import add_to_memory

    Memory(policy or "inherit", prefer=prefer).close()  # type: ignore[arg-type]  # it checks both
    options.checked()
    stored = read_run(run).moved(data=data)
    earlier = stored.memory and stored.memory.place
    if out is None and not force and earlier not in (None, "", options.absolute(shown(memory), new=True)):
        raise ArgumentError(f"expected --out DIR or --force, as {run} has the answers of {earlier}: a copy keeps both")
    by_id = inputs_by_id(inputs) if inputs else None
    if by_id is not None:
        stored.expect_inputs(by_id)
    elif stored.place("data") is None:
        raise ArgumentError("the run does not name its data: give its inputs with --inputs")
    else:
        stored.examples()  # an error before a memory is made
    console = Console()
    with (
        Memory.open(memory, policy, prefer=prefer) as opened,  # type: ignore[arg-type]
        Bar(console, "remembering", "inputs", len(stored)) as bar,
    ):
        if out is not None:
            copy_run(run, out, force)
        notes = add_to_memory(out or run, opened, by_id, bar.advance, data=data, force=force)
        counts = ", ".join(f"{notes[note]} {note}" for note in NOTES)
        whose = promised(POLICIES[opened.policy])
        console.tell(f"{counts}; {len(opened)} entries in {shown(memory)}, policy {opened.policy}: {whose}")
        try:
            _ = read_run(out or run).attacked
        except WrongFileError as error:  # it was measured before these answers
            console.tell(f"the attack is stale now: {error}")


@app.command("lookup", epilog="Example: anisocert memory lookup memory.sqlite --data digits --ids 0,5,10")
def lookup(
    file: File,
    data: Annotated[str | None, typer.Option(help="A name of `anisocert data list`, or a path.")] = None,
    split: Annotated[str, typer.Option(help="test or train.")] = "test",
    ids: Annotated[str | None, typer.Option(help="Only these examples, as in 3,17,100-199.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="At most this many examples.", min=1)] = None,
    inputs: Inputs = None,
) -> None:
    """Find which inputs lie in a promised region: their class and the region around them, with no network."""
    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.data import load, parse_ids
    from anisocert.data.numpy_files import inputs_by_id
    from anisocert.evaluate import down
    from anisocert.evaluate.protection import promised
    from anisocert.memory import POLICIES, Memory

    wanted = parse_ids(ids)[:most] if ids else None
    if data is not None and inputs is None:
        examples = load(data, split)  # type: ignore[arg-type]  # it checks the name
        examples = examples.subset(most=most, ids=wanted)
        by_id = dict(zip(examples.ids.tolist(), examples.x, strict=True))
    elif inputs is not None and data is None:
        by_id = inputs_by_id(inputs)
    else:
        raise ArgumentError("expected either --data or --inputs")
    if missing := set(wanted or ()) - set(by_id):
        raise ArgumentError(f"expected --ids of the inputs, got {min(missing)}, which is not among them")
    table = Table("id", "class", "radius", "proxy radius", "promised to input", box=None)
    chosen = wanted or list(by_id)[:most]
    with Memory.open(file, read_only=True) as memory:
        whose = promised(POLICIES[memory.policy])
        for id_ in chosen:
            if (promise := memory.lookup(by_id[id_])) is not None:
                radii = down(promise.radius, 6), down(promise.proxy_radius, 6)
                table.add_row(str(id_), str(promise.prediction), *radii, str(promise.id))
    console = Console()
    if table.row_count:
        console.print(table)
    console.print(f"{table.row_count} of {len(chosen)} inputs lie in a promised region; radii are {whose}")


@app.command("check", epilog="Example: anisocert memory check memory.sqlite")
def check(file: File) -> None:
    """Prove that promised regions of different classes have no common point; name the pairs where that fails.

    Also prove that every entry is as it was written, and follows from its votes and its noise.
    """
    from anisocert.cli.console import Console
    from anisocert.memory import Memory

    console = Console()
    with Memory.open(file, read_only=True) as memory, console.status("checking"):
        result = memory.check()
    for conflict in result.conflicts:
        (first, second), (one, other) = conflict.ids, conflict.classes
        console.print(f"inputs {first} (class {one}) and {second} (class {other}): their regions may meet")
    for line in result.damage:
        console.tell(f"damaged: {line}")
    if not result.ok:
        raise typer.Exit(1)
    console.tell(
        f"{result.entries} entries: all regions of different classes are proven disjoint "
        f"({result.compared} pairs compared, the others are too far apart); each follows from its votes"
    )


@app.command("stats", epilog="Example: anisocert memory stats memory.sqlite")
def stats(file: File) -> None:
    """Print counts and sizes."""
    from datetime import UTC, datetime

    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.evaluate import down, probability
    from anisocert.evaluate.protection import promised
    from anisocert.memory import POLICIES, Memory

    with Memory.open(file, read_only=True) as memory:
        state = memory.stats()

    def most(alphas: float) -> str:
        return probability(float(f"{alphas:.12g}"), 6)  # in which 28 times 0.001 is 0.028

    def when(seconds: float | None) -> str:
        return "never" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")

    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in {
        "entries": f"{state.entries:,}",
        "per class": ", ".join(f"{label}: {count:,}" for label, count in state.classes.items()),
        "per note": ", ".join(f"{note}: {count:,}" for note, count in state.notes.items()),
        "median radius": down(state.median_radius, 6),
        "median proxy radius": down(state.median_proxy_radius, 6),
        "policy": f"{state.policy}: radii are {promised(POLICIES[state.policy])}",
        "model": state.model_hash or "none yet",
        "norm": "none yet" if state.norm is None else f"l{state.norm}",
        "shape": "none yet" if state.shape is None else " x ".join(map(str, state.shape)),
        "submissions": f"{state.submissions:,}, abstentions included; their alphas add up to {most(state.alphas)}",
        "alpha": "per certificate"
        if state.lifetime is None
        else f"{state.lifetime:g} for all that it ever "
        f"promises, of which {most(state.spent)} is spent, by {state.numbers:,} numbers",
        "created": when(state.created),
        "newest entry": when(state.newest),
        "file": f"{state.file_bytes / 1e6:,.1f} MB",
        "in memory when open": f"{state.index_bytes / 1e6:,.1f} MB",
    }.items():
        table.add_row(name, value)
    Console().print(table)


@app.command("export", epilog="Example: anisocert memory export memory.sqlite --out promises.npz --no-inputs")
def export(
    file: File,
    out: Annotated[Path, typer.Option(help="An .npz file.")],
    inputs: Annotated[bool, typer.Option(help="Include the raw inputs, or leave them out.")] = True,
    force: options.Force = False,
) -> None:
    """Write all entries to an .npz file that only its owner may read."""
    from anisocert.memory import Memory

    with Memory.open(file, read_only=True) as memory:
        count = memory.export(out, inputs=inputs, force=force)
    typer.echo(f"{count} entries {'with' if inputs else 'without'} their inputs in {out}")


@app.command("migrate", epilog="Example: anisocert memory migrate memory.sqlite postgresql://me@host/db?memory=prod")
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The source: a memory.", callback=options.memory_there)],
    target: Annotated[str, typer.Argument(metavar="TO", help="The target: an empty memory, or none yet.")],
) -> None:
    """Move a memory to another place, from a file to PostgreSQL or back, bit by bit and with proof before and after.

    The old one is closed for good: from two copies, two systems would answer. Stop what writes to it first. If this is
    interrupted, at most one of the two answers: repeat the command.
    """
    from anisocert.cli.console import Console
    from anisocert.memory import migrate, shown

    console = Console()
    with console.status("moving"):
        moved = migrate(source, target)
    console.tell(f"{moved.entries} entries are in {shown(target)} now, proven there; {shown(source)} is closed")


@app.command("reset", epilog="Example: anisocert memory reset memory.sqlite --yes")
def reset(file: File, yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False) -> None:
    """Drop all promises, and the raw inputs with them. What was promised from this memory no longer holds.

    A lifetime alpha begins anew, and what noise was seen is forgotten: certify with other seeds from then on.
    """
    from anisocert.memory import Memory, shown

    with Memory.open(file, read_only=True) as memory:  # so that an empty file stays empty
        count = len(memory)
    if not yes:
        typer.confirm(f"Drop all {count} promises in {shown(file)}?", abort=True)
    with Memory.open(file) as memory:
        memory.reset()
    typer.echo(f"{count} entries dropped; {shown(file)} is empty and may serve another model")
