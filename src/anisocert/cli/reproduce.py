"""`anisocert reproduce`: a whole experiment from one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import options
from anisocert.errors import AnisocertError, ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anisocert.reproduce import Stage

EPILOG = (
    "Example: anisocert reproduce experiments/cifar10.toml --out work/cifar10 --jobs 4 --results results\n\n"
    "Exit codes: 0 all done; 1 a stage failed, or needs one that --only leaves out; 2 wrong usage; 3 out of time: the "
    "same command resumes."
)


def reproduce(
    experiment: Annotated[
        Path, typer.Argument(help="A TOML file of networks and methods.", exists=True, dir_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder for networks, runs, memories and logs.", file_okay=False)],
    results: Annotated[
        Path | None,
        typer.Option(help="Folder for the rows of finished runs, to draw tables from: `verify` needs the runs."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Stages whose name matches, as in '*cohen-0.25*'; may be repeated.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Stages at once: small networks leave most of a GPU idle.", min=1)] = 1,
    time_budget: Annotated[str | None, typer.Option(help="Stop after this long, as in 90, 10m or 2h.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every option and print the commands that would be run.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Train, certify and remember everything that an experiment names, by the commands you could type yourself.

    Each stage is done once; the same command resumes where it stopped. `anisocert report` then draws the runs.
    """
    import time
    from collections import Counter
    from fnmatch import fnmatch

    from anisocert.cli import FAILED, STOPPED
    from anisocert.cli.console import Console
    from anisocert.reproduce import read_matrix, run_stages
    from anisocert.reproduce.marks import command_line
    from anisocert.reproduce.publishing import publish
    from anisocert.shell import shell_join

    console, budget = Console(), options.seconds(time_budget)
    stages = read_matrix(experiment)
    _check(experiment, stages)
    chosen = [stage for stage in stages if any(fnmatch(stage.name, pattern) for pattern in only or "*")]
    for pattern in only or ():
        if not any(fnmatch(stage.name, pattern) for stage in stages):
            raise ArgumentError(f"expected --only to match a stage, got {pattern!r}; one is {stages[0].name!r}")
    if dry_run:
        for stage in chosen:
            console.tell(command_line(stage))
        kinds = Counter(stage.name.partition(" ")[0] for stage in chosen)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        console.tell(f"# {len(chosen)} stages: {counts}")
        return
    out.mkdir(parents=True, exist_ok=True)
    console.tell(f"{len(chosen)} stages; how far each has come is in {out}/logs")
    deadline = None if budget is None else time.monotonic() + budget
    outcome = run_stages(
        chosen, out, among=stages, jobs=jobs, out_of_time=lambda: deadline is not None and time.monotonic() > deadline,
        tell=lambda name, what: console.tell(f"{name}: {what}"),
    )  # fmt: skip
    if results is not None:
        console.print(f"{len(publish(out, results, force))} runs in {results}: their rows, without thetas")
    console.print(f"{len(outcome.done)} of {len(chosen)} stages done, {len(outcome.failed)} failed")
    if outcome.missing:
        more = shell_join(part for name in outcome.missing for part in ("--only", name))
        console.tell(
            f"expected what the chosen stages need to be done or chosen too, got neither of "
            f"{', '.join(outcome.missing)}: add {more}"
        )
    if outcome.failed or outcome.missing:
        raise typer.Exit(FAILED)
    if outcome.left:
        raise typer.Exit(STOPPED)


def _check(experiment: Path, stages: "Iterable[Stage]") -> None:
    """Let every command check its options: a wrong one is an error now, not after hours of training."""
    from anisocert.cli import said
    from anisocert.cli.app import app

    command, before = typer.main.get_command(app), options.ONLY_CHECK.set(True)
    try:
        for stage in stages:
            try:
                command.main(list(stage.command), "anisocert", standalone_mode=False)
            except Exception as error:
                if not (isinstance(error, AnisocertError) or hasattr(error, "format_message")):
                    raise
                raise ArgumentError(f"{experiment}: {stage.name}: {said(error)}") from error
    finally:
        options.ONLY_CHECK.reset(before)
