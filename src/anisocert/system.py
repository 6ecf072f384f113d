"""What is deployed: a classifier behind a memory, which answers each input and keeps to what it has said.

`certify` leaves three things to its caller, which are done here. Noise is fresh for every question: whoever sees the
answers to noise used twice can look for an input on which that very noise misleads, however secret its seed. Votes are
counted as an attempt before they are drawn where the memory has one alpha for its lifetime; elsewhere once they are
drawn, even if the network failed meanwhile, but not if the process was killed. And attempts per input are limited:
whoever may repeat a question until the votes are lucky gets a wrong certificate in the end.
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from anisocert.arguments import as_network, expect_kinds
from anisocert.bounds import Plan, lifetime_alpha
from anisocert.certificate import ABSTAIN, Certificate
from anisocert.certification import timed_certificates, unanswered
from anisocert.engine import Classifier, Network, Numerics, Query
from anisocert.errors import AnisocertError, ArgumentError, ModelError
from anisocert.inputs import exact_float32, told
from anisocert.memory import ABSTAINED, ChangedError, Memory
from anisocert.models.normalize import out_of_units
from anisocert.optimize import Fixed, Method
from anisocert.smoothing import Smoothing

SHORTEST_SECRET = 16  # bytes
_TURNS: Final = WeakKeyDictionary[Network, threading.RLock]()  # of all systems that have a network

Asked = dict[bytes, NDArray[np.float32]]  # different inputs, by their bytes
Answers = dict[bytes, Certificate]


class System:
    """Answers inputs: with a stored promise where one covers the input, otherwise with a new certificate.

    Safe to use from many threads, which take turns with the network, also with other systems on the same `Network`.

    Args:
        model: maps `b x *shape` to `b x num_classes` scores, in evaluation mode, normalisation inside: an `nn.Module`,
            any function (then with `model_id`), or a `Network`.
        smoothing: the noise, `Gaussian(sigma)` for l2 regions or `Uniform(lam)` for l1.
        secret: the key of all noise, at least 16 bytes that no client knows, as in `os.urandom(32)`.
        num_classes: how many scores the model gives.
        method: how theta, the noise level of each value, is chosen. Default: `Fixed()`, the same for every input, as in
            `certify`; `Anisotropic()` finds larger regions, for models with gradients.
        plan: votes, alpha, bound, and when to stop. Default: `Plan()`, 100,000 votes at alpha = 0.001.
        memory: where promises are kept, as in `Memory.open(FILE)`. Default: one that ends with the process.
        attempts: how many times votes are drawn about exactly the same input, as the memory counts them; after that, an
            input that abstained keeps abstaining. (Processes that ask at the same moment may make one attempt each, and
            inputs that arrive together one more: see `answers`.)
        device: where the model runs. Default: where its weights are.
        numerics: precision, compilation, rows per call and grid. Default: what suits the device.
        model_id: stands for the model in hashes, where it is a function or cannot be hashed.
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
        expect_kinds(smoothing=smoothing, method=method, plan=plan, numerics=numerics)
        if not isinstance(memory, Memory | None):
            place = str(memory) if isinstance(memory, str | Path) else "memory.sqlite"
            raise ArgumentError(f"expected memory as in memory=ac.Memory.open({place!r}), got {told(memory)}")
        self.network = as_network(model, num_classes, device, numerics, model_id)
        self.smoothing, self.method, self.plan = smoothing, method or Fixed(), plan or Plan()
        self.method.check(self.network.model, self.smoothing, self.plan)
        self.memory = Memory() if memory is None else memory
        self.attempts, self._secret = attempts, secret
        self._turn = _TURNS.setdefault(self.network, threading.RLock())
        self._probed = dict[tuple[int, ...], NDArray[np.float32]]()  # by the shape of inputs; of all plans
        self._able = set[tuple[int, ...]]()  # shapes of inputs that can be asked about, also under other plans
        if (shape := self.memory.stats().shape) is not None:  # else its promises would be told as if they were ours
            self._expect_ours(shape)

    def with_plan(self, plan: Plan) -> "System":
        """The same system, with its network, memory and turns, under another plan."""
        if plan is None:
            raise ArgumentError("expected plan as in plan=ac.Plan(n=100_000), got None")
        expect_kinds(smoothing=self.smoothing, plan=plan)
        self.method.check(self.network.model, self.smoothing, plan)
        system = copy(self)
        system.plan = plan
        return system

    def expect_able(self, shape: tuple[int, ...], votes: int) -> None:
        """An error if its network and method cannot be asked about inputs of a shape. votes: see `Network.fit`."""
        if shape not in self._able:
            self.network.fit(shape, votes)  # before gradients are tried, as a network's first call is looked at
            self.method.expect_gradients(self.network, self.smoothing, self.plan, shape)
            self._able.add(shape)

    def answer(self, x: Any) -> Certificate:
        """Answer one input; the system keeps to this answer from now on. x: `*shape`, exactly as float32."""
        point = exact_float32("x", x)
        if not point.size or not point.ndim:
            raise ArgumentError(f"expected x of shape (*shape) with at least one dimension, got {point.shape}")
        return self.answers(point[None])[0]

    def answers(self, x: Any) -> list[Certificate]:
        """Answer inputs that arrive together; the system keeps to these answers. x: `b x *shape`, exactly as float32.

        Inputs that no promise covers share the network's calls. An input that occurs twice gets the same answer twice.
        If the network fails on some, the others still get their answers: that attempt counts for all, then each is
        asked about alone. An input on which it fails again abstains; if it fails on all that came, that is an error.
        """
        points = exact_float32("x", x) + np.float32(0)  # -0.0 is 0.0 to a memory, which counts attempts
        if points.ndim < 2 or not points.size:
            raise ArgumentError(f"expected x of shape (inputs, *shape) with at least one input, got {points.shape}")
        keys = [point.tobytes() for point in points]
        answers = self._answered(dict(zip(keys, points, strict=True)))
        return [answers[key] for key in keys]

    def lookup_all(self, x: Iterable[Any]) -> list[Certificate | None]:
        """`Memory.lookup_all`; an error if promises of another network or norm are there by now. x: `b x *shape`."""
        promises, expected = self.memory.lookup_all(x), (self.network.hash, self.smoothing.norm)
        for promise in promises:
            if promise is not None and (promise.model_hash, promise.norm) != expected:
                place = self.memory.place or "this memory"
                raise ChangedError(
                    f"expected promises of model {expected[0]} and norm l{expected[1]} in {place}, got those of model "
                    f"{promise.model_hash} and norm l{promise.norm}: another process began with it since this system "
                    "was made"
                )
        return promises

    def _answered(self, inputs: Asked) -> Answers:
        """The answers to different inputs: promises at once, the rest when it is this thread's turn."""
        answers: Answers = {}
        if not self._turn.acquire(blocking=False):  # whoever is promised something need not wait for the network
            answers = self._promised(inputs)
            if len(answers) == len(inputs):
                return answers
            self._turn.acquire()
        try:
            return self._in_turn(inputs, answers)
        finally:
            self._turn.release()

    def _in_turn(self, inputs: Asked, answers: Answers) -> Answers:
        """`_answered` in turn, with some answers found: promises and refusals, then what the network is asked."""
        answers |= self._promised(_left(inputs, answers))  # perhaps made while this thread waited
        answers |= self._refused(_left(inputs, answers))
        if fresh := _left(inputs, answers):
            errors: list[Exception] = []
            points = np.stack(list(fresh.values()))
            try:
                proposed = self._proposed(points, errors)
            except ModelError as error:  # it can be asked about no input: no attempt, and the others have their answers
                if not answers:
                    raise
                answers |= {key: self._unasked(point, f"the network failed: {error!r}") for key, point in fresh.items()}
            else:
                if len(errors) == len(inputs):
                    raise errors[0]
                admitted = self.memory.admit_all(proposed, self._probe(points.shape[1:]))
                answers |= dict(zip(fresh, admitted, strict=True))
        # Only now: what was admitted may cover an input that was refused.
        return answers | self._promised(
            {key: inputs[key] for key, answer in answers.items() if answer.prediction == ABSTAIN}
        )

    def _promised(self, inputs: Asked) -> Answers:
        """The stored promises that cover inputs."""
        pairs = zip(inputs, self.lookup_all(inputs.values()), strict=True)
        return {key: promise for key, promise in pairs if promise is not None}

    def _refused(self, inputs: Asked) -> Answers:
        """Abstentions about inputs whose attempts are used up, or that are not in the network's units."""
        if not inputs:
            return {}
        points, refused = list(inputs.values()), Answers()
        reasons = out_of_units(self.network.model, np.stack(points))
        for i, attempts in enumerate(self.memory.attempts_all(points)):
            if attempts >= self.attempts:
                reasons[i] = f"votes about this input were drawn {self.attempts} times before, which is the limit"
        for i, key in enumerate(inputs):
            if i in reasons:
                refused[key] = self._unasked(points[i], reasons[i])
        return refused

    def propose(self, points: NDArray[np.float32]) -> list[Certificate]:
        """Certify inputs with fresh noise; a certificate is no answer before the memory admits it.

        points: `b x *shape`. They are certified even where a promise covers them, or their attempts are used up. An
        input on which the network fails abstains, as in `answers`; if it fails on all, that is an error.
        """
        errors: list[Exception] = []
        with self._turn:
            certificates = self._proposed(points, errors)
        if len(errors) == len(points):
            raise errors[0]
        return certificates

    def _proposed(self, points: NDArray[np.float32], errors: list[Exception]) -> list[Certificate]:
        """`propose`, with an error for each input on which the network failed."""
        self._expect_ours(points.shape[1:])
        # Before any noise is drawn or alpha is spent: what can never be asked is no attempt.
        self.method.check(self.network.model, self.smoothing, self.plan, points.shape[1:])
        self.expect_able(points.shape[1:], len(points) * self.method.votes(self.plan, self.network.model))
        seed, _ = self._fresh()
        ids, plan, alphas = [self._fresh()[1] for _ in points], self.plan, np.full(len(points), self.plan.alpha)
        if (lifetime := self.memory.lifetime) is not None:
            first = self.memory.reserve(ids, seed, points)
            alphas = np.asarray(lifetime_alpha(lifetime, first + np.arange(len(points))))
            plan = replace(plan, alpha=float(alphas[-1]))
        query = Query.of(self.network, self.smoothing, points, ids, seed)
        try:
            certificates = dict(timed_certificates(query, self.method, plan, alphas))
            return [certificates[i] for i in range(len(points))]
        except BaseException as error:
            # Votes may have been drawn: they are counted, and neither their noise nor their numbers are used again.
            draws = zip(points, ids, alphas.tolist(), strict=True)
            refused = isinstance(error, AnisocertError) and not isinstance(error, ModelError)
            reason = f"no certificate was made: {error}" if refused else f"the network failed: {error!r}"
            failed = [self._without_votes(x, id_, seed, alpha, reason) for x, id_, alpha in draws]
            self.memory.admit_all(failed, self._probe(points.shape[1:]))
            if not isinstance(error, Exception):
                raise
            if len(points) == 1:
                errors.append(error)
                return failed
        alone: list[Certificate] = []
        try:
            for point in points:
                alone += self._proposed(point[None], errors)
        except BaseException:
            self.memory.admit_all(alone, self._probe(points.shape[1:]))  # votes of these were drawn, too
            raise
        return alone

    def _expect_ours(self, shape: tuple[int, ...]) -> None:
        """An error if the memory belongs to another network, or to another norm."""
        self.memory.expect(self.network.hash, self._probe(shape), self.smoothing.norm)

    def _probe(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        if shape not in self._probed:
            self._probed[shape] = self.network.probe(shape)
        return self._probed[shape]

    def _fresh(self) -> tuple[int, int]:
        """Seed and id of noise that was never drawn and that nobody can predict: 124 bits, keyed by the secret."""
        drawn = hmac.digest(self._secret, os.urandom(32), hashlib.sha256)
        return int.from_bytes(drawn[:8]), int.from_bytes(drawn[8:16]) >> 4

    def _unasked(self, point: NDArray[np.float32], reason: str) -> Certificate:
        """An abstention that is no attempt."""
        seed, number = self._fresh()
        return self._without_votes(point, number, seed, self.plan.alpha, reason)

    def _without_votes(self, point: NDArray[np.float32], id_: int, seed: int, alpha: float, reason: str) -> Certificate:
        """An abstention about an input, without votes."""
        query = Query.of(self.network, self.smoothing, point[None], [id_], seed)
        return replace(unanswered(query, 0, self.method, self.plan, reason), alpha=alpha, note=ABSTAINED)


def _left(inputs: Asked, answers: Answers) -> Asked:
    return {key: point for key, point in inputs.items() if key not in answers}
