"""Counter-examples to certificates: a search that must find none inside a region, and shows what lies beyond it."""

from anisocert.attack._kept import FILE as UNFINISHED
from anisocert.attack.attacking import Attack, attack
from anisocert.attack.first import STRONG, FirstAttack, ascending, attack_first, usual_radii
from anisocert.attack.refutation import Attacked, Point
from anisocert.attack.search import Search
from anisocert.attack.system import Changed, SystemAttack, attack_system, system_of

__all__ = [
    "STRONG", "UNFINISHED", "Attack", "Attacked", "Changed", "FirstAttack", "Point", "Search", "SystemAttack",
    "ascending", "attack", "attack_first", "attack_system", "system_of", "usual_radii",
]  # fmt: skip
