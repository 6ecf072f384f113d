"""`anisocert certify`: certificates of a data set's examples, in a run that can be resumed."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anisocert.cli.certify_text import Reporter
    from anisocert.work import Circumstances, Job, Outcome
    from anisocert.work.workers import Workers

EPILOG = (
    "Example: anisocert certify nets/cohen/last.safetensors --data cifar10 --sigma 0.25 --skip 20 --out runs/a\n\n"
    "Exit codes: 0 done; 1 error; 2 wrong usage; 3 stopped, by --time-budget or Ctrl-C: the same command resumes."
)
place = partial(typer.Option, rich_help_panel="Where, how long, what is printed")


@options.takes(*options.DECLARED)
def certify(
    asked: options.Asked,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; an interrupted run resumes. Needed unless --dry-run.", file_okay=False),
    ] = None,
    device: Annotated[str, place(help="auto, cpu, cuda, or several: cuda:0,cuda:1.")] = "auto",
    ray: Annotated[bool, place("--ray", help="On a new Ray cluster, of this machine alone.")] = False,
    ray_address: Annotated[str | None, place(help="On the Ray cluster at this address, or auto.")] = None,
    ray_workers: Annotated[int | None, place(help="How many. Default: one per GPU, or per node.", min=1)] = None,
    shard: Annotated[str, place(help="Do one of several parts, as in 2/8; all share --out.")] = "1/1",
    time_budget: Annotated[str | None, place(help="Stop after this long, as in 90, 10m or 2h.")] = None,
    dry_run: Annotated[bool, place("--dry-run", help="Print what would be done and how long it takes.")] = False,
    quiet: Annotated[bool, place("--quiet", help="Print only warnings and errors.")] = False,
    as_json: Annotated[bool, place("--json", help="Print a JSON object to standard output at the end.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace files that anisocert did not write; never a run with other options."),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Certify examples of a data set, each with as large a region as can be found in which the answer does not change.

    --out is the run: run.json, certificates.parquet, theta/. The same command resumes an interrupted run. Results
    do not depend on interruptions, nor on the number of shards, devices and machines.
    """
    from anisocert.cli.certify_text import Reporter
    from anisocert.cli.configuring import configured, loaded
    from anisocert.diagnosis import warn_if_wrong
    from anisocert.engine.devices import device_kind, devices_of
    from anisocert.work import Circumstances
    from anisocert.work.workers import InProcess, Processes

    if out is None and not dry_run:
        raise ArgumentError("expected --out, the folder of the run, as in --out runs/a, got none")
    reporter = Reporter(quiet, as_json)
    devices, on_cluster = devices_of(device), ray or ray_address is not None
    circumstances = Circumstances(
        _shard(shard), options.seconds(time_budget), reporter.begin, reporter.rows, reporter.remembered, force
    )
    tell = reporter.console.tell
    configuration = configured(asked, tell, device=None if on_cluster else device_kind(devices))
    options.checked()
    job = loaded(configuration, tell)
    job.check()
    job.warn()
    warn_if_wrong(job)
    if dry_run:
        from anisocert.cli.progress import Bar
        from anisocert.work.forecast import MEASUREMENTS, forecast
        from anisocert.work.running import inputs_left

        left = inputs_left(job, out, circumstances.shard)
        with Bar(reporter.console, "measuring", "speeds", MEASUREMENTS) as bar:
            estimate = forecast(job, devices[0], len(left), bar.advance)
        reporter.forecast(job, out, estimate, len(devices))
        return

    def workers() -> "Workers":
        if on_cluster:
            from anisocert.work.cluster import Cluster

            return Cluster(job, ray_address, ray_workers)
        if len(devices) > 1:
            return Processes(job, devices)
        return InProcess(job, devices[0], reporter.work)

    assert out is not None
    reporter.start(job, out, "a Ray cluster" if on_cluster else ", ".join(devices))
    _run(reporter, job, out, workers, circumstances)


def _run(
    reporter: "Reporter", job: "Job", out: Path, workers: "Callable[[], Workers]", circumstances: "Circumstances"
) -> None:
    """Do it, print how it ended, and exit with the code for that."""
    from anisocert.cli import STOPPED
    from anisocert.work import certify_run
    from anisocert.work.running import progress_of

    try:
        with reporter:
            outcome: Outcome = certify_run(job, out, workers, circumstances)
    except KeyboardInterrupt:
        reporter.stopped(progress_of(job, out), "interrupted", out)
        raise typer.Exit(STOPPED) from None
    if outcome.finished:
        reporter.finished(job, out)
    elif outcome.left:
        reporter.stopped(outcome, "out of time", out)
        raise typer.Exit(STOPPED)
    else:
        reporter.shard_done(outcome, out)


def _shard(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ArgumentError(f"expected --shard as in 2/8, got {text!r}")
    return int(number), int(count)
