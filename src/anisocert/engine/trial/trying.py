"""A model on trial: in the numerics of its votes, on inputs made for that, before any vote rests on it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anisocert.engine._rows import largest_map
from anisocert.engine.first_call import taking
from anisocert.engine.given import Classifier
from anisocert.engine.grid import Base
from anisocert.engine.numerics import ALIGN, Precision, computing, out_of_memory
from anisocert.engine.trial.agreement import moves_no_more, no_worse, same_votes
from anisocert.engine.trial.checking import expect_rows_apart, expect_shape, not_alone
from anisocert.engine.trial.inputs import companies, noisy_inputs, own_companies, trial_inputs

SMALLEST, LEVEL = 1e-6, 0.25  # thetas that a model is tried with
MOST_APART = ALIGN  # rows of inputs of a user's to be asked in other company


@dataclass(frozen=True, eq=False)
class Trial:
    """A model, and how it is computed. told_theta: it takes inputs beside theta."""

    model: Classifier
    precision: Precision
    device: torch.device
    told_theta: bool

    def evaluate(self, run: Classifier, x: Tensor) -> Tensor:
        """Scores of a batch by a form of the model."""
        return self._computed(run, x, self.precision)

    def plain(self, x: Tensor) -> Tensor:
        """Scores of a batch by the model as it stands."""
        return self.evaluate(self.model, x)

    def takes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """What the model takes of an input of a shape."""
        return (2, *shape) if self.told_theta else shape

    def inputs(self, rows: int, shape: tuple[int, ...]) -> Tensor:
        """Inputs to try it on, each as it takes them."""
        return self.with_levels(trial_inputs(rows, self.takes(shape), self.device))

    def with_levels(self, x: Tensor) -> Tensor:
        """Inputs for the model: one that is told theta gets positive levels, every third input a single one."""
        if not self.told_theta:
            return x
        theta = x[:, 1].abs().clamp(min=SMALLEST)
        theta[::3] = theta[::3].flatten(1)[:, :1].view(-1, *(1 for _ in theta.shape[1:]))
        return torch.stack([x[:, 0], theta], 1)

    def largest_map(self, shape: tuple[int, ...]) -> int:
        """Numbers of the largest map that it makes of one input."""
        return largest_map(self.plain, self.inputs(ALIGN, shape))

    def checked(self, sample: Tensor, num_classes: int) -> Tensor:
        """The model's scores of a batch; an error unless votes can rest on them."""
        with taking(tuple(sample.shape[1 + self.told_theta :]), self.model):
            scores = self.plain(sample.clone())
        expect_shape(scores, len(sample), num_classes)
        expect_rows_apart(lambda x: self.plain(self.with_levels(x)), sample, scores, companies(sample))
        if self.told_theta:
            self._expect_levels_apart(sample)
        self._expect_places_alike(sample, scores)
        self._expect_sizes_alike(sample, scores)
        return scores

    def _expect_levels_apart(self, sample: Tensor) -> None:
        """An error if scores change with what other rows are told: the same level, or another theta."""
        one_level = sample.clone()
        one_level[:, 1] = LEVEL
        kept = torch.arange(len(one_level), device=one_level.device) % 2 == 0
        mixed = torch.where(kept.view(-1, *(1 for _ in one_level.shape[1:])), one_level, sample)
        expect_rows_apart(self.plain, one_level, self.plain(one_level.clone()), [(mixed, kept)])

    def _expect_places_alike(self, sample: Tensor, scores: Tensor) -> None:
        """An error if scores of an input change with its place in the batch."""
        generator = torch.Generator().manual_seed(2)  # the same order on every device
        order = torch.randperm(len(sample), generator=generator, device="cpu").to(sample.device)
        if not self._repeats(sample, scores, self.plain(sample[order])[order.argsort()]):
            raise not_alone("change with its place in a batch")

    def _expect_sizes_alike(self, sample: Tensor, scores: Tensor) -> None:
        """An error if scores change with the size of a batch."""
        few = min(ALIGN, len(sample) // 2)
        try:
            again = self.plain(sample[:few].clone())
        except Exception as reason:  # as of a program that was exported for batches of one size
            if out_of_memory(reason):
                raise
            return
        if not self._repeats(sample[:few], scores[:few], again):
            raise not_alone("change with the size of a batch")

    def expect_any_beginning(self, fresh: nn.Module, sample: Tensor, scores: Tensor) -> None:
        """An error if scores of a sample depend on what a network is asked first. fresh: a copy, never called."""
        self.evaluate(fresh, self.with_levels(1 - 2 * sample))
        if not self._repeats(sample, scores, self.evaluate(fresh, sample.clone())):
            raise not_alone(
                "depend on what the network was asked first: what it keeps of its first call must not come from that "
                "call's values"
            )

    def own_inputs(self, x: Tensor, scales: Tensor, rows: int, base: Base, grid: float) -> Tensor:
        """Inputs that votes are about, noisy, each as the model takes them."""
        sample = noisy_inputs(x, scales, rows, base, grid)
        if not self.told_theta:
            return sample
        theta = scales[:, 0].expand_as(x)[torch.arange(rows, device=x.device) % len(x)]
        return self.with_levels(torch.stack([sample, theta], 1))

    def own_scores(self, sample: Tensor) -> Tensor:
        """The model's scores of such inputs; an error if they change with the rest of a batch."""
        few = sample[:MOST_APART]
        changes = own_companies(few)
        expect_rows_apart(lambda x: self.plain(self.with_levels(x)), few, self.plain(few.clone()), changes)
        return self.plain(sample.clone())

    def agrees(self, sample: Tensor, scores: Tensor, found: Tensor) -> bool:
        """Whether other scores of a batch are the model's up to rounding."""
        if same_votes(scores, found, self.precision):
            return True
        return self.precision == "bfloat16" and no_worse(self._in_float32(sample), scores, found)

    def _repeats(self, sample: Tensor, scores: Tensor, again: Tensor) -> bool:
        """Whether scores by the model itself agree; no more votes may move than rounding moves anyway."""
        if same_votes(scores, again, self.precision):
            return True
        exact = self._in_float32(sample) if self.precision == "bfloat16" else None
        return exact is not None and no_worse(exact, scores, again) and moves_no_more(exact, scores, again)

    def right(self, sample: Tensor, scores: Tensor | None = None) -> Callable[[Classifier], bool]:
        """Whether a form of the model gives its scores of a batch, up to rounding. scores: these, where known."""
        plain = self.plain(sample.clone()) if scores is None else scores
        return lambda run: self.agrees(sample, plain, self.evaluate(run, sample.clone()))  # which a network may change

    def _in_float32(self, sample: Tensor) -> Tensor:
        return self._computed(self.model, sample.clone(), "float32")

    def _computed(self, run: Classifier, x: Tensor, precision: Precision) -> Tensor:
        with torch.no_grad(), computing(precision, self.device):
            scores: Tensor = run(x)
            return scores
