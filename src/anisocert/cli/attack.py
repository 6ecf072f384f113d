"""`anisocert attack`: tries to break what a run has promised."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anisocert.cli import options
from anisocert.errors import ArgumentError, ModelError
from anisocert.options import option

if TYPE_CHECKING:
    from anisocert.attack import Attack, FirstAttack, Search, SystemAttack
    from anisocert.certificate import Certificate
    from anisocert.engine import Network
    from anisocert.runs import StoredRun

EPILOG = (
    "Example: anisocert attack runs/demo/l2-anisotropic --first --radius 0.25 --radius 0.5\n\n"
    "Exit codes: 0 nothing is broken; 1 an error, or something is; 2 wrong usage; 3 stopped: with --first the same "
    "command goes on."
)
EFFORT = "How hard to look"


@dataclass(frozen=True)
class Attacking:
    """What an attack is asked for, besides the run."""

    memory: str | None = option(
        None, "Attack the system that answers by this memory, instead of single certificates.",
        callback=options.memory_there,
    )  # fmt: skip
    first: bool = option(False, "Attack the system before it has seen the clean input: its memory is empty.")
    radius: list[float] | None = option(
        None, "With --first: of the balls to search; may be repeated. Default: 8 up to what is certified."
    )
    most: int | None = option(None, "How many, evenly spaced. Default: all.", flag="--max", min=1)
    ids: str | None = option(None, "Only these examples: 3,17,100-199.")
    n: int = option(
        10_000,
        "Fresh votes at each point found, or a tenth of them where these decide; with --first or --memory, of each "
        "question.",
        EFFORT, min=10,
    )  # fmt: skip
    starts: int = option(4, "Ascents per region or ball.", EFFORT, min=1)
    steps: int | None = option(None, "Steps per ascent. Default: 20, with --first 60.", EFFORT, min=1)
    samples: int | None = option(None, "Noisy copies per step. Default: 32, with --first 64.", EFFORT, min=1)
    seed: int = option(0, "Seed of the search's noise.", min=0)


@options.declared("asked", Attacking)
@options.finds("model", "denoise", "codebook", "selector", "data")
def attack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run.", file_okay=False)],
    asked: Attacking,
    places: options.Places,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    out: Annotated[Path | None, typer.Option(help="An .npz file for the points that were found.")] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save/--no-save", help="With --first: keep the result in RUN, for its report, as attacked-first.json."
        ),
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a stronger result of --first, and any file at --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Try to break certificates: search each region for points that the smoothed classifier answers differently.

    Projected gradient ascent on the smoothed classifier, under the theta of the certificate, from the centre, random
    points and the boundary; then beyond the region, for the nearest change of the answer. That one is an upper bound of
    what can be certified there: what lies between it and the certificate is the room left.

    A certificate is broken if fresh votes at a point inside its region prove that another class has more of them (a
    sign test), which happens to any correct one with probability 0.001 at most, however many there are. One broken
    certificate makes the exit code 1. Each attempt may go wrong with probability alpha, abstentions included, so the
    number to expect from that is printed too: a broken one within it is bad luck, but still a promise that does not
    hold.

    With --memory the target is the whole system, a copy of the memory in front of the network: no answer may change in
    any stored region, whoever asks and whatever newcomers claim. No probability is involved: one change is too many.

    With --first the target is the whole system behind an empty memory: for each radius and input (abstained and wrong
    ones too) a point of that ball is looked for at which the system does not give the label, then a point of the region
    that the run promises. The default radii are eight equal steps to a little beyond the radius that a tenth of the
    certified inputs exceed. With one noise for all inputs, more answers of another class inside what is certified than
    errors explain (at level 0.001) make the exit code 1. With noise chosen per input they contradict no certificate,
    which is about one input's own classifier or begins with admission: then it is a measurement. The search repeats
    with its seed; the system's noise is fresh for every question, so that close answers may differ. In a run with a
    --domain all points are valid inputs. The result is kept in RUN, in place of an earlier one that is no stronger; so
    is what is done when it is stopped, from which the same command of the same user goes on.
    """
    from anisocert.attack import STRONG, UNFINISHED, Search, ascending, usual_radii
    from anisocert.attack import attack as attack_certificates
    from anisocert.cli import FAILED
    from anisocert.cli.attack_points import expect_place, write_points
    from anisocert.cli.attack_text import tell, tell_system
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.runs import read_run, write_attacked

    memory, first, n = asked.memory, asked.first, asked.n
    if memory is not None and (asked.ids is not None or out is not None):
        raise ArgumentError("expected --memory without --ids and --out, which are about single certificates")
    if memory is not None and first:
        raise ArgumentError("expected --first without --memory, as the memory that it attacks is empty, got both")
    if not first and (asked.radius or not save):
        raise ArgumentError("expected --radius and --no-save with --first, got one without it")
    if out is not None:
        expect_place(out, force)
    options.checked()
    stored, usual = read_run(run).moved(**places), STRONG if first else Search()
    network = stored.network(device, same_kind=False)
    how = Search(
        starts=asked.starts, steps=asked.steps or usual.steps, samples=asked.samples or usual.samples,
        outputs=stored.configuration.outputs, guide=_guide(stored, network), seed=asked.seed,
    )  # fmt: skip
    result: Attack | SystemAttack | FirstAttack
    if first:
        from anisocert.cli.attack_first import attack_first, expect_stronger, points_of, tell_first

        ids, keep = _ids(stored, asked.ids, asked.most), run / UNFINISHED if save else None
        radii = ascending(asked.radius or usual_radii(stored))
        if save:
            expect_stronger(stored, how, n, radii=radii, ids=ids, force=force)
        result = attack_first(stored, network, how, n, radii=radii, ids=ids, keep=keep)
        tell_first(result, stored, as_json)
        if save:
            write_attacked(run, result.found)
        if out is not None:
            write_points(out, points_of(result))
        if keep is not None:
            keep.unlink(missing_ok=True)
    elif memory is not None:
        result = _attack_system(memory, stored, network, how, n, asked.most)
        tell_system(result, memory, as_json)
    else:
        chosen, attempted = _certificates(stored, asked.ids, asked.most), _ids(stored, asked.ids, None)
        errors = [row["alpha"] for row in map(stored.row, attempted)]
        with Bar(Console(stderr=True), "attacking", "certificates", len(chosen)) as bar:
            result = attack_certificates(
                network, chosen, smoothing=stored.configuration.smoothing(), how=how, n=n,
                attempts=errors, on_done=bar.advance,
            )  # fmt: skip
        tell(result, stored, as_json)
        if out is not None:
            write_points(out, _points(result))
    if result.failed:
        raise typer.Exit(FAILED)


