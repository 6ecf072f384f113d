import numpy as np
import pytest
import torch

from anisocert import Gaussian
from anisocert.engine import Network, Query, Stage, Stream
from anisocert.errors import ArgumentError


@pytest.fixture
def network(half_space):
    return Network(half_space([1.0, 0.0]).eval(), 2)


def test_what_a_user_gives_is_checked_and_named(network):
    query = Query.of(network, Gaussian(1.0), np.zeros((3, 2)), seed=4)
    assert (len(query), query.shape, list(query.ids), query.x.dtype) == (3, (2,), [0, 1, 2], torch.float32)
    assert query.streams(Stage.SELECT) == [Stream(4, Stage.SELECT, i) for i in range(3)]


@pytest.mark.parametrize(
    ("x", "ids", "seed", "message"),
    [
        ([0.0, 1.0], None, 0, r"expected x of shape \(inputs, \*shape\) with at least one input, got \(2,\)"),
        (torch.tensor([[torch.nan]]), None, 0, "expected finite x, got NaN or infinity"),
        ([[1.0]], [0.5], 0, r"expected ids as whole numbers, got \[0.5\]"),
        ([[1.0]], [1, 2], 0, "expected one id for each of 1 inputs, got 2"),
        ([[1.0], [2.0]], [7, 7], 0, r"expected distinct ids \(equal ones would share their noise\)"),
        ([[1.0]], [-1], 0, r"expected example ids: whole numbers in \[0, 2\*\*60\), got -1"),
        ([[1.0]], None, 2**64, r"expected seed: whole numbers in \[0, 2\*\*64\), got"),
    ],
)
def test_what_names_no_noise_is_refused(network, x, ids, seed, message):
    with pytest.raises(ArgumentError, match=message):
        Query.of(network, Gaussian(1.0), x, ids, seed)


def test_what_is_certified_is_not_what_the_caller_fills_in_later(network):
    x = torch.zeros(1, 2)
    query = Query.of(network, Gaussian(1.0), x)
    x.fill_(9.0)
    assert query.x.tolist() == [[0.0, 0.0]]


def test_a_part_keeps_each_input_with_its_noise(network):
    query = Query(network, Gaussian(1.0), torch.arange(6.0).view(3, 2), np.array([10, 20, 30]), 4)
    part = query.part([2, 0, 2])
    assert part.x.tolist() == [[4.0, 5.0], [0.0, 1.0], [4.0, 5.0]]
    assert part.streams(Stage.PILOT) == [Stream(4, Stage.PILOT, number) for number in (30, 10, 30)]
    assert (part.network, part.smoothing, part.seed) == (query.network, query.smoothing, 4)
