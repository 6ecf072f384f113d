"""Some of a run's votes, drawn again: the same network, theta, seed and numerics must give the same counts.

Or fresh votes, under a seed that whoever chose theta cannot have known: they must not contradict what the run claims.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.bounds import lower, upper
from anisocert.certificate import ABSTAIN, COUNTS
from anisocert.data import Dataset
from anisocert.engine import Network, OnRows, Query, Stage, Tally, count_votes
from anisocert.errors import ArgumentError
from anisocert.optimize import CODED, Choice, Event
from anisocert.runs import Configuration, NotTheRunsError, StoredRun
from anisocert.runs.files import DESCRIPTION, TABLE, Finding
from anisocert.runs.versions import versions
from anisocert.smoothing import impossible

OnVotes = Callable[[int, NDArray[np.int64]], None]
Fresh = tuple[int, int]  # votes per row, and their seed
NEEDED = ("alpha", "prediction", "p_a", "p_b", "num_classes", *COUNTS)
LEVEL = 0.001  # probability at which fresh votes of one row contradict a claim that is true


def pick(run: StoredRun, count: int) -> list[int]:
    """The ids of some rows, chosen so that the author of a run cannot know them beforehand."""
    ids = [int(number) for number in run.column("idx")]
    return sorted(random.SystemRandom().sample(ids, min(count, len(ids))))


def other_versions(run: StoredRun) -> list[str]:
    """What made the run and differs here: other versions may select other kernels, which change last bits."""
    here, recorded = versions(), run.said("versions") or {}
    return [
        f"{name} {recorded[name]} made the run, here it is {here[name]}"
        for name in here
        if recorded.get(name) not in (None, here[name])
    ]


def recount(
    run: StoredRun,
    ids: Sequence[int],
    device: str | None = None,
    on_votes: OnVotes = lambda _, __: None,
    on_rows: OnRows | None = None,
    fresh: Fresh | None = None,
) -> Iterator[Finding]:
    """Draw the votes of some examples again, one after the other, and yield where they are not those of the rows.

    fresh: draw so many votes with another seed, (votes, seed), and yield where they contradict a row's bounds: a theta
    that was chosen by the votes that certify it has no such luck with others. Rows that are right are named with
    probability at most LEVEL; the more votes, the smaller an excess is found.

    device: of the kind that the run was made on (the default), because each kind draws its own noise. on_votes is
    called with the id of each example that was drawn again and its votes by class, on_rows as the network evaluates
    them.
    """
    if not run.has_votes:
        raise ArgumentError(f"expected a run with votes to draw again, got {run.folder}, which was imported without")
    c = run.configuration
    if fresh is not None and c.method in CODED:
        raise ArgumentError(
            f"expected a run whose theta somebody chose, for fresh votes under it, got one by {c.method}: there the "
            "network itself chooses, which is seen when the run's own votes are drawn again"
        )
    try:
        network = run.network(device)
        network.on_rows = on_rows
        examples = run.examples()
    except NotTheRunsError as error:
        yield Finding(DESCRIPTION, str(error))
        return
    yield from _other_examples(run, examples)
    examples = examples.subset(ids=ids)
    for x, number in zip(examples.x, examples.ids.tolist(), strict=True):
        yield from (
            Finding(f"example {number}", fault) for fault in _recounted(run, network, number, x, on_votes, fresh)
        )


def _other_examples(run: StoredRun, examples: Dataset) -> Iterator[Finding]:
    """Where the rows are of fewer inputs, or of other labels, than the run's examples."""
    if left_out := sorted(set(examples.ids.tolist()) - set(run.column("idx").tolist())):
        yield Finding(TABLE, f"has no rows of examples {', '.join(map(str, left_out))}")
    for number, label in zip(examples.ids.tolist(), examples.y.tolist(), strict=True):
        if number not in left_out and (row_label := run.row(number)["label"]) != label:
            yield Finding(f"example {number}", f"label is {row_label}, the data's is {label}")


