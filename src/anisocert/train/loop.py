"""The one training loop."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from anisocert.data import Dataset
from anisocert.engine.first_call import taking
from anisocert.engine.given import usable
from anisocert.engine.numerics import Precision, keep_large_blocks, native_precision
from anisocert.engine.settings import repeatable, untimed
from anisocert.engine.told import under
from anisocert.errors import ArgumentError, ModelError
from anisocert.smoothing import Smoothing
from anisocert.train._augment import Batches
from anisocert.train._folder import Folder, Record, blueprint
from anisocert.train._mixed import Mixed
from anisocert.train._pooling import RepeatablePools
from anisocert.train._steps import Replays, Steps
from anisocert.train.accuracy import Held
from anisocert.train.recipe import Recipe
from anisocert.train.sgd import Sgd

ONE_THREAD = 100_000  # input values per batch, below which more threads do not help


def train(
    model: nn.Module,
    data: Dataset,
    recipe: Recipe,
    smoothing: Smoothing,
    *,
    sgd: Sgd | None = None,
    test: Dataset | None = None,
    folder: Path | None = None,
    crop: int | None = None,
    flip: bool | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    precision: Precision | None = None,
    compile: bool = False,
    graph: bool = True,
    on_epoch: Callable[[Record], None] | None = None,
    on_resume: Callable[[int], None] | None = None,
    force: bool = False,
) -> list[Record]:
    """Train `model` in place, and leave it on `device` in evaluation mode; returns one record per epoch.

    Unless it is compiled, the same call gives the same weights, bit by bit, on the same kind of device with the same
    versions of torch and cuDNN, provided that the model's own operators are deterministic: those of the networks here
    are, max-pools included.

    Args:
        model: maps `b x *shape` to `b x num_classes` logits.
        data: the examples to learn from.
        recipe: the loss, as in `Cohen()`.
        smoothing: the noise that is added, best the one that the network will be certified with.
        sgd: the optimiser's options. Default: 60 epochs of what suits the recipe and the size of the data.
        test: examples to measure noisy accuracy on after each epoch; the best weights are chosen by it.
        folder: where weights, log and state go; an interrupted training resumes there, to the same result, after the
            last whole epoch or one about ten seconds before it. Only one process may use it: BusyError if another is
            at work.
        crop: random crops after padding by so many pixels. Default: the data's own.
        flip: random mirroring. Default: the data's own.
        seed: everything random in an epoch follows from it and the epoch's number.
        device: where to train.
        precision: of the network. Default: by device.
        compile: by torch.compile, which did not pay where it was measured, without a graph (benchmarks/train.py).
        graph: on a GPU, capture a step once and replay it as one CUDA graph, which differs by rounding from launching
            its kernels one by one; what cannot be captured is launched, and a record's `graph` tells which it was. Use
            False for a network or recipe whose Python code does something else from one call to the next.
        on_epoch: called with each record as it is made.
        on_resume: called with the number of epochs that an interrupted training has kept, before it goes on.
        force: begin anew even over another training, or other files; this same training is resumed all the same.
    """
    device, sgd = usable(device), sgd or recipe.sgd(len(data), 60)
    recipe.check(smoothing)
    crop, flip = data.crop if crop is None else crop, data.flip if flip is None else flip
    precision = precision or native_precision(device)
    if device.type == "cpu":
        keep_large_blocks()
    model.to(device)
    if len(data.shape) == 3:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = Batches(data, sgd.batch_size, crop, flip, device)
    placed, kind = recipe.on(device), Replays if graph and device.type == "cuda" else Steps
    answers = placed.answering(model)
    network, answering = Mixed(model, precision), Mixed(answers, precision)
    accuracy = None if test is None else partial(Held(test, device).accuracy, answering, smoothing, seed)
    metadata = {} if folder is None else blueprint(model, placed.classes(data))
    optimizer = torch.optim.SGD(
        model.parameters(), sgd.learning_rate, sgd.momentum, weight_decay=sgd.weight_decay,
        nesterov=sgd.momentum > 0, fused=device.type == "cuda",
    )  # fmt: skip
    steps = kind(network, batches, smoothing, sgd, optimizer)
    config = {
        "data": data.name, "data_sha256": data.fingerprint(), "examples": len(data),
        "test_examples": 0 if test is None else len(test), "recipe": recipe.options(),
        "noise": smoothing.name, "norm": f"l{smoothing.norm}",
        "sigma": _plain(smoothing.theta), "sgd": dataclasses.asdict(sgd), "crop": crop,
        "flip": flip, "seed": seed, "numerics": {"precision": precision, "compile": compile, "device": device.type},
    }  # fmt: skip
    training_folder = None if folder is None else Folder(Path(folder), metadata | config, force)
    if test is not None and not test.labelled:
        raise ArgumentError(f"expected labels in test, {test.name}, to measure accuracy by, got none: leave test out")
    for examples in filter(None, (data if recipe.labelled else None, test)):
        _refuse_labels(recipe, answers, examples, device)
    placed.try_on(data)
    lock = training_folder.held() if training_folder else nullcontext()
    with lock, torch.random.fork_rng([device] if device.type == "cuda" else []), _tuned(device, batches, compile):
        records = training_folder.resume(model, optimizer) if training_folder else []
        if on_resume is not None and 0 < len(records) < sgd.epochs:
            on_resume(len(records))
        if compile and len(records) < sgd.epochs:
            torch.manual_seed(seed)
            network.train()
            network.compile_network(lambda: steps.first_loss(placed.during(sgd.epochs - 1, sgd.epochs)))
        for epoch in range(len(records), sgd.epochs):
            torch.manual_seed(_epoch_seed(seed, epoch))
            records.append(_epoch(steps, placed, epoch, accuracy))
            if training_folder:
                training_folder.keep(model, optimizer, records)
            if on_epoch is not None:
                on_epoch(records[-1])
        model.eval()
        optimizer.zero_grad(set_to_none=True)  # gradients would keep the graph's memory
        if training_folder:
            training_folder.finish(model, optimizer, records)
    return records


def _refuse_labels(recipe: Recipe, model: nn.Module, data: Dataset, device: torch.device) -> None:
    """An error for classes that the network does not have; a GPU's own error would not say what is wrong."""
    if not data.labelled:
        raise ArgumentError(f"expected labels to train on in {data.name}, got none{recipe.without_labels}")
    with taking(data.shape, model), torch.no_grad():
        classes = under(0.0, model.eval())(torch.from_numpy(data.subset(most=1).x).to(device)).shape[1]
    if data.y.max() >= classes:
        raise ArgumentError(
            f"expected labels below {classes}, the network's number of classes, in {data.name}, got {data.y.max()}"
        )


