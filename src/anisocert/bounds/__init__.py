"""Votes in, confidence bounds out: Clopper-Pearson, two-class, checkpoints, betting, and the plan that chooses."""

from anisocert.bounds import betting, clopper_pearson
from anisocert.bounds.accuracy import high_probability_accuracy, lifetime_alpha
from anisocert.bounds.base import Bound
from anisocert.bounds.binomial import binomial_test
from anisocert.bounds.bound import BOUNDS
from anisocert.bounds.clopper_pearson import lower, upper
from anisocert.bounds.explaining import errors_explain
from anisocert.bounds.plan import Plan
from anisocert.bounds.schedule import Look

__all__ = [
    "BOUNDS", "Bound", "Look", "Plan", "betting", "binomial_test", "clopper_pearson", "errors_explain",
    "high_probability_accuracy", "lifetime_alpha", "lower", "upper",
]  # fmt: skip
