"""The attack on a set of certificates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anisocert.attack._targets import Targets
from anisocert.attack.refutation import Attacked, refute
from anisocert.attack.search import Search, search
from anisocert.certificate import Certificate
from anisocert.engine import Network
from anisocert.errors import ArgumentError
from anisocert.optimize import Cascade, TwoStep
from anisocert.smoothing import Smoothing

AT_ONCE = 32  # certificates: what is found does not depend on it
LEVEL = 1e-3
UNSUITED = {
    TwoStep.name: "whose noise is chosen anew for every vote",
    Cascade.name: "whose answer depends on majorities under every noise before: use attack_first (attack --first)",
}
"""Methods whose classifier is not the network under one theta, and why."""


@dataclass(frozen=True, eq=False)
class Attack:
    """What an attack found. expected: the most broken ones that the alphas of all attempts lead one to expect."""

    results: tuple[Attacked, ...]
    expected: float
    level: float

    @property
    def broken(self) -> tuple[Attacked, ...]:
        """The refuted certificates."""
        return tuple(result for result in self.results if result.broken)

    @property
    def failed(self) -> bool:
        """Whether any is refuted. That may be the bad luck that alpha allows; its promise is false all the same."""
        return bool(self.broken)


def attack(
    network: Network,
    certificates: Sequence[Certificate],
    *,
    smoothing: Smoothing | None = None,
    how: Search | None = None,
    n: int = 10_000,
    level: float = LEVEL,
    attempts: Sequence[float] | None = None,
    on_done: Callable[[int], None] = lambda _: None,
) -> Attack:
    """Try to break certificates of a network: find points of their regions that are answered differently.

    certificates: with a region, of one noise and shape; the classifier that is attacked is the one that each was made
    for, with its theta. smoothing: theirs, without which a mixture's components are not known. n: votes at each point
    found, or a tenth of them where these decide. level: probability with which any correct certificate is called
    broken, shared by all. attempts: the probabilities of an error, abstentions included, among which these certificates
    are those that were made (default: their own): the votes that may mislead also decide which inputs are certified.
    on_done is called with how many more certificates were attacked.
    """
    if not 0 < level < 1:
        raise ArgumentError(f"expected level in (0, 1), got {level}")
    if not certificates:
        raise ArgumentError("expected at least one certificate with a region to attack, got none")
    for unsuited, why in UNSUITED.items():
        if any(c.method == unsuited for c in certificates):
            raise ArgumentError(
                f"expected certificates of a classifier under the noise of its theta, got {unsuited}, {why}"
            )
    how, share, results = how or Search(), level / len(certificates), list[Attacked]()
    for first in range(0, len(certificates), AT_ONCE):
        part = certificates[first : first + AT_ONCE]
        targets = Targets.of(network, part, how.seed, smoothing)
        found = search(targets, how)
        results += refute(targets, found, [c.radius for c in part], n, share)
        on_done(len(part))
    errors = [c.alpha for c in certificates] if attempts is None else attempts
    return Attack(tuple(results), math.fsum(errors), level)
