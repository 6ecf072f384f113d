"""Metrics, comparisons, tables."""

from anisocert.evaluate.metrics import average_certified_radius, certified_accuracy

__all__ = ["average_certified_radius", "certified_accuracy"]
