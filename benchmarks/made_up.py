"""Certificates with regions that are given, and made-up votes that would prove them."""

import numpy as np

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.geometry import Region
from anisocert.smoothing import Gaussian, Uniform

TOP, RUNNER_UP, VOTES, ALPHA = 99_500, 500, 100_000, 0.001


class MadeUp:
    """Of one norm and number of classes. gap: what the votes give."""

    def __init__(self, norm: int, num_classes: int) -> None:
        self.noise, self.norm, self.num_classes = (Gaussian if norm == 2 else Uniform)(1.0), norm, num_classes
        self.p_a, self.p_b = Plan().estimate(TOP, RUNNER_UP, VOTES, num_classes, ALPHA)
        self.gap = float(self.noise.gap(self.p_a, self.p_b))

    def __call__(self, i: int, prediction: int, theta: np.ndarray, region: Region | None, x: np.ndarray) -> Certificate:
        """The certificate with id i."""
        return Certificate(
            id=i, prediction=prediction, gap=self.gap, region=region, theta=theta, p_a=self.p_a, p_b=self.p_b,
            top_votes=TOP, runner_up_votes=RUNNER_UP, votes=VOTES, bound_k=TOP, bound_n=VOTES, alpha=ALPHA,
            num_classes=self.num_classes, bound="one-vs-rest", stop=None, method="made up", norm=self.norm, seed=0,
            noise=self.noise.name, model_hash="benchmark", seconds=0.0, x=x,
        )  # fmt: skip
