"""What is attacked: certified inputs, in coordinates in which each region is the unit ball."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anisocert.attack._ball import length
from anisocert.certificate import Certificate
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.engine.votes import WhoStops
from anisocert.errors import ArgumentError
from anisocert.models import Coded
from anisocert.optimize.coded import voter
from anisocert.optimize.domain import Domain, inner
from anisocert.smoothing import Smoothing, named


@dataclass(frozen=True, eq=False)
class Targets:
    """Certified inputs of one noise, on a device.

    query: the centres as the network sees them, and the attack's own noise. x (the centres, in float64), axes, theta:
    `m x d`; top: `m`, the class that was promised. domain: range of valid inputs, which no point leaves; None: all are.
    code: `m`, whose network answers, where each code of a codebook has one.
    """

    query: Query
    x: Tensor
    axes: Tensor
    theta: Tensor
    top: Tensor
    domain: Domain | None = None
    code: Tensor | None = None

    @classmethod
    def of(
        cls,
        network: Network,
        certificates: Sequence[Certificate],
        seed: int,
        smoothing: Smoothing | None = None,
        domain: Domain | None = None,
    ) -> "Targets":
        """What certificates promise; all have a region, of one noise and shape.

        smoothing: what they were made with, where their noise's name and theta do not tell it, as of a mixture.
        """
        regions = [c.region for c in certificates if c.region is not None]
        kinds = {(c.noise, c.region.shape) for c in certificates if c.region is not None}
        if len(regions) != len(certificates) or len(kinds) != 1:
            raise ArgumentError("expected certificates with regions of one noise and shape, got others")
        noise, shape = kinds.pop()
        if smoothing is None or smoothing.name != noise:
            smoothing = named(noise).of(1.0)

        def stacked(values: list[NDArray[np.float64]]) -> Tensor:
            return torch.from_numpy(np.stack(values)).flatten(1).to(network.device)

        x = stacked([region.center for region in regions])
        return cls(
            Query(network, smoothing, x.float().view(-1, *shape), [int(c.id) for c in certificates], seed),
            x,
            stacked([region.axes for region in regions]),
            stacked([np.broadcast_to(c.theta, shape) for c in certificates]).float(),
            torch.tensor([c.prediction for c in certificates], device=network.device),
            domain,
            codes_of(network, [c.codes for c in certificates]),
        )

    @property
    def norm(self) -> int:
        """Norm of the regions."""
        return self.query.smoothing.norm

    def __len__(self) -> int:
        return len(self.query)

    def part(self, places: Tensor) -> "Targets":
        """Some of them, in any order and any number of times."""
        at = places.to(self.x.device)
        query = self.query.part(places.tolist())
        code = None if self.code is None else self.code[at]
        return Targets(query, self.x[at], self.axes[at], self.theta[at], self.top[at], self.domain, code)

    def repeated(self, count: int) -> "Targets":
        """Each of them so many times in a row."""
        return self.part(torch.arange(len(self), device="cpu").repeat_interleave(count))

    def groups(self, size: int) -> Iterator[tuple[Tensor, "Targets"]]:
        """(places, those of them), at most so many at a time."""
        for places in torch.split(torch.arange(len(self), device="cpu"), size):
            yield places, self.part(places)

    def by_network(self) -> Iterator[tuple[Tensor, "Targets"]]:
        """(places, those of them), for each network that answers some."""
        if self.code is None:
            yield torch.arange(len(self), device="cpu"), self
            return
        for code in sorted(set(self.code.tolist())):
            places = (self.code == code).nonzero()[:, 0].cpu()
            subset = replace(self.part(places), code=None)
            yield places, replace(subset, query=replace(subset.query, network=voter(self.query.network, code)))

    def points(self, u: Tensor) -> Tensor:
        """Inputs as the network sees them, in float32. u: `m x d`."""
        points = (self.x + self.axes * u.double()).float()
        return points if self.domain is None else points.clamp(*inner(self.domain))

    def valid(self, u: Tensor) -> Tensor:
        """The nearest points of the domain, which are no farther from the centres. u: `m x d`."""
        if self.domain is None:
            return u
        low, high = self._walls(self.domain, u.dtype)
        return torch.minimum(torch.maximum(u, low), high)

    def open(self, u: Tensor, slope: Tensor) -> Tensor:
        """A slope without what leads out of the domain, so that a step is not spent there. u, slope: `m x d`."""
        if self.domain is None:
            return slope
        low, high = self._walls(self.domain, u.dtype)
        return torch.where(((u <= low) & (slope < 0)) | ((u >= high) & (slope > 0)), 0.0, slope)

    def _walls(self, domain: Domain, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        low, high = (((wall - self.x) / self.axes).to(kind) for wall in domain)
        return low, high

    def gauges(self, points: Tensor) -> Tensor:
        """Gauges of points after rounding to float32. points: `m x d` -> `m`."""
        return length((points.double() - self.x) / self.axes, self.norm)

    def settled(self, u: Tensor, limit: float) -> Tensor:
        """Points in the same directions, a little nearer where rounding took one beyond the limit."""
        for _ in range(20):
            points = self.points(u)
            if not bool(points.isfinite().all()):  # the centre would take its place, and show nothing
                raise ArgumentError("expected points of the region or ball that float32 can hold, got some beyond it")
            over = self.gauges(points) / limit
            if not bool((over > 1).any()):
                return u
            u = u / (over * (1 + 1e-7)).clamp_min(1.0).unsqueeze(1).to(u.dtype)
        # Where a region is hardly larger than float32's spacing, only its centre is surely inside.
        return torch.where((self.gauges(self.points(u)) <= limit).unsqueeze(1), u, 0.0)

    def votes(self, points: Tensor, looks: list[int], stage: Stage, stop: WhoStops | None = None) -> NDArray[np.int64]:
        """Hard votes at one point per target, up to the look where they stop. points: `m x d` -> `m x num_classes`."""
        counts = np.zeros((len(self), self.query.network.num_classes), np.int64)
        for places, subset in self.by_network():
            shape, at = subset.query.x.shape, places.numpy()
            query = replace(subset.query, x=points[places.to(points.device)].view(shape))
            scales = subset.query.smoothing.scales(subset.theta.view(shape))
            counts[at] = all_votes(query, scales, stage, looks, stop and _among(at, stop))
        return counts


def codes_of(network: Network, said: Sequence[str | None]) -> Tensor | None:
    """The code whose network answers each input; None where one answers all. said: the codes of certificates."""
    if not isinstance(network.model, Coded) or len(network.model.networks) == 1:
        return None
    own = [int(codes.rpartition(",")[2]) if codes else network.model.order[0] for codes in said]
    return torch.tensor(own, device=network.device)


def _among(at: NDArray[np.int64], stop: WhoStops) -> WhoStops:
    """What decides about all, for those at some places."""
    return lambda position, look, counts: stop(at[position], look, counts)
