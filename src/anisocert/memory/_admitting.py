"""What happens to a submitted certificate: it is counted, answered, and stored if it promises anything new."""

from __future__ import annotations

from anisocert.certificate import Certificate
from anisocert.geometry import Region
from anisocert.memory import _spending as spending
from anisocert.memory._belonging import check_belongs, check_same_input, input_of
from anisocert.memory._evidence import digest
from anisocert.memory._ledger import Ledger
from anisocert.memory.asking import Prefer, covering, fit
from anisocert.memory.policy import KEPT, SHRUNK, Policy, inherited, settle


def admit(ledger: Ledger, policy: Policy, prefer: Prefer, proposed: Certificate) -> Certificate:
    """The system's answer; called inside a transaction for writing."""
    point, region, own = input_of(proposed), proposed.region, proposed.prediction
    check_belongs(proposed, point, ledger.head, ledger.store.place)
    stored = ledger.promise_to(int(proposed.id))
    if stored is not None:
        check_same_input(stored, point)
    spending.submit(ledger, proposed, point)
    if stored is not None:
        same = digest(stored, point) == digest(proposed, point)
        return stored if same else inherited(stored, proposed)
    near = ledger.index.near(point, 0.0 if region is None else region.enclosing_radius, own)

    def room(region: Region) -> Region | None:
        return fit(ledger, region, own, near, policy.shrinks, prefer)

    answer = settle(policy, proposed, covering(ledger, point, near), room)
    if answer.note in (KEPT, SHRUNK) and answer.region is not None:
        ledger.add(answer, answer.region)
    return answer
