from itertools import islice

import numpy as np
import pytest

from anisocert.engine import Stage, Stream
from anisocert.errors import ArgumentError

SEEDS, IDS = (0, 1, 2**64 - 1), (0, 1, 2**32, 2**60 - 1)


def raw(stream: Stream, lane: int) -> set[int]:
    return set(stream.generator(lane).bit_generator.random_raw(4000).tolist())


def test_streams_of_seeds_stages_ids_and_lanes_share_no_draw():
    draws = {
        (seed, stage, number, lane): raw(Stream(seed, stage, number), lane)
        for seed in SEEDS
        for stage in Stage
        for number in IDS
        for lane in (0, 1)
    }
    # 64-bit words: independent sets meet with probability 1e-9.
    assert len(set.union(*draws.values())) == sum(map(len, draws.values()))


def test_further_words_are_each_elements_own():
    """Of a vote, and of nothing else: not of the device, of other elements, or of how far the stream was read."""
    places = [(vote, element) for vote in (0, 1, 2**31 - 1, 2**32) for element in (0, 1, 2, 2**32 - 1)]
    streams = [Stream(seed, stage, number) for seed in SEEDS for stage in Stage for number in IDS]
    words = [list(islice(one.further(*place), 9)) for one in streams for place in places]
    assert words == [list(islice(one.further(*place), 9)) for one in streams for place in places]
    drawn = set.union(*map(set, words))
    assert len(drawn) == 9 * len(words)
    assert not any(drawn & raw(one, lane) for one in streams for lane in (0, 1))


def test_a_stream_is_the_same_whenever_it_is_opened():
    one, other = Stream(7, Stage.ESTIMATE, 3).generator(), Stream(7, Stage.ESTIMATE, 3).generator()
    assert np.array_equal(one.standard_normal(100), other.standard_normal(100))


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "1", None, True])
def test_bad_seed(seed):
    with pytest.raises(ArgumentError, match=r"expected seed.*got"):
        Stream(seed, Stage.SELECT, 0)


@pytest.mark.parametrize("number", [-1, 2**60, 1.0, "1", None])
def test_bad_id(number):
    with pytest.raises(ArgumentError, match=r"expected example ids.*got"):
        Stream(0, Stage.SELECT, number)


def test_numpy_integers_are_welcome():
    a = Stream(np.int64(3), Stage.SELECT, np.int32(4)).generator().random(5)
    assert np.array_equal(a, Stream(3, Stage.SELECT, 4).generator().random(5))


def test_numpy_integers_become_pythons():
    """A device's words are computed of them by sums and differences that numpy's integers cannot hold."""
    one = Stream(np.uint64(2**64 - 1), Stage.SELECT, np.uint64(2**60 - 1))
    assert (type(one.seed), type(one.id)) == (int, int)
    assert one == Stream(2**64 - 1, Stage.SELECT, 2**60 - 1)
