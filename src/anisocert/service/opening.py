"""A service from what a user typed: the network, the memory, the noise, and examples for its page."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from anisocert.data import Dataset
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.inputs import expect_labels
from anisocert.memory import Memory
from anisocert.models import load_denoiser
from anisocert.models.loading import is_function
from anisocert.models.normalize import check_units, expect_channels
from anisocert.runs import Configuration
from anisocert.runs.loading import load_model
from anisocert.service._telling import Names
from anisocert.service.keys import KeyFile
from anisocert.service.limits import Limits
from anisocert.service.service import Examples, Service
from anisocert.system import System
from anisocert.work.doubts import warn_of_doubts
from anisocert.work.job import average_theta

SHOWN = 24  # examples on the page
LARGEST_TOLD = 1 << 22  # values of an input, as a file may claim: who has larger ones says so
LIFETIME = 1000  # inputs that a service is expected to certify at least: what compiling must pay for


def settled(configuration: Configuration, memory: Memory, examples: Dataset | None) -> Configuration:
    """The configuration with the shape of inputs, to which the network is made to fit as `certify` does it.

    An option, examples, the memory, an ONNX file or a denoiser's file may tell it: it is known before anybody asks.
    """
    c, shape = configuration, configuration.input_shape
    if examples is not None:
        if shape is not None and tuple(shape) != examples.shape:
            raise ArgumentError(f"expected --shape {examples.shape}, that of the examples, got {tuple(shape)}")
        shape = list(examples.shape)
    if not shape:
        shape = list(memory.stats().shape or _declared(c.model) or _of_denoiser(c.denoise))
        if math.prod(shape) > LARGEST_TOLD:
            raise ArgumentError(f"expected a file that says the shape of an input, got {tuple(shape)}: use --shape")
    if not shape:
        raise ArgumentError(
            f"expected the shape of inputs, which {c.model} does not say: use --shape, as in --shape 3,32,32, or --data"
        )
    return replace(c, input_shape=shape)


def _declared(model: str) -> tuple[int, ...]:
    """The shape of inputs that an ONNX file declares; empty if it leaves a size open, or is no such file."""
    if is_function(model) or Path(model).suffix != ".onnx" or not Path(model).exists():
        return ()
    from anisocert.models.onnx_network import OnnxNetwork

    declared = OnnxNetwork(Path(model)).shape
    return declared if all(isinstance(size, int) for size in declared) else ()


def _of_denoiser(denoise: str | None) -> tuple[int, ...]:
    """The shape of images that a denoiser was trained on, by its file; empty if there is none that says it."""
    if denoise is None or is_function(denoise) or not Path(denoise).exists():
        return ()
    return load_denoiser(denoise)[0].shape


def open_system(
    configuration: Configuration,
    memory: Memory,
    secret: bytes,
    device: str,
    attempts: int,
    examples: Dataset | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> System:
    """The system that a configuration describes. examples: such as it will answer. tell: called with each remark."""
    c = configuration
    labelled = examples if examples is not None and examples.labelled else None
    model, metadata = load_model(c, classes=None if labelled is None else labelled.num_classes)
    num_classes = c.num_classes or metadata.get("num_classes") or (None if labelled is None else labelled.num_classes)
    if num_classes is None:
        raise ArgumentError(f"expected the number of classes, which {c.model} does not say: use --num-classes")
    if examples is not None:
        expect_labels(examples.y, num_classes, c.data)
        check_units(examples.sample(), metadata.get("mean"), metadata.get("std"))
    elif c.input_shape:
        expect_channels(c.input_shape[0], len(metadata.get("mean") or ()))
    for note in (*(() if examples is None else examples.remarks), *metadata.get("notes", ())):
        tell(f"note: {note}")
    warn_of_doubts(c, model, metadata)
    network = Network(model, num_classes, device, c.numerics, c.model_id)
    plan, method, smoothing = c.plan(), c.chooser(average_theta(c)), c.smoothing()
    method.warn(model, smoothing, plan, num_classes, c.numerics.step)
    return System(
        network, smoothing=smoothing, method=method, plan=plan, memory=memory, secret=secret, attempts=attempts
    )


def open_service(
    system: System,
    keys: KeyFile,
    *,
    name: str,
    shape: tuple[int, ...] | None,
    domain: tuple[float, float] | None,
    limits: Limits,
    examples: Dataset | None,
) -> Service:
    """The service of a system, its numerics settled. examples: for the page."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ArgumentError(f"expected --name in letters, digits and . _ -, got {name!r}")
    page_examples, names = None, Names()
    if examples is not None:
        subset = examples.subset(skip=max(1, len(examples) // SHOWN), most=SHOWN)
        unit_range = bool(subset.x.min() >= 0 and subset.x.max() <= 1)
        shape, names = examples.shape, Names(examples.class_names, unit_range)
        page_examples = Examples(subset.x, tuple(subset.y.tolist()))
    service = Service(
        system, keys, name=name, shape=shape, domain=domain, limits=limits, names=names, examples=page_examples
    )  # fmt: skip
    system.expect_able(service.shape, LIFETIME * system.plan.n)
    return service
