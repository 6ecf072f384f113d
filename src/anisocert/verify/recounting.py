"""Some of a run's votes, drawn again: the same network, theta, seed and numerics must give the same counts."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.certificate import ABSTAIN
from anisocert.engine import Query, Stage, count_votes
from anisocert.errors import ArgumentError
from anisocert.models import Coded
from anisocert.optimize import Choice
from anisocert.runs import NotTheRunsError, StoredRun
from anisocert.runs.files import DESCRIPTION, TABLE, Finding
from anisocert.runs.versions import versions


def pick(run: StoredRun, count: int) -> list[int]:
    """The ids of some rows, chosen so that whoever writes a run cannot know them beforehand."""
    ids = [int(number) for number in run.column("idx")]
    return sorted(random.SystemRandom().sample(ids, min(count, len(ids))))


def other_versions(run: StoredRun) -> list[str]:
    """What made the run and differs here: other versions may select other kernels, which change last bits."""
    here, said = versions(), run.said("versions") or {}
    return [
        f"{name} {said[name]} made the run, here it is {here[name]}"
        for name in here
        if said.get(name) not in (None, here[name])
    ]


def recount(
    run: StoredRun,
    ids: Sequence[int],
    model: str | None = None,
    device: str | None = None,
    on_votes: Callable[[NDArray[np.int64]], None] = lambda _: None,
    denoise: str | None = None,
    data: str | None = None,
) -> Iterator[Finding]:
    """Draw the votes of some examples again, one after the other, and yield where they are not those of the rows.

    model, denoise, data: where these are, if not where the run says; functions must be given. device: of the kind that
    the run was made on (the default), because each kind draws its own noise. on_votes is called with each example's
    votes by class.
    """
    if not run.has_votes:
        raise ArgumentError(f"expected a run with votes to draw again, got {run.folder}, which was imported without")
    c = run.configuration
    try:
        network = run.network(model, denoise, device)
        examples = run.examples(data=data)
    except NotTheRunsError as error:
        yield Finding(DESCRIPTION, str(error))
        return
    if left_out := sorted(set(examples.ids.tolist()) - set(run.column("idx").tolist())):
        yield Finding(TABLE, f"has no rows of examples {', '.join(map(str, left_out))}")
    examples = examples.subset(ids=ids)
    for x, label, number in zip(examples.x, examples.y.tolist(), examples.ids.tolist(), strict=True):
        row, theta, where = run.row(number), run.thetas.get(number), f"example {number}"
        if row["label"] != label:
            yield Finding(where, f"label is {row['label']}, the data's is {label}")
        if theta is None or theta.shape not in ((), x.shape):
            yield Finding(where, f"has no theta of its input's shape {x.shape}")
            continue
        query = Query(network, c.smoothing(), torch.from_numpy(x)[None].to(network.device), [number], c.seed)
        if isinstance(network.model, Coded):
            choice = c.chooser().decide(query, run.plan, np.array([row["alpha"]]))
            yield from (Finding(where, what) for what in _check_choice(row, theta, choice))
            if not row["votes"]:
                on_votes(np.zeros(network.num_classes, np.int64))
                continue
        try:
            query = replace(query, smoothing=c.smoothing().at(theta))
        except ArgumentError as error:
            yield Finding(where, str(error))
            continue
        top = int(_counts(query, Stage.SELECT, [c.n0])[c.n0].argmax())
        looks = sorted({row["bound_n"], row["votes"]})
        counts = _counts(query, Stage.ESTIMATE, looks)
        yield from (Finding(where, what) for what in _check(row, top, counts))
        on_votes(counts[row["votes"]])


def _counts(query: Query, stage: Stage, looks: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """Votes of one input for each class, after each of `looks` votes."""
    theta = np.array(query.smoothing.theta)
    shaped = torch.from_numpy(theta).reshape(1, *(theta.shape or (1,) * len(query.shape)))
    (tally,) = count_votes(query, query.smoothing.scales(shaped.to(query.network.device)), stage, looks)
    return dict(zip(looks, tally.history, strict=True))


def _check_choice(row: Mapping[str, Any], theta: NDArray[np.float32], choice: Choice) -> Iterator[str]:
    """The selector's votes, and whether theta is the code that they name."""
    assert choice.capture is not None
    for name, value in choice.capture.evidence(0).items():
        if row[name] != value:
            yield f"{name} is {row[name]!r}, votes drawn again give {value!r}"
    if choice.positions and not np.array_equal(theta.ravel(), choice.scales[0, 0].cpu().numpy().ravel()):
        yield "theta is not the code that votes drawn again name"


def _check(row: Mapping[str, Any], top: int, counts: Mapping[int, NDArray[np.int64]]) -> Iterator[str]:
    if row["prediction"] not in (ABSTAIN, top):
        yield f"prediction is {row['prediction']}, votes drawn again select {top}"
    at_bound, at_end = counts[row["bound_n"]], counts[row["votes"]]
    fresh = {
        "bound_k": int(at_bound[top]),
        "runner_up_votes": int(np.delete(at_bound, top).max()),
        "top_votes": int(at_end[top]),
    }
    for name, value in fresh.items():
        if row[name] != value:
            yield f"{name} is {row[name]}, votes drawn again give {value}"
