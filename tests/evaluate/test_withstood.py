"""What a stranger who comes first leaves, by hand."""

import numpy as np
import pytest
from scipy.stats import binom

from anisocert.evaluate import (
    ADMITTED,
    EVERYONE,
    LEFT,
    attacked_first,
    clopper_pearson,
    compare,
    nearest,
    render,
    summary,
    withstood,
)
from anisocert.runs.attacked import AttackedFirst

RADII = [0.0, 0.3, 0.6]


def attacked(run, reach, ids=None, other=2, regions=None):
    """A run whose input i keeps its label 1 up to reach[i], and is then given another class."""
    numbers = np.arange(len(reach)) if ids is None else np.array(ids)
    held = np.array(reach)[:, None] >= np.array(RADII)
    labels = np.ones(len(reach), np.int64)
    inside = np.array(regions or labels)
    run.__dict__["attacked"] = AttackedFirst(
        np.array(RADII), numbers, labels, np.where(held, 1, other), labels, inside, 100, 0.001, 9, 0, None, 0, 1, 1, 1,
        "m", "r",
    )  # fmt: skip
    return run


@pytest.fixture
def promise(run, columns):
    rows = columns("anisotropic", [0.7, 0.4, 0.2, 0.6], memory=[0.7, 0.35, 0.2, 0.0])
    return run(rows, memory={"policy": "inherit"})


def lines(run):
    (group,) = compare([run])
    return withstood(group.entries[0])


def test_counts_are_of_what_binds_the_system(promise):
    """After the memory input 1 is certified at 0.35 and input 3 not at all."""
    zero, near, far, region = lines(attacked(promise, [0.6, 0.0, 0.6, -1.0], regions=[1, 2, -1, 1]))
    assert (zero.inputs, zero.right, zero.certified, zero.otherwise) == (4, 3, 3, 0)
    assert (near.radius, near.right, near.certified, near.otherwise, near.abstained) == (0.3, 2, 2, 1, 0)
    assert (far.right, far.certified, far.otherwise) == (2, 1, 0)
    assert (region.radius, region.certified, region.right, region.otherwise, region.abstained) == (None, 4, 2, 1, 1)
    assert (near.share, near.certified_share) == (0.5, 0.5)


def test_an_abstention_is_no_other_answer_but_not_right_either(promise):
    _, near, _, _ = lines(attacked(promise, [0.6, 0.0, 0.6, 0.6], other=-1))
    assert (near.right, near.otherwise, near.abstained) == (3, 0, 1)


def test_only_what_was_attacked_and_is_compared_counts(promise, run, columns):
    some = attacked(promise, [0.6, 0.0], ids=[1, 3])
    assert [(one.inputs, one.certified) for one in lines(some)[:3]] == [(2, 1), (2, 1), (2, 0)]
    short = run(columns("fixed", [0.5, 0.5]), "short")  # ids 0 and 1
    group = compare([some, short])[0]
    shaped = next(entry for entry in group.entries if entry.run is some)
    # without the counts inside regions, which are of inputs 1 and 3 together
    assert [(one.radius, one.inputs, one.right) for one in withstood(shaped)] == [(0.0, 1, 1), (0.3, 1, 1), (0.6, 1, 1)]
    assert withstood(next(entry for entry in group.entries if entry.run is short)) == ()


def test_attacked_inputs_that_are_not_compared_leave_nothing(promise, run, columns):
    some = attacked(promise, [0.6], ids=[3])
    group = compare([some, run(columns("fixed", [0.5]), "short")])[0]
    assert [withstood(entry) for entry in group.entries] == [(), ()]
    assert attacked_first(group) is None


def test_the_nearest_radius_is_one_that_was_searched(promise):
    found = lines(attacked(promise, [0.6] * 4))
    assert [nearest(found, at).radius for at in (0.25, 0.375, 0.5, 0.75)] == [0.3, 0.3, 0.6, 0.6]
    assert [nearest(found, at) for at in (0, 0.01, 0.23, 0.4, 0.47, 0.76, 9.0)] == 7 * [None]  # none is near
    assert nearest(found[:1], 0.5) is None
    assert nearest((), 0.5) is None


def test_the_interval_is_exact():
    """None of n: the upper end is where n failures have the probability that is left for it."""
    low, high = clopper_pearson([0, 250], 250)
    assert (low[0], high[1]) == (0, 1)
    assert high[0] == pytest.approx(1 - 0.025 ** (1 / 250), rel=1e-9)
    assert low[1] == pytest.approx(0.025 ** (1 / 250), rel=1e-9)
    low, high = clopper_pearson(130, 250)
    tails = binom.sf(129, 250, float(low)), binom.cdf(130, 250, float(high))
    assert tails == pytest.approx((0.025, 0.025), rel=1e-9)


def test_the_table_stands_beside_the_promise(promise, run, columns):
    fixed = attacked(run(columns("fixed", [0.3, 0.3, 0.2, 0.1]), "f"), [0.6, 0.3, 0.3, 0.0])
    table = attacked_first(compare([attacked(promise, [0.6, 0.0, 0.6, -1.0]), fixed])[0])
    assert LEFT in table.title
    values = [[cell.value for cell in row] for row in table.rows]
    assert values[1] == ["fixed", "0.25", EVERYONE, "0.3", 4, 0.5, 0.75, "0 of 2", 0]
    assert values[5] == ["anisotropic", "0.25", ADMITTED, "0.3", 4, 0.5, 0.5, "1 of 2", 0]
    assert values[7] == ["anisotropic", "0.25", ADMITTED, "own region", 4, None, None, "0 of 4", 0]
    assert 0 < table.rows[5][6].low < 0.5 < table.rows[5][6].high < 1
    assert "confidence about inputs not seen (" in table.caption


def test_what_a_run_calls_its_recipe_is_no_markup(run, columns):
    runs = [
        attacked(run(columns("fixed", [0.3, 0.3]), name, recipe=recipe), reach, ids)
        for name, recipe, reach, ids in (("a", "<img src=x>", [0.6, 0.3], [0, 1]), ("b", "cohen", [0.6], [1]))
    ]
    table = attacked_first(compare(runs)[0])
    assert "<img" in table.caption
    assert "<" not in render(table, "markdown")


def test_inputs_that_were_trained_on_tell_of_such_alone(run, columns):
    """Nothing is said about inputs not seen where no network of the comparison could tell of them."""
    one, other = (attacked(run(columns("fixed", [0.3, 0.3]), name, trained_on=True), [0.6, 0.3]) for name in "ab")
    about = "confidence about other inputs that the network was trained on"
    for table in (summary, attacked_first):
        assert f"{about} (" in table(compare([one, other])[0]).caption
        other.description["trained_on"] = False
        assert f"{about} or inputs not seen (" in table(compare([one, other])[0]).caption
        other.description["trained_on"] = True
