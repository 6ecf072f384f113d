"""Training of a selector: it learns which code certifies most around an input, and to be sure of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anisocert.bounds import Plan
from anisocert.data import Dataset
from anisocert.data.dataset import as_float
from anisocert.engine import Network, Query, Stage, all_votes
from anisocert.errors import ArgumentError
from anisocert.models import Codebook, Coded, load
from anisocert.smoothing import Smoothing
from anisocert.train.recipe import Recipe, mean_probabilities, noise_like
from anisocert.train.task import Task

Worth = Literal["radius", "volume"]
AT_ONCE = 1000  # inputs
TINY = 1e-6
TIE = 1e-3  # what a share of right votes is worth where no code certifies anything


@dataclass(frozen=True, eq=False)
class Selector(Recipe):
    """The worth of what is chosen, and how surely, over noisy copies of each input. Labels are places in `values`.

    copies: noisy copies of each input; unsure: what a nat of doubt about the code costs, as a share of the worth;
    worth: what a code is chosen for, the radius of its region or the volume; values: of `code_values`, `n x k`.
    """

    copies: int = 2
    unsure: float = 0.5
    worth: Worth = "radius"
    values: Tensor | None = None

    name = "selector"
    bases = ("normal", "uniform")
    held = ("values",)
    own = ("worth",)
    needs_classifier = True
    needs_codebook = True
    answers = False

    def __post_init__(self) -> None:
        if self.copies < 1 or not self.unsure >= 0:
            raise ArgumentError(f"expected copies >= 1 and unsure >= 0, got {self.copies} and {self.unsure}")
        if self.worth not in get_args(Worth):
            raise ArgumentError(f"expected worth (--worth) radius or volume, got {self.worth!r}")

    def with_own(self, given: Mapping[str, str]) -> Self:
        """See Recipe."""
        return replace(self, worth=given.get("worth", self.worth))  # type: ignore[arg-type]  # it checks the word

    def prepared(self, task: Task) -> tuple[nn.Module, Self, Dataset]:
        """See Recipe: with what each code would certify about each example."""
        assert task.classifier is not None
        assert task.codebook is not None
        data, book, noise = task.data, task.codebook, type(task.smoothing)
        classifier, _ = load(task.classifier, num_classes=data.num_classes, **task.reading)
        network = Network(classifier, data.num_classes, task.device)
        with task.busy("certifying the training examples with every code, from few votes"):
            values = code_values(network, data, book, noise, Plan(), self.worth, seed=task.seed)
        shares = np.bincount(values.argmax(1), minlength=len(book)) / len(data)
        task.tell("best code of the training examples: " + ", ".join(f"{k}: {s:.1%}" for k, s in enumerate(shares)))
        recipe, places = replace(self, values=torch.from_numpy(values.astype(np.float32))), selector_data(data)
        torch.manual_seed(task.seed)  # the weights do not depend on what was drawn for the classifier
        return recipe.network(task.architecture, places, task.smoothing), recipe, places

    @property
    def labelled(self) -> bool:
        """See Recipe: labels are places."""
        return False

    def classes(self, data: Dataset) -> int:
        """See Recipe."""
        return data.num_classes if self.values is None else self.values.shape[1]

    def options(self) -> dict[str, Any]:
        """See Recipe; of the values their SHA-256."""
        digest = "" if self.values is None else hashlib.sha256(self.values.numpy().tobytes()).hexdigest()
        return super().options() | {"values": digest}

    def on(self, device: torch.device) -> Self:
        """See Recipe."""
        return self if self.values is None else replace(self, values=self.values.to(device))

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing) -> Tensor:
        """(1/b) sum_i u_i [-log sum_k p_k w_k + unsure H(p)], p the mean softmax over copies of the i-th input.

        w_k: what code k is worth there, in units of the best, whose own worth, in units of the mean, is u_i. A wrong
        code costs what it certifies less; doubt costs too, since no region reaches beyond where a code is sure, and
        where two codes are nearly as good it costs more than the worse of them.
        """
        assert self.values is not None
        worth = self.values.to(x.device)[y]
        p = mean_probabilities(model(torch.cat([x] * self.copies) + noise_like(x, smoothing, self.copies)), self.copies)
        best = worth.amax(1).clamp_min(TINY)
        missed = -(p * worth / best[:, None]).sum(1).clamp_min(TINY).log()
        doubt = -(p * p.clamp_min(TINY).log()).sum(1)
        loss: Tensor = (best / best.mean() * (missed + self.unsure * doubt)).mean()
        return loss


def code_values(
    network: Network, data: Dataset, codebook: Codebook, noise: type[Smoothing], plan: Plan, worth: Worth = "radius",
    votes: int = 96, seed: int = 0,
) -> NDArray[np.float64]:  # fmt: skip
    """What the plan would certify about each input with each code, for its true class: `n x k`; from few votes.

    worth: of a region, its radius or its proxy radius.
    """
    values = np.zeros((len(data), len(codebook)))
    thetas = Coded(torch.nn.Identity(), torch.nn.Identity(), codebook).thetas(data.shape).to(network.device)
    for first in range(0, len(data), AT_ONCE):
        at = np.arange(first, min(first + AT_ONCE, len(data)))
        x, y = as_float(np.asarray(data.pixels[at])), data.y[at]
        for k, theta in enumerate(thetas):
            query = Query.of(network, noise.of(codebook.codes[k]), x, data.ids[at].tolist(), seed)
            scales = query.smoothing.scales(theta.expand(len(at), *theta.shape))
            counts = all_votes(query, scales, Stage.PILOT, [votes])
            right = counts[np.arange(len(at)), y]
            counts[np.arange(len(at)), y] = -1
            # one vote more than was counted, for nobody: few votes must not promise what n unanimous ones would give
            gap = noise.gap(*plan.projected(right, counts.max(1), np.full(len(at), votes + 1), network.num_classes))
            size = theta.min() if worth == "radius" else theta.log().mean().exp()
            values[at, k] = gap * float(size) + TIE * float(size) * right / votes
    return values


def selector_data(data: Dataset) -> Dataset:
    """Examples whose labels are their places, by which the recipe finds what each code is worth."""
    places = np.arange(len(data))
    return replace(data, y=places, num_classes=len(data), class_names=())
