"""A model's scores with gradients to its input, never to weights: for searches; no vote is counted with them."""

import logging
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Tensor, nn

from anisocert.engine._backward import has_own_backward
from anisocert.engine._rows import kept_bytes
from anisocert.engine.given import Classifier
from anisocert.engine.launching import ReplayedPasses, compiled_if_works, replayed_passes
from anisocert.engine.numerics import ALIGN, Precision, computing
from anisocert.engine.rewriting import first_right, gradient_forms
from anisocert.engine.settings import differentiating
from anisocert.engine.trial import Trial, same_slopes, trial_inputs
from anisocert.errors import ModelError

log = logging.getLogger(__name__)

Shape = tuple[int, ...]
CHECKED = 4 * ALIGN  # rows that a form is compared on: of fewer, a few that rounding moves would be too many


class Gradients:
    """The model of a trial in the forms that are differentiated; made when they are asked for."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._plain: tuple[Shape, Classifier] | None = None  # for inputs of a shape
        self._compiled: tuple[Shape, nn.Module, Classifier] | None = None  # for inputs of a shape
        self._replayed: tuple[Shape, Classifier] | None = None  # for batches of a shape
        self._kept = dict[Shape, int]()

    def scores(self, x: Tensor, compiled: bool = False) -> Tensor:
        """Scores of a batch, given as the model takes it. compiled: for this batch's shape, in both passes."""
        if compiled and isinstance(self.trial.model, nn.Module):
            scores: Tensor = self._for_batches_like(x)(x)
            return scores
        return self._scored(self._for_inputs_of(tuple(x.shape[1:])), x)

    def _scored(self, run: Classifier, x: Tensor, precision: Precision | None = None) -> Tensor:
        with computing(precision or self.trial.precision, self.trial.device):
            scores: Tensor = run(x)
        return scores.float()

    def kept_bytes(self, shape: Shape) -> int:
        """Bytes that a step keeps, for one input of a shape, until its gradient is there."""
        if shape not in self._kept:
            self._kept[shape] = kept_bytes(self.scores, self.trial.inputs(ALIGN, shape))
        return self._kept[shape]

    def give_up_graph(self) -> bool:
        """Launch batches that were replayed, which frees the graphs' memory; whether there were any."""
        if self._replayed is None:
            return False
        shape, run = self._replayed
        if not isinstance(run, ReplayedPasses):
            return False
        self._replayed = shape, run.launched
        return True

    def _for_inputs_of(self, shape: Shape) -> Classifier:
        if not isinstance(self.trial.model, nn.Module):
            return self.trial.model
        if self._plain is None or self._plain[0] != shape:
            self._plain = shape, self._form(shape, False)
        return self._plain[1]

    def _for_batches_like(self, x: Tensor) -> Classifier:
        shape, cached = tuple(x.shape), self._replayed
        if cached is None or cached[0] != shape:
            cached = self._replayed = None  # before the next one needs the memory of this one's graphs
            with _unwatched():
                form, run = self._compiled_for(x)
                cached = self._replayed = shape, replayed_passes(run, form, x)
        return cached[1]

    def _compiled_for(self, x: Tensor) -> tuple[nn.Module, Classifier]:
        """A form, and its scores by what it was compiled to, which compiles itself again for batches of other sizes."""
        shape, cached = tuple(x.shape[1:]), self._compiled
        if cached is None or cached[0] != shape:
            form = self._form(shape, True)
            cached = self._compiled = shape, form, partial(self._scored, self._compile(form, x))
        return cached[1:]

    def _compile(self, form: nn.Module, x: Tensor) -> Classifier:
        """A form compiled for batches like x, in both passes; or as it is where that fails, or gradients are wrong."""

        def try_out(run: Classifier) -> None:
            if not self._same_slopes(form, run, x):
                raise ModelError("its gradients differ from the model's")

        return compiled_if_works(form, try_out)

    def _same_slopes(self, plain: Classifier, run: Classifier, x: Tensor) -> bool:
        exact = self._slopes(self.trial.model, x[:ALIGN], "float32")
        parts = [self._slopes(plain, part) for part in x.split(ALIGN)]  # what is not compiled keeps more maps
        return same_slopes(exact, torch.cat(parts), self._slopes(run, x))

    def _slopes(self, run: Classifier, x: Tensor, precision: Precision | None = None) -> Tensor:
        """Gradients to a batch of a sum in which each class has a weight of its own: probabilities have a sum of 1."""
        leaf = x.detach().clone().requires_grad_(True)
        scores = self._scored(run, leaf.clone(), precision)  # which a network may change
        weights = torch.arange(scores.shape[1], dtype=scores.dtype, device=scores.device).cos()
        (slopes,) = torch.autograd.grad((scores * weights).sum(), [leaf], allow_unused=True)
        return torch.zeros_like(x) if slopes is None else slopes

    @differentiating()
    def _form(self, shape: Shape, compiled: bool) -> nn.Module:
        assert isinstance(self.trial.model, nn.Module)
        sample = self.trial.with_levels(trial_inputs(CHECKED, shape, self.trial.device))
        with _unwatched():
            if has_own_backward(self.trial.model, sample[:ALIGN], self.trial.precision):
                log.info("the network has a backward pass of its own, so searches differentiate it as it is")
                return self.trial.model
            same_scores = self.trial.right(sample)
            found = first_right(
                gradient_forms(self.trial.model, sample, self.trial.precision, compiled),
                lambda form: same_scores(form) and self._same_slopes(self.trial.model, form, sample[:ALIGN]),
            )
        return found or self.trial.model


def _unwatched() -> AbstractContextManager[None]:
    """Where nobody else counts what is kept for a backward pass, as `checkpoint` does while it computes a part."""
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
