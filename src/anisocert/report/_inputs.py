"""The inputs that a run was about, from the data set it names; a run does not hold them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import AnisocertError
from anisocert.evaluate import Comparison


@dataclass(frozen=True, eq=False)
class Inputs:
    """x: by id. shape: of one, None if unknown. domain: range of values. missing: why there are none, else empty.

    names: of their files, by id, where they have any.
    """

    x: dict[int, NDArray[np.float64]]
    shape: tuple[int, ...] | None = None
    domain: tuple[float, float] = (0.0, 1.0)
    class_names: tuple[str, ...] = ()
    names: dict[int, str] = field(default_factory=dict)
    missing: str = ""

    @property
    def dim(self) -> int | None:
        """Number of values per input; None if unknown."""
        return None if self.shape is None else int(np.prod(self.shape))

    @property
    def unit_range(self) -> bool:
        """Whether all values are known to lie in [0, 1]."""
        return bool(self.x) and self.domain == (0.0, 1.0)


def inputs_of(comparison: Comparison, ids: Sequence[int]) -> Inputs:
    """Some of a comparison's inputs; none, and the reason, where the data is missing or is not the same."""
    entry = comparison.headline
    name = entry.run.place("data")
    if name is None:
        return Inputs({}, missing="the run does not say which data it is of")
    try:
        examples = entry.run.examples(list(ids), whole=False)
        x = examples.x.astype(np.float64)
    except (AnisocertError, OSError) as error:
        return Inputs({}, missing=f"the data could not be read ({str(error).splitlines()[0]})")
    labels = dict(zip(entry.before.ids.tolist(), entry.before.labels.tolist(), strict=True))
    if any(labels[number] != label for number, label in zip(examples.ids.tolist(), examples.y.tolist(), strict=True)):
        return Inputs({}, missing=f"the data named {name} has other labels than the run")
    low, high = float(x.min()), float(x.max())
    domain = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    by_id = dict(zip(examples.ids.tolist(), x, strict=True))
    names = dict(zip(examples.ids.tolist(), examples.names, strict=False))
    return Inputs(by_id, examples.shape, domain, examples.class_names, names)
