"""A model's scores with gradients to its input, never to weights: for searches; no vote is counted with them."""

import torch
from torch import Tensor, nn

from anisocert.engine._forms import first_right, gradient_forms
from anisocert.engine._rows import kept_bytes
from anisocert.engine._trials import trial_inputs
from anisocert.engine._trying import Trial
from anisocert.engine.given import Classifier
from anisocert.engine.numerics import ALIGN

Shape = tuple[int, ...]
FEW = 4  # rows, to count what each keeps


class Gradients:
    """The model of a trial in the forms that are differentiated; made when they are asked for."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._plain: Classifier | None = None if isinstance(trial.model, nn.Module) else trial.model
        self._compiled: tuple[Shape, Classifier] | None = None
        self._kept = dict[Shape, int]()

    def scores(self, x: Tensor, compiled: bool = False) -> Tensor:
        """Of a batch, as the model takes it. compiled: for this batch's shape, forth and back."""
        run = self._for_shape(tuple(x.shape[1:])) if compiled else self._for_any(tuple(x.shape[1:]))
        with torch.autocast(self.trial.device.type, torch.bfloat16, self.trial.precision == "bfloat16"):
            scores: Tensor = run(x)
        return scores.float()

    def kept_bytes(self, shape: Shape) -> int:
        """Bytes that a step keeps, for one input of a shape, until its gradient is there."""
        if shape not in self._kept:
            self._kept[shape] = kept_bytes(self.scores, self.trial.inputs(FEW, shape))
        return self._kept[shape]

    def _for_any(self, shape: Shape) -> Classifier:
        if self._plain is None:
            self._plain = self._form(shape, False)
        return self._plain

    def _for_shape(self, shape: Shape) -> Classifier:
        if not isinstance(self.trial.model, nn.Module):
            return self.trial.model
        if self._compiled is None or self._compiled[0] != shape:
            self._compiled = shape, torch.compile(self._form(shape, True), dynamic=False)
        return self._compiled[1]

    def _form(self, shape: Shape, compiled: bool) -> nn.Module:
        assert isinstance(self.trial.model, nn.Module)
        sample = self.trial.with_levels(trial_inputs(ALIGN, shape, self.trial.device))
        forms = gradient_forms(self.trial.model, sample, self.trial.precision == "bfloat16", compiled)
        return first_right(forms, self.trial.right(sample)) or self.trial.model
