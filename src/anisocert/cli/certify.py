"""`anisocert certify`: certificates of a data set's examples, in a run that survives."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from anisocert.cli.certify_text import Told
    from anisocert.work import Circumstances, Job, Outcome
    from anisocert.work.workers import Workers

EPILOG = (
    "Example: anisocert certify nets/cohen/last.safetensors --data cifar10 --sigma 0.25 --skip 20 --out runs/a\n\n"
    "Exit codes: 0 done; 1 error; 2 wrong usage; 3 stopped, by --time-budget or Ctrl-C: the same command resumes."
)
VOTES, PLACE = "Votes and bounds", "Where, how long, what is said"


def certify(
    model: options.Model,
    data: options.Data,
    sigma: options.Sigma,
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted run resumes.")],
    norm: options.Norm = "l2",
    method: Annotated[str, typer.Option(help="fixed, isotropic, anisotropic or average.")] = "anisotropic",
    paper: Annotated[bool, typer.Option("--paper", help="The published search for theta instead of ours.")] = False,
    iterations: Annotated[int | None, typer.Option(help="With --paper: its isotropic steps. Default: 900.")] = None,
    limit: Annotated[
        float | None, typer.Option(help="Theta at most this times --sigma. Default: 32 for images, else 6.")
    ] = None,
    average_of: Annotated[
        Path | None, typer.Option(help="A finished run whose mean theta is used for all, with --method average.")
    ] = None,
    memory: Annotated[Path | None, typer.Option(help="A certificate memory that all answers go through.")] = None,
    memory_policy: Annotated[str | None, typer.Option(help="Of a new memory: inherit, abstain, worst-case.")] = None,
    memory_prefer: options.MemoryPrefer = "volume",
    seed: options.Seed = 0,
    split: options.Split = "test",
    skip: options.Skip = 1,
    most: options.Most = None,
    ids: options.Ids = None,
    n0: Annotated[int, typer.Option(help="Votes per input to select its class.", rich_help_panel=VOTES)] = 100,
    n: Annotated[int, typer.Option(help="Votes per input for its certificate.", rich_help_panel=VOTES)] = 100_000,
    alpha: Annotated[
        float, typer.Option(help="Probability with which a certificate may be wrong.", rich_help_panel=VOTES)
    ] = 0.001,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Alpha is for all of them at once.", rich_help_panel=VOTES)
    ] = False,
    lifetime: Annotated[
        bool,
        typer.Option(
            "--lifetime", help="Alpha is for all that --memory will ever see; of a new memory.", rich_help_panel=VOTES
        ),
    ] = False,
    bound: Annotated[
        str, typer.Option(help="one-vs-rest (what the field reports) or two-class.", rich_help_panel=VOTES)
    ] = "one-vs-rest",
    stop: Annotated[
        str | None, typer.Option(help="checkpoints or betting: fewer votes where they do.", rich_help_panel=VOTES)
    ] = None,
    target_radius: Annotated[
        float | None, typer.Option(help="Stop once it is decided whether this is reached.", rich_help_panel=VOTES)
    ] = None,
    precision: options.Precision = None,
    compile: options.Compile = None,
    rows: options.Rows = None,
    outputs: options.Outputs = "logits",
    num_classes: options.NumClasses = None,
    layout: options.Layout = None,
    mean: options.Mean = None,
    std: options.Std = None,
    denoise: options.Denoise = None,
    model_id: options.ModelId = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda, or several: cuda:0,cuda:1.", rich_help_panel=PLACE)
    ] = "auto",
    ray: Annotated[
        bool, typer.Option("--ray", help="On a new Ray cluster, of this machine alone.", rich_help_panel=PLACE)
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(help="On the Ray cluster at this address, or auto.", rich_help_panel=PLACE),
    ] = None,
    ray_workers: Annotated[
        int | None, typer.Option(help="How many. Default: one a GPU, or one a node.", min=1, rich_help_panel=PLACE)
    ] = None,
    shard: Annotated[
        str, typer.Option(help="Do one of several parts, as in 2/8; all share --out.", rich_help_panel=PLACE)
    ] = "1/1",
    time_budget: Annotated[
        str | None, typer.Option(help="Stop after so long, as in 90, 10m or 2h.", rich_help_panel=PLACE)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and how long it takes.", rich_help_panel=PLACE)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say nothing but warnings and errors.", rich_help_panel=PLACE)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="End with a JSON object on the standard output.", rich_help_panel=PLACE)
    ] = False,
    force: options.Force = False,
    config: ConfigFile = None,
) -> None:
    """Certify examples of a data set, each with as large a region as can be found in which the answer does not change.

    --out is the run: run.json, certificates.parquet, theta/. The same command resumes where it was killed, to the same
    results; any number of shards, devices and machines gives them too.
    """
    from anisocert.cli.certify_text import Told
    from anisocert.engine import Numerics
    from anisocert.engine.devices import device_kind, devices_of
    from anisocert.runs import Configuration
    from anisocert.work import Circumstances, load_job
    from anisocert.work.workers import InProcess, Processes

    told = Told(quiet, as_json)
    devices, on_cluster = devices_of(device), ray or ray_address is not None
    asked: dict[str, Any] = {
        "model": options.absolute(model), "data": options.absolute(data), "sigma": sigma, "norm": norm,
        "method": method, "paper": paper, "iterations": iterations, "limit": limit,
        "average_of": options.absolute(average_of), "memory": memory and str(memory.resolve()),
        "memory_policy": memory_policy, "memory_prefer": memory_prefer, "seed": seed, "split": split, "skip": skip,
        "max": most, "ids": ids, "n0": n0, "n": n, "alpha": alpha, "simultaneous": simultaneous,
        "lifetime": lifetime, "bound": bound, "stop": stop,
        "target_radius": target_radius, "outputs": outputs, "num_classes": num_classes, "layout": layout,
        "mean": options.numbers("--mean", mean), "std": options.numbers("--std", std), "denoise": denoise,
        "model_id": model_id,
        "device": None if on_cluster else device_kind(devices), "numerics": Numerics(precision, compile, rows),  # type: ignore[arg-type]
    }  # fmt: skip
    circumstances = Circumstances(
        _shard(shard), options.seconds(time_budget), told.begin, told.rows, told.remembered, force
    )
    configuration = Configuration(**asked)
    options.checked()
    job = load_job(configuration)
    job.warn()
    if dry_run:
        from anisocert.work.forecast import forecast
        from anisocert.work.running import inputs_left

        left = inputs_left(job, out, circumstances.shard)
        told.forecast(job, out, forecast(job, devices[0], len(left)), len(devices))
        return

    def workers() -> "Workers":
        if on_cluster:
            from anisocert.work.cluster import Cluster

            return Cluster(job, ray_address, ray_workers)
        if len(devices) > 1:
            return Processes(job, devices)
        return InProcess(job, devices[0], told.votes)

    told.start(job, out, "a Ray cluster" if on_cluster else ", ".join(devices))
    _run(told, job, out, workers, circumstances)


def _run(told: "Told", job: "Job", out: Path, workers: "Callable[[], Workers]", circumstances: "Circumstances") -> None:
    """Do it, say how it ended, and end with the exit code for that."""
    from anisocert.cli import STOPPED
    from anisocert.work import certify_run
    from anisocert.work.running import progress_of

    try:
        with told:
            outcome: Outcome = certify_run(job, out, workers, circumstances)
    except KeyboardInterrupt:
        told.stopped(progress_of(job, out), "interrupted", out)
        raise typer.Exit(STOPPED) from None
    if outcome.finished:
        told.finished(job, out)
    elif outcome.left:
        told.stopped(outcome, "out of time", out)
        raise typer.Exit(STOPPED)
    else:
        told.shard_done(outcome, out)


def _shard(text: str) -> tuple[int, int]:
    from anisocert.errors import ArgumentError

    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ArgumentError(f"expected --shard as in 2/8, got {text!r}")
    return int(number), int(count)
