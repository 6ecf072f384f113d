"""Means and what large regions carry of them, on rows whose means are plain."""

import pytest
from scipy.special import ndtri

from anisocert.evaluate import compare
from means import mean_table, reachable

MOST = 0.25 * ndtri(0.001 ** (1 / 1000))  # all of 1,000 votes for one class


@pytest.fixture
def comparison(run, columns):
    told = {"num_classes": [10] * 4, "label": [1, 3, 3, 2]}
    fixed = columns("fixed", [0.1] * 4, prediction=[1, 3, 3, 2], **told)
    ours = columns("anisotropic", [0.1, 1.0, 5.0, 9.0], prediction=[1, 3, 3, 1], **told)
    return compare([run(fixed, "runs/fixed", n=1000), run(ours, "runs/ours", n=1000)])[0]


def test_fixed_noise_reaches_what_unanimous_votes_give(comparison):
    assert reachable(comparison, 0.25) == pytest.approx(MOST, rel=1e-6)
    assert reachable(comparison, 0.25) <= MOST


def test_means_are_cut_there(comparison):
    (table,) = [mean_table([comparison])]
    fixed, ours = ([cell.value for cell in row] for row in table.rows)
    assert fixed[5:12] == [0.25, pytest.approx(MOST), pytest.approx(0.1), pytest.approx(0.2), 0.0, None, 0.1]
    # two of four, both of class 3; the wrong one counts nowhere
    assert ours[3:6] == pytest.approx([6.1 / 4, 12.2 / 4, 5.0 / 6.1])
    assert ours[7:9] == pytest.approx([(0.1 + 2 * MOST) / 4, (0.2 + 2 * MOST) / 4], rel=1e-6)
    assert ours[9:12] == [0.5, 1.0, 5.0]
    assert fixed[12:] == [pytest.approx(0.1), pytest.approx(0.2)] * 2  # certified for everyone: no memory is needed
    assert ours[12:] == [None] * 4


def test_imported_runs_that_do_not_tell_their_votes_have_no_line(run, columns):
    assert mean_table([compare([run(columns("fixed", [0.1]))])[0]]) is None
