"""Before hours are spent: how a network copes with noise, what can be certified with it, and what it will cost."""

from anisocert.diagnosis.commands import Remedy
from anisocert.diagnosis.diagnosing import Cost, Diagnosis, Recommendation, diagnose
from anisocert.diagnosis.looking import warn_if_wrong
from anisocert.diagnosis.probing import GRID, Level, probe

__all__ = ["GRID", "Cost", "Diagnosis", "Level", "Recommendation", "Remedy", "diagnose", "probe", "warn_if_wrong"]
