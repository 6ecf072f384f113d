"""Everything that determines a run's results, under the names of the command line's options."""

import hashlib
import json
import math
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from anisocert import __version__
from anisocert.bounds import Plan
from anisocert.bounds.plan import Stop
from anisocert.data import Split, parse_ids
from anisocert.engine import Network, Numerics, Stage, Stream, same_behaviour
from anisocert.engine.probe import from_json
from anisocert.errors import ArgumentError
from anisocert.memory import Prefer
from anisocert.memory.policy import POLICIES
from anisocert.models.foreign import Layout
from anisocert.optimize import METHODS, PUBLISHED, Method, Settings
from anisocert.optimize.soft import Outputs
from anisocert.runs.spending import shares
from anisocert.smoothing import Smoothing, named, usual

# Where things lie may change while a run is under way; what they are is told by their hashes.
HASHES = {"model": "model_hash", "data": "data_hash", "average_of": "theta_hash"}
PROBE = ("probe", "probe_shape")
LARGEST_PROBE = 1 << 26  # values of an input: what a file only says is not believed without end
NO_OPTIONS = ("model", "inputs", "lifetime_from", "numerics", "versions", *PROBE, *HASHES.values())
HASHED_TOO = ("layout", "mean", "std", "denoise", "model_id")  # they are part of the network, or its hash
SETTLED = (
    "lifetime_from",
    "num_classes",
    "inputs",
    "device",
    "numerics.precision",
    "numerics.compile",
    "numerics.rows",
    *HASHES,
)


SCALARS = [one for kind in (bool, int, float, str) for one in (kind, kind | None)]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value from JSON is of a field's type; a whole number is a float as well."""
    if isinstance(value, bool):
        return kind in (bool, bool | None)
    return isinstance(value, kind) or (isinstance(value, int) and isinstance(0.0, kind))


def _versions() -> dict[str, str]:
    return {"anisocert": __version__, "torch": torch.__version__}


