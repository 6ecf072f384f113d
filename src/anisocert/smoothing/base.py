"""What every smoothing distribution must define: how its noise is drawn, which region a pair of bounds certifies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self
from weakref import finalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.rounding import agrees, gap_down, inwards

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch import device as Device

Floats = NDArray[np.float64]

NOISES: dict[str, type[Smoothing]] = {}
"""All noises by name. Defining a class of noise, in whichever file, puts it here."""
USUAL: Final = {"l2": "gaussian", "l1": "uniform"}
"""What a norm stands for where no noise is named, as in files of the field and runs of earlier versions."""

_PLACED: dict[int, dict[tuple[Device, int], tuple[Tensor, Tensor]]] = {}


class Smoothing(ABC):
    """A noise `theta * eps` around an input, and the certificate it gives.

    name: what certificates and runs call it. title: the same in a sentence ("Gaussian noise"). symbol: of its
    parameter. norm: of the certified region. base: distribution of eps, "normal" or uniform on [-1, 1]. weights: of the
    mixture's components (one, for noises that are not mixtures). theta: per-coordinate scale of the region, as the
    float32 values that the noise is drawn with.

    Gap and region are those of the class: a certificate is recomputed from its noise's name, votes and theta alone.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    symbol: ClassVar[str]
    norm: ClassVar[Literal[1, 2]]
    base: ClassVar[Literal["normal", "uniform"]]
    weights: tuple[float, ...] = (1.0,)
    theta: NDArray[np.float32]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = cls.__dict__.get("name")  # of its own: under an inherited one its gap would be taken for the parent's
        if not isinstance(name, str) or not name:
            raise ArgumentError(f'expected a name in noise {cls.__qualname__}, as in name = "gaussian", got {name!r}')
        origin = (cls.__module__, cls.__qualname__)
        holder = NOISES.get(name, cls)
        if (holder.__module__, holder.__qualname__) != origin:  # the same class may be defined again, as notebooks do
            raise ArgumentError(f"expected a new name for noise {'.'.join(origin)}, got {name!r}, which is {holder}")
        NOISES[name] = cls

    @classmethod
    def of(cls, theta: ArrayLike) -> Self:
        """The noise with a stored theta, from which its votes can be drawn again."""
        return cls(theta)  # type: ignore[call-arg]  # the one parameter of a noise, under a name of its own

    @classmethod
    def parsed(cls, components: str | None, sigma: float) -> Smoothing:
        """The noise that a run's options describe. components: of a mixture; other noises have none."""
        if components is not None:
            raise ArgumentError(f"expected noise gaussian-mixture with components, got {cls.name}")
        return cls.of(sigma)

    def at(self, theta: ArrayLike) -> Self:
        """This noise with a different theta, chosen by a method."""
        return self.of(theta)

    def scales(self, theta: Tensor) -> Tensor:
        """Noise scales of a batch, one per mixture component. theta: `b x *shape` -> `b x j x *shape`."""
        return theta.unsqueeze(1)

    def scale(self, x: Tensor, generator: Generator | None = None) -> Tensor | float:
        """The factor of base noise eps of x's shape: a number, or a tensor on x's device. x: `b x *shape`.

        A mixture draws a component per input.
        """
        import torch  # votes take `scales`; only what trains, probes or draws comes here

        scales, weights = self._placed(x.device, x.dim())
        if scales.numel() == 1:
            return float(scales)  # a number: on the host, so no wait for the device
        if len(self.weights) == 1:
            return scales[0]
        return scales[torch.multinomial(weights, len(x), replacement=True, generator=generator)]

    def _placed(self, device: Device, dims: int) -> tuple[Tensor, Tensor]:
        """Scales of the components for inputs of `dims` dimensions, and weights; copied once, not for every batch."""
        import torch

        if id(self) not in _PLACED:  # by identity: equality of noises that others define need not be what is meant here
            _PLACED[id(self)] = {}
            finalize(self, _PLACED.pop, id(self), None)
        placed = _PLACED[id(self)]
        if (device, dims) not in placed:
            theta = torch.from_numpy(np.array(self.theta))
            scales = self.scales(theta[(None,) * (dims - theta.dim())])[0]
            target = device if scales.numel() > 1 else "cpu"
            placed[device, dims] = scales.to(target), torch.tensor(self.weights, dtype=torch.float32, device=target)
        return placed[device, dims]

    @staticmethod
    @abstractmethod
    def _gap(p_a: Floats, p_b: Floats) -> Floats:
        """The gap r of the certified set ||delta / theta|| < r, where p_a > p_b."""

    def soft_gap(self, p_a: Tensor, p_b: Tensor) -> Tensor:
        """The gap of probabilities that an optimiser may differentiate; certifies nothing. Shapes broadcast."""
        return self._gap(p_a, p_b)  # type: ignore[arg-type, return-value]  # arithmetic, or the noise has its own

    @classmethod
    def gap(cls, p_a: ArrayLike, p_b: ArrayLike) -> Floats:
        """The certified gap, rounded down; 0 where p_a <= p_b. Shapes broadcast."""
        a, b = np.broadcast_arrays(np.asarray(p_a, np.float64), np.asarray(p_b, np.float64))
        certified = a > b
        gap = cls._gap(np.where(certified, a, 0.5), np.where(certified, b, 0.5))
        return np.where(certified, gap_down(gap), 0.0)

    @classmethod
    def region(cls, center: ArrayLike, theta: ArrayLike, gap: float, cap: float | None = None) -> Region:
        """{z : ||(z - center) / theta||_norm <= gap}, rounded inwards; with a cap, the largest region in it and a ball.

        The ball has radius cap. An axis-parallel region lies in another of the same centre and norm if and only if none
        of its semi-axes is longer (their tips are points of it; and a gauge falls as axes grow). So the largest one
        inside both this one and the ball has the shorter of each pair.
        """
        center = np.asarray(center, np.float64)
        axes = np.asarray(theta, np.float64) * gap
        axes = np.broadcast_to(axes if cap is None else np.minimum(axes, cap), center.shape)
        return Region(center, inwards(axes), cls.norm)


def named(name: str) -> type[Smoothing]:
    """The noise of this name; an error if no such noise is defined here."""
    if name not in NOISES:
        raise ArgumentError(
            f"expected noise to be one of {', '.join(NOISES)}, got {name!r}: a noise of your own is known once its "
            "file is imported"
        )
    return NOISES[name]


def usual(norm: str) -> type[Smoothing]:
    """The noise that norm l1 or l2 stands for if none is named."""
    return NOISES[USUAL.get(norm, "gaussian")]


def unnamed(norm: str, p_a: float, p_b: float, gap: float) -> str:
    """The noise of an old certificate, which does not name it.

    It is the usual one for the norm, unless only a mixture, the only other noise at that time, gives its gap.
    """
    noises = [usual(norm), *([NOISES["gaussian-mixture"]] if norm == "l2" else [])]
    return next((noise.name for noise in noises if agrees(gap, float(noise.gap(p_a, p_b)))), noises[0].name)


def positive(name: str, value: ArrayLike) -> NDArray[np.float32]:
    """A scale parameter as float32: scalar or full shape, positive and finite."""
    try:
        if np.asarray(value).dtype.kind in "US":  # which numpy would read as numbers
            raise ValueError
        array = np.array(value, np.float32)  # a copy: it is made read-only, and the caller's must not be
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"expected {name} as numbers, got {value!r}") from error
    if array.size == 0 or not bool(np.all(np.isfinite(array)) and np.all(array > 0)):
        raise ArgumentError(f"expected {name} positive and finite, got {value!r}")
    array.setflags(write=False)
    return array
