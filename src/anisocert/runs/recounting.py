"""Some of a run's votes, drawn again: the same network, theta, seed and numerics must give the same counts."""

import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert import __version__
from anisocert.certificate import ABSTAIN
from anisocert.data import Dataset
from anisocert.engine import Network, Stage, count_votes
from anisocert.errors import ArgumentError
from anisocert.runs.configuration import Configuration
from anisocert.runs.job import hash_of, load_examples, load_model
from anisocert.runs.reading import TABLE, StoredRun
from anisocert.runs.verification import Finding
from anisocert.runs.workers import devices_of
from anisocert.smoothing import Gaussian, Uniform


def pick(run: StoredRun, count: int) -> list[int]:
    """The ids of some rows, chosen so that nobody who writes a run can know them beforehand."""
    ids = [int(number) for number in run.column("idx")]
    return sorted(random.SystemRandom().sample(ids, min(count, len(ids))))


def other_versions(run: StoredRun) -> list[str]:
    """What made the run and is another here: other versions may select other kernels, which change last bits."""
    here = {"anisocert": __version__, "python": platform.python_version()}
    here |= {"torch": torch.__version__, "numpy": np.__version__}
    said = run.description.get("versions") or {}
    return [
        f"{name} {said[name]} made the run, here is {here[name]}"
        for name in here
        if said.get(name) not in (None, here[name])
    ]


def recount(
    run: StoredRun,
    ids: Sequence[int],
    model: str | None = None,
    device: str | None = None,
    on_votes: Callable[[NDArray[np.int64]], None] = lambda _: None,
) -> Iterator[Finding]:
    """Draw the votes of some examples again, one after the other, and yield where they are not those of the rows.

    model: where the network is, if not where the run says. device: of the kind that the run was made on (the default),
    because each kind draws its own noise. on_votes is given each example's votes by class.
    """
    c = configuration_of(run)
    network = network_of(run, c, model, device)
    if network.hash != run.description.get("model_hash"):
        yield Finding("run.json", f"its model_hash is not that of {model or c.model}: the votes are of another network")
        return
    rows = {int(row["idx"]): row for row in run.table.to_pylist()}
    examples = load_examples(c)
    if c.data_hash not in (None, hash_of(examples)):
        yield Finding("run.json", f"its data_hash is not that of {c.data}: other examples, or not all of them")
        return
    if c.data_hash is not None and (left_out := sorted(set(examples.ids.tolist()) - set(rows))):
        yield Finding(TABLE, f"has no rows of examples {', '.join(map(str, left_out))}")
    examples = examples.subset(ids=ids)
    for x, label, number in zip(examples.x, examples.y.tolist(), examples.ids.tolist(), strict=True):
        row, theta, where = rows[number], run.thetas.get(number), f"example {number}"
        if row["label"] != label:
            yield Finding(where, f"label is {row['label']}, the data's is {label}")
        if theta is None or theta.shape not in ((), x.shape):
            yield Finding(where, f"has no theta of its input's shape {x.shape}")
            continue
        inputs = torch.from_numpy(x)[None].to(network.device)
        top = int(_counts(network, inputs, number, theta, c, Stage.SELECT, [c.n0])[c.n0].argmax())
        looks = sorted({row["bound_n"], row["votes"]})
        counts = _counts(network, inputs, number, theta, c, Stage.ESTIMATE, looks)
        yield from (Finding(where, what) for what in _check(row, top, counts))
        on_votes(counts[row["votes"]])


def _counts(
    network: Network,
    x: Tensor,
    number: int,
    theta: NDArray[np.float32],
    c: Configuration,
    stage: Stage,
    looks: Sequence[int],
) -> dict[int, NDArray[np.int64]]:
    """Votes of one input for each class, after each of `looks` votes. x: `1 x *shape`."""
    smoothing = (Gaussian if c.norm == "l2" else Uniform)(theta)
    shaped = torch.from_numpy(np.array(theta)).reshape(1, *(theta.shape or (1,) * (x.dim() - 1)))
    scales = smoothing.scales(shaped.to(network.device))
    (tally,) = count_votes(network, smoothing, x, scales, [number], seed=c.seed, stage=stage, looks=looks)
    return dict(zip(looks, tally.history, strict=True))


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


def configuration_of(run: StoredRun) -> Configuration:
    """What a run says about itself, once more as a configuration."""
    try:
        return Configuration.from_dict(run.description)
    except (KeyError, TypeError) as error:
        raise ArgumentError(f"expected a run that says how to repeat it, got {run.folder} without {error}") from error


def examples_of(run: StoredRun, c: Configuration) -> Dataset:
    """The run's examples; an error if they are not those that it was made of, down to the pixels."""
    examples = load_examples(c)
    if c.data_hash not in (None, hash_of(examples)):
        raise ArgumentError(f"expected the examples that {run.folder} was made of, got others in {c.data}")
    return examples


def network_of(
    run: StoredRun, c: Configuration, model: str | None = None, device: str | None = None, same_kind: bool = True
) -> Network:
    """The run's network, in the run's numerics. same_kind: only on a device of the kind that the run was made on."""
    here = "cuda" if torch.cuda.is_available() else "cpu"
    kind = c.device if same_kind and c.device is not None else here
    where = torch.device(kind if device in (None, "auto") else devices_of(device)[0])
    if same_kind and c.device is not None and where.type != c.device:
        raise ArgumentError(
            f"expected a {c.device} device, on which the run's votes were drawn, got {where.type}: it draws other noise"
        )
    # A run may say where its network is as seen from its own folder.
    beside = run.folder / c.model
    found, _ = load_model(c, Path(model) if model is not None else beside if beside.is_file() else None)
    num_classes = c.num_classes or int(run.column("num_classes")[0])
    return Network(found, num_classes, where, c.numerics)