def _epoch(steps: Steps, recipe: Recipe, epoch: int, accuracy: Callable[[], float] | None) -> Record:
    """One pass over the data, and what it has reached. accuracy: measures that."""
    started = time.perf_counter()
    steps.network.train()
    loss = steps.epoch(recipe.during(epoch, steps.sgd.epochs), epoch)
    trained = time.perf_counter()
    if not math.isfinite(loss):
        raise ModelError(f"expected a finite loss, got {loss} in epoch {epoch + 1}: lower the learning rate (--lr)")
    steps.network.eval()
    return {
        "epoch": epoch + 1, "loss": loss, "test_accuracy": None if accuracy is None else accuracy(),
        "learning_rate": steps.optimizer.param_groups[0]["lr"], "compiled": steps.network.compiled,
        "graph": steps.graph, "train_seconds": trained - started, "seconds": time.perf_counter() - started,
    }  # fmt: skip


def _epoch_seed(seed: int, epoch: int) -> int:
    """Seeds of different epochs and trainings are unrelated."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def _tuned(device: torch.device, batches: Batches, compile: bool) -> Iterator[None]:
    """On a GPU only kernels that give the same result each time; on a CPU one thread for tiny batches.

    Threads that share too little work wait for each other more than they work: on a busy machine, 13 times more.
    """
    threads = torch.get_num_threads()
    tiny = device.type == "cpu" and batches.size * batches.x[0].numel() < ONE_THREAD
    try:
        torch.set_num_threads(1 if tiny else threads)
        with ExitStack() as settings:
            if device.type == "cuda":
                settings.enter_context(repeatable())
                settings.enter_context(untimed())
                if not compile:  # which has max-pools of its own
                    settings.enter_context(RepeatablePools())
            yield
    finally:
        torch.set_num_threads(threads)


def _plain(theta: Any) -> Any:
    """Scalar noise as the short decimal it was given as, else the list."""
    return float(str(theta.reshape(-1)[0])) if theta.size == 1 else theta.tolist()
