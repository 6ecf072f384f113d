"""Everything that determines a run's results: what was asked for, and what was found out when the run began."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from anisocert.bounds import Plan
from anisocert.data import parse_ids
from anisocert.data.dataset import is_name
from anisocert.engine import Network, Numerics, Stage, Stream
from anisocert.errors import ArgumentError, expect_one_of
from anisocert.memory import POLICIES, shown
from anisocert.optimize import CODED, METHODS, PUBLISHED, SAME_FOR_ALL, SELECTING, Method, Settings
from anisocert.optimize.domain import check_domain
from anisocert.options import PARTS, Options, flags
from anisocert.runs._spending import alphas_of, shares
from anisocert.runs.versions import versions
from anisocert.shell import shell_join
from anisocert.smoothing import Smoothing, named, usual

UNNAMED = "None"  # as earlier versions wrote the file of a memory that had none
RENAMED = {"probe_shape": "input_shape"}  # by the names that earlier versions wrote
PLANNED = {option.name for option in fields(Plan)} & {option.name for option in fields(Options)}


def planned(said: Mapping[str, Any]) -> Plan:
    """The plan in what a run says of itself, with the run's whole alpha; n and alpha must be there."""
    return Plan(**{name: said[name] for name in PLANNED if name in said or name in ("n", "alpha")})


def computed(said: Mapping[str, Any]) -> Numerics:
    """How the network of a run computed, by what it says of itself. Early runs name no grid, as there was none."""
    return Numerics(**{"grid": 0.0} | said.get("numerics", {}))


def _versions() -> dict[str, str]:
    """The versions that may not change while a run is under way."""
    return {name: versions()[name] for name in ("anisocert", "torch")}