def _certificates(stored: "StoredRun", ids: str | None, most: int | None) -> "list[Certificate]":
    """The run's certificates that promise something, with their inputs."""
    from anisocert.certificate import ABSTAIN

    chosen = _ids(stored, ids, most, lambda row: bool(row["prediction"] != ABSTAIN))
    if not chosen:
        raise ArgumentError(
            f"expected a certificate to attack, got none: all chosen examples of {stored.folder} abstain"
        )
    inputs = stored.inputs()
    return [stored.certificate(number, inputs(number)) for number in chosen]


def _ids(
    stored: "StoredRun", ids: str | None, most: int | None, wanted: Callable[[dict[str, Any]], bool] = lambda _: True
) -> list[int]:
    """The typed ids (None: all) whose rows are wanted; at most so many, evenly spaced."""
    from anisocert.data import evenly, parse_ids

    chosen = stored.rows if ids is None else [stored.row(number) for number in sorted(set(parse_ids(ids)))]
    numbers = [int(row["idx"]) for row in chosen if wanted(row)]
    return [numbers[i] for i in evenly(len(numbers), most)]


def _guide(stored: "StoredRun", network: "Network") -> "Network | None":
    """A network with gradients, if the run used its own for votes alone."""
    from anisocert.engine import Network
    from anisocert.models.onnx_torch import WITHOUT

    if stored.configuration.needs_gradients or not str(stored.place("model")).endswith(".onnx"):
        return None
    try:
        module = stored.module(gradients=True)
    except ModelError as error:
        raise ModelError(
            f"expected a network with gradients to search with, got none: {str(error).removesuffix(WITHOUT)}"
        ) from error
    return Network(module, network.num_classes, network.device, network.numerics)


def _attack_system(
    place: str, stored: "StoredRun", network: "Network", how: "Search", n: int, most: int | None
) -> "SystemAttack":
    from anisocert.attack import attack_system, system_of
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.memory import Memory

    with Memory.open(place, read_only=True) as memory, memory.copy() as copy:
        system = system_of(stored, network, copy, n)
        with Bar(Console(stderr=True), "attacking", "promises", min(most or len(copy), len(copy))) as bar:
            return attack_system(system, how=how, most=most, on_done=bar.advance)


def _points(result: "Attack") -> dict[str, Any]:
    """The most hostile point of each region, and the nearest with another answer (its class is -1 if there is none)."""
    import numpy as np

    changes = [target.change or target.inside for target in result.results]
    return {
        "ids": [target.id for target in result.results], "promised": [target.prediction for target in result.results],
        "inside": np.stack([target.inside.x for target in result.results]),
        "change": np.stack([point.x for point in changes]),
        "change_class": [target.change.rival if target.change else -1 for target in result.results],
        "gauge": [target.change.gauge if target.change else np.nan for target in result.results],
    }  # fmt: skip