def _recounted(
    run: StoredRun, network: Network, number: int, x: NDArray[np.float32], on_votes: OnVotes, fresh: Fresh | None
) -> Iterator[str]:
    """What is wrong with one row, by votes on its input x."""
    c, row, theta = run.configuration, run.row(number), run.thetas.get(number)
    faults = [f"lacks {name}" for name in NEEDED if row.get(name) is None]
    if not faults and row["votes"]:
        faults = [*impossible(row, c.n)]
    if faults:
        yield from faults
        return
    if theta is None or theta.shape not in ((), x.shape):
        yield f"has no theta of its input's shape {x.shape}"
        return
    seed = c.seed if fresh is None else fresh[1]
    query = Query(network, c.smoothing(), torch.from_numpy(x)[None].to(network.device), [number], seed)
    try:
        choice = _choice(query, c, theta, float(row["alpha"]))
    except ArgumentError as error:
        yield str(error)
        return
    if choice.capture is not None:
        yield from _differing(row, choice.capture.evidence(0))
    if not choice.positions or not row["votes"]:
        votes = np.zeros(network.num_classes, np.int64)
    elif fresh is not None:
        (tally,) = count_votes(choice.query, choice.scales, Stage.ESTIMATE, [fresh[0]])
        votes = tally.counts
        yield from _contradicting(row, votes)
    else:
        (first,) = count_votes(choice.query, choice.scales, Stage.SELECT, [c.n0])
        event = choice.settle(first.counts[None])
        (tally,) = count_votes(choice.query, choice.scales, Stage.ESTIMATE, sorted({row["bound_n"], row["votes"]}))
        votes = tally.counts.reshape(-1, network.num_classes).sum(0)
        yield from _check(row, theta, event, tally)
    on_votes(number, votes)


def _choice(query: Query, c: Configuration, theta: NDArray[np.float32], alpha: float) -> Choice:
    """What the run's method decides where a selector chooses; elsewhere what follows from the stored theta."""
    if c.method in CODED:
        choices = c.chooser().decide(query, c.plan(), np.array([alpha]))
        return next((choice for choice in choices if choice.positions), choices[0])
    query = replace(query, smoothing=query.smoothing.at(theta))
    return Choice.of(query, torch.from_numpy(theta.copy()).reshape(1, *(theta.shape or (1,) * len(query.shape))))


def _check(row: Mapping[str, Any], theta: NDArray[np.float32], event: Event, tally: Tally) -> Iterator[str]:
    label, top, history = int(event.label[0]), int(event.top[0]), event.seen(tally).history
    if row["prediction"] not in (ABSTAIN, label):
        yield f"prediction is {row['prediction']}, votes drawn again select {label}"
    if not np.array_equal(theta.ravel(), event.theta[0].cpu().numpy().ravel()):
        yield "theta is not what votes drawn again choose"
    at_bound, at_end = history[0], history[-1]  # they are one where the bound was taken at the end
    fresh = {
        "bound_k": int(at_bound[top]),
        "runner_up_votes": int(np.delete(at_bound, top).max()),
        "top_votes": int(at_end[top]),
    }
    yield from _differing(row, fresh | event.evidence(tally))


def _differing(row: Mapping[str, Any], fresh: Mapping[str, Any]) -> Iterator[str]:
    for name, value in fresh.items():
        if row[name] != value:
            yield f"{name} is {row[name]}, votes drawn again give {value}"


def _contradicting(row: Mapping[str, Any], fresh: NDArray[np.int64]) -> Iterator[str]:
    """Where fresh votes show that a class is less likely than the row says, or another one likelier."""
    top, n, level = row["prediction"], int(fresh.sum()), LEVEL / len(fresh)  # each class may contradict it
    if top == ABSTAIN:
        return
    if not 0 <= top < len(fresh):
        yield f"prediction is {top}, the network has {len(fresh)} classes"
        return
    if (most := upper(fresh[top], n, level)) < row["p_a"]:
        yield f"p_a is {row['p_a']}, fresh votes ({fresh[top]} of {n} for class {top}) allow {most:.6g} at most"
    runner_up = np.delete(fresh, top).max()
    if (least := lower(runner_up, n, level)) > row["p_b"]:
        yield f"p_b is {row['p_b']}, fresh votes ({runner_up} of {n} for another class) need {least:.6g} at least"
