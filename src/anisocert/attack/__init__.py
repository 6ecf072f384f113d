"""Counter-examples to certificates: a search that must find none inside a region, and tells what lies beyond it."""

from anisocert.attack.attacking import Attack, attack
from anisocert.attack.refutation import Attacked, Point, allowed
from anisocert.attack.search import Search

__all__ = ["Attack", "Attacked", "Point", "Search", "allowed", "attack"]
