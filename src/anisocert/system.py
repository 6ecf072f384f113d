"""What is deployed: a classifier behind a memory, which answers each input and keeps to what it has said.

`certify` leaves three things to its caller that hold here. Noise is fresh for every question: whoever sees the answers
to noise that is used twice can look for an input on which that very noise misleads, however secret its seed. Votes are
counted as an attempt before they are drawn where the memory has one alpha for its lifetime, and as a submission in any
case. And one input is not asked about for ever: who may repeat a question until the votes are lucky gets a wrong
certificate in the end.
"""

import hashlib
import hmac
import os
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.arguments import as_network, expect_kinds
from anisocert.bounds import Plan, lifetime_alpha
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.certification import timed_certificates
from anisocert.engine import Classifier, Network, Numerics, Query
from anisocert.errors import ArgumentError
from anisocert.inputs import exact_float32
from anisocert.memory import ABSTAINED, Memory
from anisocert.optimize import Fixed, Method
from anisocert.smoothing import Smoothing

SHORTEST_SECRET = 16  # bytes


class System:
    """Answers inputs one by one: with a stored promise where one covers the input, else with a new certificate.

    secret: the key of all noise, at least 16 bytes that no client knows. memory: where promises are kept, as of
    `Memory.open(FILE)` (default: one that ends with the process). attempts: how often votes are drawn about exactly
    the same input, as the memory counts them; after that, an input that abstained abstains. (Processes that ask at the
    same moment may have one each.) Safe to use from many threads, which take turns with the network.
    """

    def __init__(
        self,
        model: Classifier | Network,
        *,
        smoothing: Smoothing,
        secret: bytes,
        num_classes: int = 10,
        method: Method | None = None,
        plan: Plan | None = None,
        memory: Memory | None = None,
        attempts: int = 1,
        device: torch.device | str | None = None,
        numerics: Numerics | None = None,
        model_id: str | None = None,
    ) -> None:
        if not isinstance(secret, bytes) or len(secret) < SHORTEST_SECRET:
            raise ArgumentError(f"expected secret as at least {SHORTEST_SECRET} bytes, for example os.urandom(32)")
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ArgumentError(f"expected attempts, a whole number >= 1, got {attempts!r}")
        expect_kinds(smoothing=smoothing, method=method, plan=plan)
        if not isinstance(memory, Memory | None):
            raise ArgumentError(f"expected memory as in memory=ac.Memory.open('memory.sqlite'), got {memory!r}")
        self.network = as_network(model, num_classes, device, numerics, model_id)
        self.smoothing, self.method, self.plan = smoothing, method or Fixed(), plan or Plan()
        self.memory = Memory() if memory is None else memory
        self.attempts = attempts
        self._secret = secret
        self._turn = threading.Lock()
        self._known_shape: tuple[int, ...] | None = None

    def answer(self, x: Any) -> Certificate:
        """What the system says about one input, and keeps to from now on. x: `*shape`, exactly as float32."""
        point = exact_float32("x", x)
        if not point.size or not point.ndim:
            raise ArgumentError(f"expected x of shape (*shape) with at least one dimension, got {point.shape}")
        return self.memory.lookup(point) or self._ask(point)

    def _ask(self, point: NDArray[np.float32]) -> Certificate:
        with self._turn:
            if (promised := self.memory.lookup(point)) is not None:  # made while this thread waited
                return promised
            if point.shape != self._known_shape:
                self.memory.expect(self.network.hash, self.network.probe(point.shape))
                self._known_shape = point.shape
            if self.memory.attempts(point) >= self.attempts:
                return self._refusal(point)
            return self.memory.admit(self._certificate(point))

    def _certificate(self, point: NDArray[np.float32]) -> Certificate:
        (seed, number), plan = self._fresh(), self.plan
        if (lifetime := self.memory.lifetime) is not None:
            place = self.memory.reserve([number], seed, [point])
            plan = replace(plan, alpha=float(lifetime_alpha(lifetime, place)))
        query = Query.of(self.network, self.smoothing, point[None], [number], seed)
        ((_, found),) = timed_certificates(query, self.method, plan)
        return found

    def _fresh(self) -> tuple[int, int]:
        """Seed and id of noise that was never drawn, and that nobody can foresee: 124 bits, keyed by the secret."""
        drawn = hmac.digest(self._secret, os.urandom(32), hashlib.sha256)
        return int.from_bytes(drawn[:8]), int.from_bytes(drawn[8:16]) >> 4

    def _refusal(self, point: NDArray[np.float32]) -> Certificate:
        """No answer, from no votes."""
        seed, number = self._fresh()
        return Certificate(
            id=number, prediction=ABSTAIN, gap=0.0, region=None, theta=np.asarray(self.smoothing.theta), p_a=0.0,
            p_b=1.0, top_votes=0, runner_up_votes=0, votes=0, bound_k=0, bound_n=0, alpha=self.plan.alpha,
            num_classes=self.network.num_classes, bound=self.plan.bound, stop=self.plan.stop, method=self.method.name,
            norm=self.smoothing.norm, seed=seed, model_hash=self.network.hash, seconds=0.0, note=ABSTAINED,
            reason=f"votes about this input were drawn {self.attempts} times before, and may not be again", x=point,
        )  # fmt: skip
