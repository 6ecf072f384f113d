"""A service from what a user typed: the network, the memory, the noise, and examples for its page."""

import re
from pathlib import Path

from anisocert.bounds import Plan
from anisocert.data import Dataset
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.optimize import Average
from anisocert.runs import Configuration, read_run
from anisocert.runs.loading import load_model
from anisocert.service._telling import Names
from anisocert.service.keys import KeyFile
from anisocert.service.limits import Limits
from anisocert.service.service import Examples, Service
from anisocert.system import System

SHOWN = 24  # examples on the page
LIFETIME = 1000  # inputs that a service is expected to certify at least: what compiling must pay for


def open_memory(configuration: Configuration) -> Memory:
    """The memory that a configuration names; without one, one that ends with the process."""
    c, lifetime = configuration, configuration.alpha if configuration.lifetime else None
    if c.memory is None:
        return Memory(prefer=c.memory_prefer)
    return Memory.open(c.memory, c.memory_policy, prefer=c.memory_prefer, lifetime=lifetime)


def open_system(
    configuration: Configuration, memory: Memory, secret: bytes, device: str, attempts: int, classes: int | None = None
) -> System:
    """The system that a configuration describes. classes: how many, where neither it nor the network's file says."""
    c = configuration
    model, metadata = load_model(c)
    num_classes = c.num_classes or metadata.get("num_classes") or classes
    if num_classes is None:
        raise ArgumentError(f"expected the number of classes, which {c.model} does not say: use --num-classes")
    theta = None if c.average_of is None else Average.of(list(read_run(Path(c.average_of)).thetas.values())).theta
    network = Network(model, num_classes, device, c.numerics, c.model_id)
    plan: Plan = c.plan()
    plan.warn_if_hopeless(num_classes)
    return System(
        network, smoothing=c.smoothing(), method=c.chooser(theta), plan=plan, memory=memory, secret=secret,
        attempts=attempts,
    )  # fmt: skip


def open_service(
    system: System,
    keys: KeyFile,
    *,
    name: str,
    shape: tuple[int, ...] | None = None,
    domain: tuple[float, float] | None = None,
    limits: Limits | None = None,
    examples: Dataset | None = None,
) -> Service:
    """The service of a system, its network settled where the shape of inputs is known. examples: for the page."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ArgumentError(f"expected --name in letters, digits and . _ -, got {name!r}")
    shown, names = None, Names()
    if examples is not None:
        if shape is not None and shape != examples.shape:
            raise ArgumentError(f"expected --shape {examples.shape}, that of the examples, got {shape}")
        some = examples.subset(skip=max(1, len(examples) // SHOWN), most=SHOWN)
        unit_range = bool(some.x.min() >= 0 and some.x.max() <= 1)
        shape, names = examples.shape, Names(examples.class_names, unit_range)
        shown = Examples(some.x, tuple(some.y.tolist()))
    service = Service(
        system, keys, name=name, shape=shape, domain=domain, limits=limits, names=names, examples=shown
    )  # fmt: skip
    if service.shape is not None:
        system.network.fit(service.shape, LIFETIME * system.plan.n)
    return service
