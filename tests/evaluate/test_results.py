import numpy as np
import pytest

from anisocert.bounds import high_probability_accuracy
from anisocert.errors import ArgumentError
from anisocert.evaluate import aligned, results_of


def test_numbers_by_hand(results):
    one = results([0.5, 1.0, None, 2.0], [True, True, True, False])
    assert one.correct.tolist() == [True, True, False, False]
    assert one.abstention == 0.25
    assert one.certified().tolist() == [0.5, 1.0, 0, 0]
    assert (one.mean(), one.mean("proxy_radius")) == (0.375, 0.75)
    assert (one.median(), one.median("proxy_radius")) == (0.5, 1.0)
    assert one.accuracy([0, 1, 1.5]).tolist() == [0.5, 0.25, 0]
    assert one.accuracy([0, 1, 1.5], "proxy_radius").tolist() == [0.5, 0.5, 0.25]


def test_an_abstention_is_not_correct_even_if_the_label_says_so(results):
    assert not results([None], labels=np.array([-1])).correct.any()


def test_claim_is_the_exact_bound(results):
    one = results([0.5] * 90 + [0.1] * 10)
    assert one.claim([0.0, 0.5], 0.001).tolist() == [
        high_probability_accuracy(100, 100, 0.001, 0.001),
        high_probability_accuracy(90, 100, 0.001, 0.001),
    ]
    assert one.claim([0.0])[0] < 1


def test_claim_needs_alpha(results):
    with pytest.raises(ArgumentError, match="alpha"):
        results([0.5], alpha=None).claim([0.0])


def test_runs_are_joined_on_ids(results):
    long, short = results([1.0, 2.0, 3.0]), results([5.0, 6.0], ids=np.array([1, 2]))
    first, second = aligned([long, short])
    assert (first.radius.tolist(), second.radius.tolist()) == ([2, 3], [5, 6])


def test_runs_without_common_inputs(results):
    with pytest.raises(ArgumentError, match="in common"):
        aligned([results([1.0]), results([1.0], ids=np.array([7]))])


def test_runs_that_disagree_on_labels(results):
    with pytest.raises(ArgumentError, match="same labels"):
        aligned([results([1.0]), results([1.0], labels=np.array([4]))])


def test_ids_must_rise(results):
    with pytest.raises(ArgumentError, match="distinct ids"):
        results([1.0, 1.0], ids=np.array([3, 3]))


def test_of_a_run(run, columns):
    stored = run(columns("anisotropic", [0.5, 1.0], memory=[0.5, 0.0]))
    before, after = results_of(stored), results_of(stored, memory=True)
    assert (before.stage, after.stage) == ("before", "after")
    assert (before.radius.tolist(), after.radius.tolist()) == ([0.5, 1.0], [0.5, 0.0])
    assert after.correct.tolist() == [True, False]
    assert (before.method, before.norm, before.sigma, before.alpha) == ("anisotropic", "l2", 0.25, 0.001)


def test_fixed_noise_needs_no_memory(run, columns):
    assert results_of(run(columns("fixed", [0.5]))).stage == "not needed"


def test_a_run_without_memory_has_no_answers_after_it(run, columns):
    with pytest.raises(ArgumentError, match="memory"):
        results_of(run(columns("isotropic", [0.5])), memory=True)


@pytest.mark.parametrize(("method", "known"), [("fixed", True), ("isotropic", True), ("anisotropic", False)])
def test_a_log_without_proxy_radii(run, columns, method, known):
    rows = columns(method, [0.5, 1.0], proxy_radius=[None, None], votes=[None, None], alpha=[None, None])
    one = results_of(run(rows))
    assert one.knows("proxy_radius") is known
    assert one.knows("radius")
    assert one.alpha is None
    if known:
        assert one.proxy_radius.tolist() == one.radius.tolist()


def test_what_the_description_says_comes_first(run, columns):
    rows = columns("anisotropic", [0.5])
    del rows["norm"], rows["sigma"]
    one = results_of(run(rows, norm="l1", sigma=0.7))
    assert (one.norm, one.sigma) == ("l1", 0.7)


@pytest.mark.parametrize("value", ["l2", True, [0.5], float("nan"), 10**400])
@pytest.mark.parametrize("name", ["sigma", "alpha"])
def test_a_description_that_is_no_number_is_an_error(run, columns, name, value):
    """Anybody may have written it."""
    rows = columns("anisotropic", [0.5])
    del rows[name]
    with pytest.raises(ArgumentError, match=f"expected {name} as a finite number in .*, got '"):
        results_of(run(rows, **{name: value}))


def test_a_missing_prediction_is_an_error(run, columns):
    with pytest.raises(ArgumentError, match="prediction"):
        results_of(run(columns("fixed", [0.5, 0.5], prediction=[1, None])))