@dataclass(frozen=True)
class Configuration:
    """A run's configuration. None in the last group: not settled yet, or as it comes.

    model, data, average_of: absolute paths, or names. noise: None is the usual one of the norm. ids: as in
    "3,17,100-199". numerics, device: what the first process found best, which all others then use.
    """

    model: str
    data: str
    sigma: float
    split: Split = "test"
    skip: int = 1
    max: int | None = None
    ids: str | None = None
    norm: Literal["l2", "l1"] = "l2"
    noise: str | None = None
    method: str = "anisotropic"
    paper: bool = False
    iterations: int | None = None
    limit: float | None = None
    outputs: Outputs = "logits"
    average_of: str | None = None
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    simultaneous: bool = False
    lifetime: bool = False
    bound: str = "one-vs-rest"
    stop: Stop | None = None
    target_radius: float | None = None
    seed: int = 0
    layout: Layout | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    denoise: str | None = None
    model_id: str | None = None
    memory: str | None = None
    memory_policy: str | None = None
    memory_prefer: Prefer = "volume"

    lifetime_from: int | None = None
    num_classes: int | None = None
    inputs: int | None = None
    data_hash: str | None = None
    theta_hash: str | None = None
    model_hash: str | None = None
    probe: list[list[float | str]] | None = None
    probe_shape: list[int] | None = None
    device: str | None = None
    numerics: Numerics = field(default_factory=Numerics)
    versions: dict[str, str] = field(default_factory=_versions)

    def __post_init__(self) -> None:
        if self.split not in get_args(Split):
            raise ArgumentError(f"expected split of {', '.join(get_args(Split))}, got {self.split!r}")
        if self.norm not in ("l1", "l2"):
            raise ArgumentError(f"expected norm l1 or l2, got {self.norm!r}")
        if self.noise == usual(self.norm).name:
            object.__setattr__(self, "noise", None)  # as without it, so that one thing has one name
        if self.method not in METHODS:
            raise ArgumentError(f"expected method of {', '.join(METHODS)}, got {self.method!r}")
        if self.outputs not in ("logits", "probabilities"):
            raise ArgumentError(f"expected outputs 'logits' or 'probabilities', got {self.outputs!r}")
        if self.layout not in (None, *get_args(Layout)):
            raise ArgumentError(f"expected layout of {', '.join(get_args(Layout))}, got {self.layout!r}")
        if self.model_id == "":
            raise ArgumentError("expected model_id, a name, got an empty one")
        if self.iterations is not None and not self.paper:
            raise ArgumentError("expected iterations, of the published search, with paper, got them without")
        if self.limit is not None and self.paper:
            raise ArgumentError("expected no limit with paper, as the published search has none, got one")
        if (self.method == "average") != (self.average_of is not None):
            raise ArgumentError("expected average_of, a run, with method 'average' and with no other")
        if self.memory_policy not in (None, *POLICIES):
            raise ArgumentError(f"expected memory_policy of {', '.join(POLICIES)}, got {self.memory_policy!r}")
        if self.memory_prefer not in ("volume", "ball"):
            raise ArgumentError(f"expected memory_prefer 'volume' or 'ball', got {self.memory_prefer!r}")
        if self.memory_policy is not None and self.memory is None:
            raise ArgumentError(f"expected memory, a file, with memory_policy {self.memory_policy!r}, got none")
        if self.memory_prefer != "volume" and self.memory is None:
            raise ArgumentError(f"expected memory, a file, with memory_prefer {self.memory_prefer!r}, got none")
        if self.simultaneous and self.lifetime:
            raise ArgumentError("expected simultaneous, of one run, or lifetime, of a memory, got both")
        if self.lifetime and self.memory is None:
            raise ArgumentError("expected memory, a file, with lifetime, which is the memory's, got none")
        self.smoothing()  # these are made for their own checks
        self.how()
        parse_ids(self.ids or "")
        Stream(self.seed, Stage.ESTIMATE, 0)
        object.__setattr__(self, "stop", self.plan().stop)  # a target radius makes a plan sequential

    def smoothing(self) -> Smoothing:
        """The noise."""
        noise = usual(self.norm) if self.noise is None else named(self.noise)
        if f"l{noise.norm}" != self.norm:
            raise ArgumentError(f"expected norm l{noise.norm} with {noise.name} noise, got {self.norm}")
        return noise.of(self.sigma)

    def plan(self) -> Plan:
        """The votes of an input. Its alpha is each input's own, or where they differ about the smallest of them."""
        alpha = self.alpha
        if self.inputs is not None and (self.simultaneous or self.lifetime):
            alpha = float(shares(alpha, self.inputs, self.simultaneous, 1 if self.lifetime else None)[-1])
        return Plan(
            n0=self.n0, n=self.n, alpha=alpha, bound=self.bound, stop=self.stop, target_radius=self.target_radius
        )

    def alphas(self) -> NDArray[np.float64]:
        """The probability with which each input's certificate may be wrong, in order of id, once the run is begun."""
        assert self.inputs is not None
        if self.lifetime and self.lifetime_from is None:
            raise ArgumentError("expected lifetime_from, which the memory gives a run, got none")
        return shares(self.alpha, self.inputs, self.simultaneous, self.lifetime_from)

    def how(self, theta: NDArray[np.float32] | None = None) -> Method:
        """The way theta is chosen. theta: the mean of another run's, for method average."""
        known = METHODS | PUBLISHED if self.paper else METHODS
        settings = Settings(outputs=self.outputs, limit=self.limit, iterations=self.iterations, theta=theta)
        return known[self.method](settings)

    def at_limit(self, theta_max: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Whether thetas with these largest values are as large as the search may make them. shape: of an input."""
        # It was kept in float32, which may have rounded it either way.
        return np.asarray(theta_max) >= self.sigma * self.how().limit_for(shape) * (1 - 1e-6)

    @property
    def needs_gradients(self) -> bool:
        """Whether the network must tell how its scores change with its input."""
        return self.how().evaluations > 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> "Configuration":
        """Back from JSON; what a description says beyond the configuration is left out."""
        try:
            return cls._from_dict(said)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(f"expected a run that says how to repeat it, got one that does not: {error}") from error

    @classmethod
    def _from_dict(cls, said: dict[str, Any]) -> "Configuration":
        known = {one.name: said[one.name] for one in fields(cls) if one.name in said}
        missing = [name for name in ("model", "data", "sigma") if name not in known]
        if missing:
            raise ArgumentError(f"expected a run that says how to repeat it, got one without {', '.join(missing)}")
        if not all(isinstance(known.get(name) or "", str) for name in ("model", "data", "denoise")):
            raise ArgumentError("expected model, data and denoise as texts, got other values")
        for name in ("mean", "std"):
            known[name] = tuple(known[name]) if known.get(name) is not None else None
        if isinstance(known.get("memory"), dict):  # a finished run tells more about it
            known["memory"] = known["memory"]["file"]
        kinds = get_type_hints(cls)
        for name, value in known.items():
            if kinds[name] in SCALARS and not _fits(value, kinds[name]):
                raise ArgumentError(
                    f"expected {name} as {getattr(kinds[name], '__name__', kinds[name])}, got {value!r}"
                )
        known["numerics"] = Numerics(**known.get("numerics", {}))
        known["versions"] = {name: known.get("versions", {}).get(name) for name in _versions()}
        if not all(isinstance(version, str | None) for version in known["versions"].values()):
            raise ArgumentError(f"expected versions as texts, got {known['versions']}")
        return cls(**known)

    def differences(self, asked: "Configuration") -> list[str]:
        """`name: here -> asked`, for each thing in which another configuration asks for something else than this."""
        here, there = _compared(self), _compared(asked)
        found = [
            f"{name}: {here[name][1]} -> {there[name][1]}"
            for name in here
            if here[name][0] != there[name][0] and not (name in SETTLED and there[name][0] is None)
        ]
        if self.probe is not None and asked.probe is not None and not self.behaves_like(from_json(asked.probe)):
            found.append(f"model: under one name ({self.model_hash}), it behaves otherwise")
        return found

    def behaves_like(self, probe: NDArray[np.float32]) -> bool:
        """Whether a network with this probe can be the one that the run was begun with.

        A run that knows no probe of its network says nothing against one, unless a mere name is all it knows.
        """
        if self.probe is None:
            return self.model_id is None
        return same_behaviour(from_json(self.probe), probe)

    def is_of(self, network: Network) -> bool:
        """Whether a network behaves as the run's did; its hash is another question."""
        if self.probe is None:
            return self.model_id is None
        shape = tuple(self.probe_shape or ())
        if not shape or not all(type(size) is int and size > 0 for size in shape) or math.prod(shape) > LARGEST_PROBE:
            raise ArgumentError(f"expected probe_shape, the shape of an input, beside a probe, got {self.probe_shape}")
        return self.behaves_like(network.probe(shape))

    def command(self, out: Path) -> str:
        """The command line that repeats the run."""
        parts = ["anisocert", "certify", self.model, "--out", str(out)]
        defaults = {one.name: one.default for one in fields(self)}
        for name, value in (self.to_dict() | asdict(self.numerics)).items():
            flag = f"--{name.replace('_', '-')}"
            if name in NO_OPTIONS or value == defaults.get(name):
                continue
            if isinstance(value, bool):
                parts.append(flag if value else flag.replace("--", "--no-", 1))
            elif isinstance(value, list):
                parts += [flag, ",".join(map(str, value))]
            else:
                parts += [flag, str(value)]
        return shlex.join(parts)


def digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of arrays' values, types and shapes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _compared(configuration: Configuration) -> dict[str, tuple[Any, str]]:
    """What is compared and how it is shown, by name."""
    values = configuration.to_dict()
    for group in ("numerics", "versions"):
        values |= {f"{group}.{name}": value for name, value in values.pop(group).items()}
    found = {name: (value, "none" if value is None else str(value)) for name, value in values.items()}
    for name, hashed in HASHES.items():
        known, _ = found.pop(hashed)
        found[name] = (known, f"{values[name]} ({str(known)[:12]}...)")
    return {name: pair for name, pair in found.items() if name not in (*HASHED_TOO, *PROBE)}
