"""The certificate memory: answers that stay true on every region that was ever promised."""

from anisocert.memory.asking import Prefer
from anisocert.memory.check import Check, Conflict
from anisocert.memory.errors import BrokenMemoryError, ChangedError, ShapeError, UnavailableError, UnknownOutcomeError
from anisocert.memory.memory import Memory
from anisocert.memory.migrating import migrate
from anisocert.memory.passing import COLUMNS, columns, worst_case
from anisocert.memory.policy import ABSTAINED, INHERITED, KEPT, NOTES, POLICIES, SHRUNK, Policy
from anisocert.memory.stats import Stats
from anisocert.memory.store import shown

__all__ = [
    "ABSTAINED", "COLUMNS", "INHERITED", "KEPT", "NOTES", "POLICIES", "SHRUNK", "BrokenMemoryError", "ChangedError",
    "Check", "Conflict", "Memory", "Policy", "Prefer", "ShapeError", "Stats", "UnavailableError", "UnknownOutcomeError",
    "columns", "migrate", "shown", "worst_case",
]  # fmt: skip
