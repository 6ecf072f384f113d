import numpy as np
import pytest

from anisocert.data import Dataset, digits, evenly, parse_ids
from anisocert.data.dataset import in_words
from anisocert.errors import ArgumentError


def toy(n: int = 10) -> Dataset:
    pixels = np.arange(n * 4, dtype=np.uint8).reshape(n, 1, 2, 2)
    return Dataset("toy", pixels, np.arange(n) % 3, np.arange(n) + 100, 3, (0.5,), (0.2,))


def test_bytes_become_unit_floats() -> None:
    data = toy()
    assert data.x.dtype == np.float32
    np.testing.assert_array_equal(data.x, data.pixels / np.float32(255))
    assert data.shape == (1, 2, 2)


def test_subsets_keep_ids() -> None:
    data = toy()
    assert data.subset(skip=3).ids.tolist() == [100, 103, 106, 109]
    assert data.subset(skip=3, most=2).ids.tolist() == [100, 103]
    assert data.subset(ids=[109, 104, 101]).ids.tolist() == [101, 104, 109]
    assert data.subset(ids=[109, 104, 101], skip=2).ids.tolist() == [101, 109]
    one = data.subset(ids=[107])
    np.testing.assert_array_equal(one.x[0], data.x[7])
    assert (one.y[0], one.num_classes) == (data.y[7], 3)


@pytest.mark.parametrize("wrong", [{"skip": 0}, {"most": 0}, {"ids": [100, 5]}])
def test_wrong_subsets(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="expected"):
        toy().subset(**wrong)  # type: ignore[arg-type]


def test_wrong_data() -> None:
    x, y, ids = np.zeros((2, 3), np.float32), np.array([0, 1]), np.array([0, 1])
    for arrays, message in (
        ((x[:0], y[:0], ids[:0]), "at least one example"),
        ((x, y[:1], ids), "expected one label for each of"),
        ((x, np.array([0, 2]), ids), "labels 0 to 1 in toy, got 0 to 2"),
        ((x, y, np.array([4, 4])), "expected distinct ids in toy, got 4 more than once"),
        ((x, y, np.array([4, -3])), "expected ids >= 0 in toy, got -3"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Dataset("toy", *arrays, 2, (0.5,), (0.2,))


def test_ids_as_text() -> None:
    assert parse_ids("3, 17,100-102") == [3, 17, 100, 101, 102]
    for wrong in ("a", "1-", "-3", "1-2-3", "٣", "9" * 19, "9" * 5000):
        with pytest.raises(ArgumentError, match=r"expected ids as in 3,17,100-199"):
            parse_ids(wrong)
    with pytest.raises(ArgumentError, match="from low to high, as in 100-199, got '5-3'"):
        parse_ids("5-3")


@pytest.mark.parametrize("text", ["0-99999999", "0-999999999999999999", "0-999998,5,0-99"])
def test_ranges_are_not_expanded_without_end(text: str) -> None:
    with pytest.raises(ArgumentError, match="expected at most 1,000,000 ids, got 1"):
        parse_ids(text)
    assert len(parse_ids("0-999999")) == 1_000_000


def test_digits_have_stable_distinct_ids() -> None:
    train, test = digits("train"), digits("test")
    assert (len(train), len(test)) == (1437, 360)
    assert not set(train.ids) & set(test.ids)
    assert test.subset(skip=7, most=3).ids.tolist() == [0, 35, 70]
    assert (test.x >= 0).all()
    assert test.x.max() == 1


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(0, None, []), (0, 5, []), (3, None, [0, 1, 2]), (3, 9, [0, 1, 2]), (9, 0, []), (9, 1, [0]), (9, 4, [0, 3, 5, 8])],
)
def test_evenly(count, most, expected):
    assert evenly(count, most).tolist() == expected


@pytest.mark.parametrize(
    ("label", "names", "expected"),
    [(1, ("cat", "dog"), "1 (dog)"), (1, ("0", "1"), "class 1"), (2, ("cat",), "class 2"), (-1, ("cat",), "class -1")],
)
def test_a_class_in_words(label, names, expected):
    assert in_words(label, names) == expected
