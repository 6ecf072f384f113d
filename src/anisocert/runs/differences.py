"""Whether what is asked for now is what a run began with: its options, its data, its network."""

import math
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.engine import Network, Numerics, same_behaviour
from anisocert.engine.probe import from_json
from anisocert.errors import ArgumentError
from anisocert.options import PARTS, READING
from anisocert.runs.configuration import Configuration

# Where things are may change while a run is under way; their hashes say what they are.
HASHES = {"model": "model_hash", "data": "data_hash", "average_of": "theta_hash"}
HASHED_TOO = (*READING, *PARTS, "model_id", "probe", "input_shape")  # part of the network, or its hash
# What may be left open by whoever joins a run.
NUMERICS = tuple(f"numerics.{field.name}" for field in fields(Numerics))
SETTLED = ("lifetime_from", "num_classes", "inputs", "device", *NUMERICS, *HASHES)
LARGEST_PROBE = 1 << 26  # values of an input: a bound on what a file may claim


def differences(begun: Configuration, asked: Configuration) -> list[str]:
    """`name: begun -> asked`, for each difference between a configuration and the run's."""
    old, new = _compared(begun), _compared(asked)
    changes = [
        f"{name}: {old[name][1]} -> {new[name][1]}"
        for name in old
        if old[name][0] != new[name][0] and not (name in SETTLED and new[name][0] is None)
    ]
    if begun.probe is not None and asked.probe is not None and not same_probe(begun, from_json(asked.probe)):
        changes.append(f"model: under one name ({begun.model_hash}), it behaves differently")
    return changes


def same_probe(begun: Configuration, probe: NDArray[np.float32]) -> bool:
    """Whether a network with this probe can be the run's.

    A run without a probe of its network accepts any, unless it knows the network only by a name.
    """
    if begun.probe is None:
        return begun.model_id is None
    return same_behaviour(from_json(begun.probe), probe)


def same_network(begun: Configuration, network: Network) -> bool:
    """Whether a network has the run's hash and behaves as the run's did."""
    if network.hash != begun.model_hash:
        return False
    if begun.probe is None:
        return begun.model_id is None
    shape = tuple(begun.input_shape or ())
    if not shape or not all(size > 0 for size in shape) or math.prod(shape) > LARGEST_PROBE:
        raise ArgumentError(f"expected input_shape, the shape of an input, beside a probe, got {begun.input_shape}")
    return same_probe(begun, network.probe(shape))


def _compared(configuration: Configuration) -> dict[str, tuple[Any, str]]:
    """What is compared and how it is shown, by name."""
    values = configuration.to_dict()
    for group in ("numerics", "versions"):
        values |= {f"{group}.{name}": value for name, value in values.pop(group).items()}
    pairs = {name: (value, "none" if value is None else str(value)) for name, value in values.items()}
    for name, hashed in HASHES.items():
        digest, _ = pairs.pop(hashed)
        behind = f" behind {values['denoise']}" if name == "model" and values["denoise"] else ""
        pairs[name] = (digest, f"{values[name]}{behind} ({str(digest)[:12]}...)")
    return {name: pair for name, pair in pairs.items() if name not in HASHED_TOO}
