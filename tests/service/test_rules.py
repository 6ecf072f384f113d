"""What a service must know before anybody asks it."""

import pytest

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.service._rules import Rules


def test_the_shape_is_known_before_anybody_asks(system, image):
    """Else one request would choose it for everybody, and the network would be tried on whatever it names."""
    with pytest.raises(ArgumentError, match="expected the shape of inputs, as the memory holds none yet, got none"):
        Rules(system(), None, None)
    with pytest.raises(ArgumentError, match=r"expected inputs of a shape that the network takes, got \(63,\)"):
        Rules(system(), (63,), None)
    memory = ac.Memory()
    system(memory=memory).answer(image(3.0))
    with pytest.raises(ArgumentError, match=r"expected inputs of shape \(1, 8, 8\), as the memory holds them"):
        Rules(system(memory=memory), (64,), None)
    assert Rules(system(memory=memory), None, None).shape == (1, 8, 8)
