"""What other votes and bounds would certify, against the formulas written out with scipy."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from anisocert.evaluate import compare
from plans import plan_table, with_plan

TOP, SECOND, VOTES, CLASSES, ALPHA = [9000, 5100, 4000], [600, 4900, 1000], 10_000, 10, 0.001


@pytest.fixture
def comparison(run, columns):
    rows = columns(
        "anisotropic", [0.5, 0.1, 0.0], top_votes=TOP, runner_up_votes=SECOND, votes=[VOTES] * 3, theta_min=[0.5] * 3,
        theta_geomean=[0.75] * 3, num_classes=[CLASSES] * 3, prediction=[1, 1, -1],
    )  # fmt: skip
    return compare([run(rows, n=VOTES)])[0]


def gap(top, second, n, bound):
    if bound == "one-vs-rest":
        p = beta.ppf(ALPHA, top, n - top + 1)
        return max(ndtri(p), 0.0)
    p_a = beta.ppf(0.9 * ALPHA, top, n - top + 1)
    p_b = min(1 - p_a, beta.ppf(1 - 0.1 * ALPHA / (CLASSES - 1), second + 1, n - second))
    return max((ndtri(p_a) - ndtri(p_b)) / 2, 0.0)


@pytest.mark.parametrize("bound", ["one-vs-rest", "two-class"])
@pytest.mark.parametrize("n", [1000, 10_000])
def test_the_same_shares_of_other_votes(comparison, n, bound):
    found = with_plan(comparison.entries[0], n, bound)
    wanted = np.array([gap(k * n // VOTES, s * n // VOTES, n, bound) for k, s in zip(TOP, SECOND, strict=True)])
    np.testing.assert_allclose(found.radius, 0.5 * wanted, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.proxy_radius, 0.75 * wanted, rtol=1e-6, atol=1e-9)
    assert found.prediction.tolist() == [1, 1 if wanted[1] > 0 else -1, -1]  # whose class nobody knows


def test_what_too_few_votes_leave_undecided_abstains(comparison):
    table = plan_table(comparison)
    at_zero = {(row[1].value, row[2].value): row[3].value for row in table.rows}
    assert at_zero[1000.0, "one-vs-rest"] == pytest.approx(1 / 3)
    assert len(at_zero) == 6


def test_runs_without_votes_or_theta_have_no_such_table(run, columns):
    assert plan_table(compare([run(columns("anisotropic", [0.5]))])[0]) is None