@dataclass(frozen=True)
class Configuration(Options):
    """A run's options, and what was found out; None: not yet.

    trained_on: whether the inputs are of the data that the network was trained on, as far as its file tells.
    numerics, device: what the first process found best, which all others then use. probe: the network's scores on
    inputs of input_shape, which distinguish it from another of the same name.
    """

    lifetime_from: int | None = None
    inputs: int | None = None
    data_hash: str | None = None
    theta_hash: str | None = None
    trained_on: bool = False
    model_hash: str | None = None
    probe: list[list[float | str]] | None = None
    input_shape: list[int] | None = None
    device: str | None = None
    numerics: Numerics = field(default_factory=Numerics)
    versions: dict[str, str] = field(default_factory=_versions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == usual(self.norm).name:
            object.__setattr__(self, "noise", None)  # the same as without it, so that one thing has one name
        expect_one_of("method", self.method, METHODS)
        if self.model_id == "":
            raise ArgumentError("expected model_id, a name, got an empty one")
        if self.iterations is not None and not self.paper:
            raise ArgumentError("expected iterations, of the published search, only with paper, got them without")
        if self.limit is not None and self.paper:
            raise ArgumentError("expected no limit with paper, as the published search has none, got one")
        if self.prefer != "ball" and (self.paper or self.method != "anisotropic"):
            raise ArgumentError(
                f"expected prefer {self.prefer!r} with our method anisotropic alone, got another method"
            )
        if self.domain is not None:
            check_domain(self.domain)
        if (self.method == "average") != (self.average_of is not None):
            raise ArgumentError("expected average_of, a run, with method 'average' and with no other")
        for name, methods, by in (("codebook", CODED, "codebook"), ("selector", SELECTING, "train --recipe selector")):
            if (self.method in methods) != (self.parts[name] is not None):
                raise ArgumentError(
                    f"expected {name}, a file, with method {' or '.join(methods)} and with no other: "
                    f"`anisocert {by}` makes one"
                )
        if self.memory_policy is not None:
            expect_one_of("memory_policy", self.memory_policy, POLICIES)
        if self.simultaneous and self.lifetime:
            raise ArgumentError("expected simultaneous, of one run, or lifetime, of a memory, got both")
        for name, unset in (("memory_policy", None), ("memory_prefer", "volume"), ("lifetime", False)):
            if self.memory is None and (value := getattr(self, name)) != unset:
                raise ArgumentError(f"expected memory, a file (--memory FILE), with {name} {value!r}, got none")
        self.smoothing()  # these are made for their own checks
        self.chooser()
        if self.components is not None and self.method != "fixed":
            raise ArgumentError(f"expected --method fixed with components, which give theta, got {self.method!r}")
        parse_ids(",".join(part for part in (self.ids or "").split(",") if not is_name(part)))
        Stream(self.seed, Stage.ESTIMATE, 0)
        object.__setattr__(self, "stop", self.plan().stop)  # a target radius makes a plan sequential

    def smoothing(self) -> Smoothing:
        """The noise."""
        noise = usual(self.norm) if self.noise is None else named(self.noise)
        if f"l{noise.norm}" != self.norm:
            raise ArgumentError(f"expected norm l{noise.norm} with {noise.name} noise, got {self.norm}")
        return noise.parsed(self.components, self.sigma)

    def plan(self) -> Plan:
        """The votes per input. Its alpha is that of each input or, where they differ, roughly the smallest of them."""
        alpha = self.alpha
        if self.inputs is not None and (self.simultaneous or self.lifetime):
            alpha = float(shares(alpha, self.inputs, self.simultaneous, 1 if self.lifetime else None)[-1])
        return planned(vars(self) | {"alpha": alpha})

    def alphas(self) -> NDArray[np.float64]:
        """The probability with which each input's certificate may be wrong, in order of id, once the run has begun."""
        assert self.inputs is not None
        return alphas_of(vars(self), self.inputs)

    def chooser(self, theta: NDArray[np.float32] | None = None) -> Method:
        """The way theta is chosen. theta: the mean of another run's, for method average."""
        methods = METHODS | PUBLISHED if self.paper else METHODS
        domain = None if self.domain is None else (self.domain[0], self.domain[1])
        settings = Settings(self.outputs, self.limit, self.iterations, self.prefer, domain, theta)
        return methods[self.method](settings)

    def at_limit(self, theta_max: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Whether thetas with these largest values are as large as the search may make them. shape: of an input."""
        # It was kept in float32, which may have rounded it either way.
        return np.asarray(theta_max) >= self.sigma * self.chooser().limit_for(shape) * (1 - 1e-6)

    def network(self, model: nn.Module, device: torch.device | str, numerics: Numerics | None = None) -> Network:
        """The model as it is asked, once its classes are counted. numerics: others than the run's."""
        assert self.num_classes is not None
        return Network(model, self.num_classes, device, numerics or self.numerics, self.model_id)

    @property
    def parts(self) -> dict[str, str | None]:
        """What else the network is made of, by option; None without one."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def bounded_reach(self) -> bool:
        """Whether the search keeps regions from reaching far beyond their inputs, as ours does."""
        return self.method in ("isotropic", "anisotropic") and not self.paper

    @property
    def needs_gradients(self) -> bool:
        """Whether the network must give gradients."""
        return self.chooser().evaluations(self.plan()) > 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        names = {"noise": self.smoothing().name, "memory": self.memory and shown(self.memory)}
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self) | names))
        return plain

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> "Configuration":
        """Back from JSON; anything beyond the configuration is ignored."""
        try:
            said = said | {new: said[old] for old, new in RENAMED.items() if old in said}
            values = {option.name: said[option.name] for option in fields(cls) if option.name in said}
            if missing := [name for name in ("model", "data", "sigma") if name not in values]:
                raise ArgumentError(f"expected a run that says how to repeat it, got one without {', '.join(missing)}")
            for name in ("mean", "std", "domain"):
                values[name] = tuple(values[name]) if values.get(name) is not None else None
            if isinstance(values.get("memory"), dict):  # a finished run says more about it
                file = values["memory"].get("file")
                values["memory"] = None if file == UNNAMED else file
            if values.get("method") in SAME_FOR_ALL:
                values["limit"] = None  # which earlier versions took, whatever it was, and did not use
            values["numerics"] = computed(values)
            values["versions"] = {name: values.get("versions", {}).get(name) for name in _versions()}
            if not all(isinstance(version, str | None) for version in values["versions"].values()):
                raise ArgumentError(f"expected versions as texts, got {values['versions']}")
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(f"expected a run that says how to repeat it, got one that does not: {error}") from error

    def command(self, out: Path) -> str:
        """The command line that repeats the run."""
        values = vars(self) | asdict(self.numerics) | {"memory": self.memory and shown(self.memory)}
        options = {
            option.name: values[option.name] for option in fields(Options)[1:] if values[option.name] != option.default
        }
        computing = {name: values[name] for name in ("device", *asdict(self.numerics)) if values[name] is not None}
        return shell_join(("anisocert", "certify", self.model, "--out", out, *flags(options | computing)))
