"""Data sets with stable example ids."""

from anisocert.data.catalog import CATALOG, fetch, load, splits
from anisocert.data.dataset import Dataset, Split, evenly, parse_ids
from anisocert.data.digits import digits
from anisocert.data.preparing import prepare

__all__ = ["CATALOG", "Dataset", "Split", "digits", "evenly", "fetch", "load", "parse_ids", "prepare", "splits"]
