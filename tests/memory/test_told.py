"""What a service tells a key of regions that lie beside others' in its memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from anisocert.memory import Memory
from anisocert.service._telling import Teller
from anisocert.service.keys import Key

SIZES = ("radius", "proxy_radius", "region")


@pytest.mark.parametrize("rights", [("lookup", "admit"), ("lookup", "admit", "regions")])
def test_a_region_that_made_room_does_not_tell_where_another_begins(proposal, rights):
    """From a few such radii the other's input could be computed."""
    key, x = Key("a", "0" * 64, rights), np.float32([[1.5, 0.0]])
    with Memory() as memory:
        memory.admit(proposal(1, 0, [0.0, 0.0], [1.0, 1.0]))
        shrunk = memory.admit(proposal(2, 1, x[0], [1.0, 1.0]))
        again = memory.lookup(x[0])
        assert (shrunk.note, again.note) == ("shrunk", "inherited")
        for answer in (shrunk, again):
            told = Teller(SimpleNamespace(memory=memory)).outputs((*SIZES, "sentence"), [answer], x, key)
            known = "regions" in rights
            assert [bool(np.any(told[name])) for name in SIZES] == [known] * 3
            assert ("not told how far it reaches" in told["sentence"][0]) == (not known)
