"""Metrics, comparisons, tables. `ac.evaluate(...)` calls `evaluate`."""

from anisocert.evaluate.beside_paper import against_paper
from anisocert.evaluate.comparison import Comparison, Entry, compare
from anisocert.evaluate.evaluating import Evaluation, evaluate
from anisocert.evaluate.intervals import bootstrap, clopper_pearson, median_interval, wilson
from anisocert.evaluate.metrics import average_certified_radius, certified_accuracy, median_certified_radius
from anisocert.evaluate.paper import paper_source, paper_tables, published
from anisocert.evaluate.protection import ADMITTED, EVERYONE, NOBODY, OR_ABSTAINS, OWN, explained, keeps_answers
from anisocert.evaluate.render import render, terminal
from anisocert.evaluate.results import NO_LABELS, Results, aligned, results_of
from anisocert.evaluate.sigmas import added_alphas, envelope, oracle
from anisocert.evaluate.supersets import superset, supersets
from anisocert.evaluate.table import Cell, Column, Table, above, down, percent, probability, short_down, times
from anisocert.evaluate.tables import claims, memory_effect, runtime, summary, tables_of
from anisocert.evaluate.withstood import LEFT, Withstood, attacked_first, effort, nearest, withstood
from anisocert.rooms import callable_room

__all__ = [
    "ADMITTED", "EVERYONE", "LEFT", "NOBODY", "NO_LABELS", "OR_ABSTAINS", "OWN", "Cell", "Column", "Comparison",
    "Entry", "Evaluation", "Results", "Table", "Withstood", "above", "added_alphas", "against_paper", "aligned",
    "attacked_first", "average_certified_radius", "bootstrap", "certified_accuracy", "claims", "clopper_pearson",
    "compare", "down", "effort", "envelope", "evaluate", "explained", "keeps_answers", "median_certified_radius",
    "median_interval", "memory_effect", "nearest", "oracle", "paper_source", "paper_tables", "percent", "probability",
    "published", "render", "results_of", "runtime", "short_down", "summary", "superset", "supersets", "tables_of",
    "terminal", "times", "wilson", "withstood",
]  # fmt: skip

callable_room(__name__, evaluate)
