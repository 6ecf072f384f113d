"""What chunks cost, and bars that follow it."""

from dataclasses import replace

import numpy as np
import pytest

import anisocert as ac
from anisocert.engine import Network, Numerics
from anisocert.optimize._pilot import effort
from anisocert.work import Circumstances, certify_run, load_job
from anisocert.work._cost import Cost, Meter, cost_of
from anisocert.work.forecast import _scheduled
from anisocert.work.workers import InProcess


@pytest.fixture
def network(half_space):
    found = Network(half_space([1.0, 0.0]).eval(), 2, numerics=Numerics("float32", False, 160))
    found.fit((2,), 0)
    return found


@pytest.mark.parametrize("method", [ac.Fixed(), ac.Isotropic(), ac.Anisotropic()])
@pytest.mark.parametrize(("n", "inputs"), [(1000, 1), (1000, 5), (4000, 9)])
def test_a_chunk_costs_about_the_rows_that_are_counted(network, method, n, inputs):
    plan, seen = ac.Plan(n0=100, n=n), {False: 0, True: 0}

    def on_rows(rows, gradients):
        seen[gradients] += rows

    network.on_rows = on_rows
    x = np.random.default_rng(0).normal(size=(inputs, 2)).astype(np.float32)
    ac.certify(network, x, num_classes=2, smoothing=ac.Gaussian(0.5), method=method, plan=plan)
    expected = cost_of(method, plan, network, inputs)
    assert expected.votes == pytest.approx(seen[False], rel=0.35)
    # beside the ascents, one look at the slopes and a trial of them
    assert expected.gradients <= seen[True] <= 1.1 * expected.gradients + 8


def test_a_cascade_costs_votes_under_each_of_its_codes(half_space):
    model = ac.Coded(half_space([1.0, 0.0]).eval(), None, ac.Codebook(np.linspace(0.5, 0.1, 8), 0.5))
    network, plan, seen = Network(model, 2, numerics=Numerics("float32", False, 160)), ac.Plan(n0=100, n=1000), []
    x = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    network.fit((2,), 0)
    network.on_rows = lambda rows, gradients: seen.append(rows)
    ac.certify(network, x, num_classes=2, smoothing=ac.Gaussian(0.5), method=ac.Cascade(), plan=plan)
    assert sum(seen) <= cost_of(ac.Cascade(), plan, network, len(x)).votes <= 1.5 * sum(seen)


def test_a_meter_reaches_what_it_is_told_and_never_more():
    told = []
    meter = Meter(lambda rows, share: told.append((rows, share)))
    for _ in range(2):
        meter.begin(Cost(1000, 200), 10)
        for gradients in [False] * 10 + [True] * 30:
            meter(100, gradients)
        assert sum(share for _, share in told) == pytest.approx(9.9)
        told.clear()
    meter.begin(Cost(1000, 0), 10)
    for _ in range(5):
        meter(100, False)
    assert [share for _, share in told] == pytest.approx([1.0] * 5)
    assert sum(rows for rows, _ in told) == 500


def test_the_work_of_a_run_is_told_as_it_goes_on(quick, tmp_path):
    job, told, done = load_job(replace(quick, method="isotropic", max=12)), [], []
    workers = InProcess(job, "cpu", lambda rows, share: told.append(share))
    certify_run(job, tmp_path, lambda: workers, Circumstances(on_rows=lambda rows: done.append(len(rows))))
    assert sum(done) == 12
    assert 0.7 * 12 <= sum(told) <= 12
    assert max(told) < 4  # not in one step


def test_chunks_grow_as_a_schedule_lets_them():
    sizes = []

    def seconds(count):
        sizes.append(count)
        return 0.1 * count

    assert _scheduled(seconds, 100, 1) == pytest.approx(10.0)
    assert sizes == [1, 4, 16, 40, 39]
    sizes.clear()
    _scheduled(lambda count: sizes.append(count) or 60.0, 12, 4)
    assert sizes == [4, 4, 4]


def test_the_search_follows_the_votes():
    """Less for fewer votes, and the same as ever for many."""
    method, plans = ac.Anisotropic(), [ac.Plan(n=n) for n in (1000, 3000, 10_000, 100_000)]
    assert [effort(plan) for plan in plans] == pytest.approx([0.1**0.5, 0.3**0.5, 1.0, 1.0])
    searches = [method.pilot_votes(plan) + 5 * method.evaluations(plan) for plan in plans]
    assert searches == sorted(searches)
    assert searches[0] < 0.35 * searches[2]
    assert method.evaluations(plans[2]) == 2 * 120 * 16
    assert method.evaluations(plans[3]) == 2 * 120 * 100
    few = [method.pilot_votes(ac.Plan(n=n)) for n in (1, 20, 200)]
    assert min(few) > 0  # some in every block, however few
    assert all(method.pilot_votes(plan) % 32 == 0 for plan in plans)
