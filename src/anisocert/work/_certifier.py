"""A network on one device that certifies chunks of inputs: every worker of a run is one."""

import math
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from anisocert.certification import timed_certificates
from anisocert.engine import Network, Numerics, Query
from anisocert.errors import AnisocertWarning, ModelError
from anisocert.runs import Configuration, row
from anisocert.runs.loading import load_model
from anisocert.work._cost import Meter, cost_of
from anisocert.work.job import Chunk


@dataclass(frozen=True)
class Settled:
    """How a network runs: numerics without a None, the kind of its device, the network's hash, its probe.

    group: how many inputs are searched together for theta; fewer take as long.
    """

    numerics: Numerics
    device: str
    model_hash: str
    group: int
    probe: NDArray[np.float32]


class OutOfTimeError(Exception):
    """The seconds allowed for a chunk are used up."""


class Certifier:
    """Certifies chunks by a configuration. files: the model's, by name, if this is another machine."""

    def __init__(
        self,
        configuration: Configuration,
        theta: NDArray[np.float32] | None,
        device: str,
        model: nn.Module | None = None,
        files: dict[str, bytes] | None = None,
    ) -> None:
        self.configuration, self.device = configuration, device
        self.model = _load(configuration, files) if model is None else model
        self.smoothing, self.plan = configuration.smoothing(), configuration.plan()
        self.method = configuration.chooser(theta)
        self.network: Network | None = None
        self.meter: Meter | None = None

    def settle(self, numerics: Numerics, shape: tuple[int, ...], inputs: int) -> Settled:
        """Decide what `numerics` leaves open, with the whole run in view, and make the network ready."""
        if self.network is None or self.network.numerics != numerics:
            self.network = self.configuration.network(self.model, self.device, numerics)
        self.network.fit(shape, inputs * self.method.votes(self.plan, self.network.model))
        self.method.expect_gradients(self.network, self.smoothing, self.plan, shape)
        group = self.method.group(self.network, self.plan)
        probe = self.network.probe(shape)
        return Settled(self.network.numerics, self.network.device.type, self.network.hash, group, probe)

    def certify(self, chunk: Chunk, seconds: float = math.inf) -> list[dict[str, Any]]:
        """Rows with their `theta`, of the inputs that are done within `seconds`, and of at least one."""
        assert self.network is not None
        deadline = time.monotonic() + seconds
        numerics, rows = self.network.numerics, list[dict[str, Any]]()

        def tell(_: int) -> None:
            if rows and time.monotonic() > deadline:  # at least one, so that even a short time makes progress
                raise OutOfTimeError

        self.network.on_rows = self.meter
        if self.meter is not None:
            self.meter.begin(cost_of(self.method, self.plan, self.network, len(chunk.ids)), len(chunk.ids))
        query = Query.of(self.network, self.smoothing, chunk.x, chunk.ids, self.configuration.seed)
        certificates = timed_certificates(query, self.method, self.plan, chunk.alphas, tell)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnisocertWarning)  # issued once, before the work: see Job.warn
            try:
                for position, certificate in certificates:
                    columns = row(certificate, chunk.y[position], self.configuration.sigma)
                    rows.append(columns | {"theta": certificate.theta})
            except OutOfTimeError:
                self.network.expect_no_state()  # which the certificates, cut short, did not reach
        self._expect_same(numerics, self.network.numerics)
        return rows

    @staticmethod
    def _expect_same(before: Numerics, now: Numerics) -> None:
        """An error if the network has had to run otherwise than the run began: its answers might be others."""
        if now.rows != before.rows:
            raise ModelError(
                f"out of memory with {before.rows} rows per call, which the run began with, and a different number "
                f"may round differently: free device memory, or begin anew with --rows {now.rows}"
            )
        if now.compile != before.compile:
            raise ModelError(
                "compiled, as the run began, the network scores some of its inputs otherwise than it should: "
                "begin anew with --no-compile"
            )


def _load(configuration: Configuration, files: dict[str, bytes] | None) -> nn.Module:
    if files is None:
        return load_model(configuration)[0]
    at = {f"{Path(name).parent}/" for name in files}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        here = {name: str(next(Path(folder, name).iterdir())) for name in configuration.parts if f"{name}/" in at}
        return load_model(replace(configuration, **here), Path(folder) / Path(configuration.model).name)[0]  # type: ignore[arg-type]
