"""What a question must be before it is asked: what its key may ask, inputs that the network takes, an allowed plan."""

from dataclasses import replace

import numpy as np

from anisocert.bounds import Plan
from anisocert.engine.grid import LONGEST
from anisocert.errors import ArgumentError, ModelError
from anisocert.service._question import Question
from anisocert.service.errors import RefusedError
from anisocert.service.keys import ADMIT, LOOKUP, PLAN, Key
from anisocert.system import System


class Rules:
    """The rules of one system. shape: of one input; None: the memory's. domain: the range that values must lie in."""

    def __init__(self, system: System, shape: tuple[int, ...] | None, domain: tuple[float, float] | None) -> None:
        self.system, self.domain = system, domain
        memory_shape = system.memory.stats().shape
        if shape is not None and memory_shape is not None and shape != memory_shape:
            raise ArgumentError(f"expected inputs of shape {memory_shape}, as the memory holds them, got {shape}")
        if (shape := shape or memory_shape) is None:
            raise ArgumentError("expected the shape of inputs, as the memory holds none yet, got none")
        self.shape = shape
        try:
            system.network.probe(shape)
        except (ModelError, RuntimeError, ValueError, IndexError) as error:
            raise ArgumentError(f"expected inputs of a shape that the network takes, got {shape}: {error}") from error

    def expect_right(self, question: Question, key: Key) -> None:
        """An error unless this key may ask such a question."""
        if not key.may(LOOKUP if question.lookup else ADMIT):
            right = f"the right {LOOKUP}" if question.lookup else f"the right {ADMIT}, or the parameter lookup"
            raise RefusedError(403, f"expected a key with {right}, got one without")
        if question.own_plan and not (question.lookup or key.may(PLAN)):
            # Votes that certify little use up an input's attempts for everybody.
            raise RefusedError(403, f"expected a key with the right {PLAN}, or no n and no alpha, got one without")

    def expect_inputs(self, question: Question) -> None:
        """An error unless the network takes these inputs."""
        shape = question.x.shape[1:]
        if shape != self.shape:
            single = ": if x is a single input, pass x[None]" if question.x.shape == self.shape else ""
            raise RefusedError(400, f"expected inputs of shape {list(self.shape)}, got {list(shape)}{single}")
        lowest, highest = float(question.x.min()), float(question.x.max())
        if self.domain is not None and (lowest < self.domain[0] or highest > self.domain[1]):
            raise RefusedError(400, f"expected values from {self.domain[0]:g} to {self.domain[1]:g}, got others")
        # Half of what the network's inputs may be: the rest is for the noise.
        grid = self.system.network.grid
        largest = (LONGEST * grid if grid else float(np.finfo(np.float32).max)) / 2
        if max(-lowest, highest) > largest:
            raise RefusedError(400, f"expected values from {-largest:g} to {largest:g}, got others")

    def plan_of(self, question: Question) -> Plan:
        """The plan that the question asks for; refused if it goes beyond the server's, or can certify nothing."""
        usual, n, alpha = self.system.plan, question.n, question.alpha
        if not question.own_plan:
            return usual
        if alpha is not None and self.system.memory.lifetime is not None:
            raise RefusedError(400, "expected no alpha, as one alpha covers the lifetime of this memory, got one")
        if (n or 1) > usual.n or (alpha or 0.0) > usual.alpha:
            raise RefusedError(400, f"expected n <= {usual.n} and alpha <= {usual.alpha:g}, the server's own, got more")
        plan = replace(usual, n=n or usual.n, alpha=alpha or usual.alpha)
        if np.less_equal(*plan.best_case(self.system.network.num_classes)):
            # It would use up the input's attempts for nothing.
            raise RefusedError(400, "expected more votes (n) for this alpha, got too few to certify anything")
        return plan
