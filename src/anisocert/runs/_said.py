"""What a run says of itself in `run.json`, which anybody may have written: read once, here, for everybody."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.engine import Numerics
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.memory import POLICIES, Policy
from anisocert.optimize.domain import check_domain
from anisocert.runs._spending import alphas_of
from anisocert.runs.configuration import UNNAMED, Configuration, computed, planned
from anisocert.smoothing import Smoothing, named, usual

Read = TypeVar("Read")


@dataclass(frozen=True)
class SaidMemory:
    """What a run says of the memory that answered it.

    place: a path or URL, None where it ended with its process, "" where the run does not say.
    """

    place: str | None
    policy: str | None
    prefer: str
    generation: Any

    @property
    def rules(self) -> Policy | None:
        """The policy itself, if it is one."""
        return POLICIES.get(self.policy or "")


@dataclass(frozen=True, eq=False)
class Said:
    """The words of a run. table: one row per input, in order of id, which repeat some of them."""

    folder: Path
    description: dict[str, Any] = field(repr=False)
    table: Any = field(repr=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def said(self, name: str) -> Any:
        """What the run says once for all inputs: in `run.json`, else as the one value of a column; None if nowhere."""
        if self.description.get(name) is not None:
            return self.description[name]
        values = self.table[name].unique().to_pylist() if name in self.table.column_names else []
        return values[0] if len(values) == 1 else None

    def column(self, name: str) -> NDArray[Any]:
        """One value per input."""
        if name not in self.table.column_names:
            raise ArgumentError(f"expected a run with column {name!r}, got {self.folder} without it")
        return np.asarray(self.table[name].to_numpy(zero_copy_only=False))

    @property
    def domain(self) -> tuple[float, float] | None:
        """The range of valid inputs; None where all are, or the run does not say it as a range."""
        domain = self.description.get("domain")
        if not isinstance(domain, list | tuple) or not all(type(limit) in (int, float) for limit in domain):
            return None
        try:
            check_domain(tuple(domain))
        except (ArgumentError, OverflowError):
            return None
        return float(domain[0]), float(domain[1])

    @property
    def imported(self) -> bool:
        """Whether the rows come from a file of the field."""
        return "imported" in self.description

    @property
    def model_hash(self) -> str | None:
        """The network's hash; None if it is not known, as with results that were imported."""
        model_hash = self.description.get("model_hash")
        return model_hash if isinstance(model_hash, str) else None

    @property
    def noise(self) -> type[Smoothing]:
        """Its noise; the usual one of its norm where it does not say, as files of the field do not."""
        name = self.said("noise")
        return usual(str(self.said("norm"))) if name is None else named(name)

    @property
    def memory(self) -> SaidMemory | None:
        """The memory that answered; None where there was none, or none is told of."""
        memory = self.description.get("memory")
        if not isinstance(memory, dict):
            return None
        place, policy, prefer = memory.get("file", ""), memory.get("policy"), memory.get("prefer")
        where, policy_name = None if place in (None, UNNAMED) else str(place), None if policy is None else str(policy)
        return SaidMemory(where, policy_name, str(prefer or "volume"), memory.get("generation"))

    @cached_property
    def configuration(self) -> Configuration:
        """What the run says about itself, once more as a configuration."""
        return self._read(Configuration.from_dict)

    @cached_property
    def plan(self) -> Plan:
        """The plan that its votes followed, with the whole alpha; also of a run that does not say how to repeat it."""
        return self._read(planned)

    @cached_property
    def numerics(self) -> Numerics:
        """How its network computed."""
        return self._read(computed)

    @cached_property
    def alphas(self) -> list[float]:
        """The alpha of each row."""
        alphas: list[float] = self._read(lambda description: alphas_of(description, len(self))).tolist()
        return alphas

    def _read(self, read: Callable[[dict[str, Any]], Read]) -> Read:
        """What is read from `run.json`, or an error of ours: anybody may have written anything there."""
        try:
            return read(self.description)
        except (AnisocertError, KeyError, TypeError, ValueError, OverflowError) as error:
            reason = f"expected {error}, got none" if isinstance(error, KeyError) else error
            raise ArgumentError(f"{self.folder}: {reason}") from error
