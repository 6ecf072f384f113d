"""Alpha for a whole run, and for all that a memory will ever see: spent, recorded, verified."""

import math
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from anisocert.bounds import Plan, lifetime_alpha, lower
from anisocert.certification import certificates, certify
from anisocert.data import digits
from anisocert.engine import Network, Numerics, Query
from anisocert.errors import ArgumentError
from anisocert.memory import Memory
from anisocert.optimize import Fixed
from anisocert.runs import Configuration, read_run
from anisocert.runs._spending import shares
from anisocert.smoothing import Gaussian
from anisocert.verify.verifying import verify
from anisocert.work import add_to_memory


@pytest.fixture(scope="module")
def few(quick):
    return replace(quick, max=12)


@pytest.mark.parametrize("count", [1, 3, 49, 1000])
@pytest.mark.parametrize("alpha", [0.001, 0.3])
def test_shares_never_add_up_to_more_than_alpha(count, alpha):
    assert shares(alpha, count).tolist() == [alpha] * count
    together = shares(alpha, count, simultaneous=True)
    assert 1 - 1e-12 < sum(map(Fraction, together.tolist())) / Fraction(alpha) <= 1
    first, second = shares(alpha, count, first=1), shares(alpha, count, first=count + 1)
    assert sum(map(Fraction, [*first.tolist(), *second.tolist()])) < Fraction(alpha)
    assert first[0] == pytest.approx(alpha / 2, rel=1e-12)


def test_a_lifetime_of_hopeless_inputs_is_rarely_wrong_once():
    """Fair coins can be certified only wrongly. With alpha for each, one of forty nearly always is."""
    rng = np.random.default_rng(0)
    votes = rng.binomial(500, 0.5, size=(2000, 40))
    each = (lower(votes, 500, 0.05) > 0.5).any(1).mean()
    lifetime = (lower(votes, 500, np.broadcast_to(shares(0.05, 40, first=1), votes.shape)) > 0.5).any(1).mean()
    together = (
        (lower(votes, 500, np.broadcast_to(shares(0.05, 40, simultaneous=True), votes.shape)) > 0.5).any(1).mean()
    )
    assert each > 0.7
    assert max(lifetime, together) <= 0.05 + 4 * math.sqrt(0.05 / 2000)


@pytest.mark.parametrize(
    "plan", [Plan(n=300), Plan(n=1000, stop="checkpoints"), Plan(n=1000, stop="betting", bound="two-class")]
)
def test_inputs_with_an_alpha_of_their_own_are_certified_as_if_alone(half_space, plan):
    network = Network(half_space([1.0, 0.0]).eval(), 2, numerics=Numerics("float32", False, 160))
    x = torch.tensor([[0.1, 0.0], [0.7, 0.0], [1.5, 0.0], [0.02, 0.0]])
    alphas = np.array([1e-3, 1e-6, 0.2, 1e-9])
    query = Query(network, Gaussian(1.0), x, [5, 6, 7, 8], 3)
    found = dict(certificates(query, Fixed(), replace(plan, alpha=1e-9), alphas))
    for i, alpha in enumerate(alphas):
        alone = certify(
            network, x[i : i + 1], ids=[5 + i], smoothing=Gaussian(1.0), plan=replace(plan, alpha=alpha), seed=3
        )[0]
        assert found[i].alpha == alpha
        same = ("prediction", "gap", "p_a", "p_b", "votes", "bound_k", "bound_n", "runner_up_votes", "alpha")
        assert [getattr(found[i], name) for name in same] == [getattr(alone, name) for name in same]


def test_a_simultaneous_run(few, do, tmp_path):
    c = replace(few, simultaneous=True, alpha=0.01)
    assert do(c, tmp_path / "run").finished
    run, each = read_run(tmp_path / "run"), tmp_path / "each"
    assert set(run.column("alpha")) == {0.01 / 12 * (1 - 2.0**-50)}
    assert (run.description["alpha"], run.description["simultaneous"], run.description["inputs"]) == (0.01, True, 12)
    assert "--simultaneous" in run.description["command"]
    assert verify(tmp_path / "run").ok
    # the price: somewhat smaller regions than with alpha for each, from the same votes
    assert do(replace(few, alpha=0.01), each).finished
    alone = read_run(each)
    assert (run.column("top_votes") == alone.column("top_votes")).all()
    known = alone.column("radius") > 0
    assert (run.column("radius")[known] < alone.column("radius")[known]).all()
    # going on with another meaning of alpha is refused
    with pytest.raises(ArgumentError, match="simultaneous: True -> False"):
        do(replace(few, alpha=0.01), tmp_path / "run")


def test_a_simultaneous_run_in_shards_is_the_same(few, do, same, tmp_path):
    c = replace(few, simultaneous=True)
    do(c, tmp_path / "whole")
    do(c, tmp_path / "shards", shard=(2, 2))
    assert do(c, tmp_path / "shards", shard=(1, 2)).finished
    assert same(tmp_path / "whole", tmp_path / "shards")


def test_forged_shares_are_found(few, do, tmp_path, forge):
    do(replace(few, simultaneous=True), tmp_path / "run")
    larger = shutil.copytree(tmp_path / "run", tmp_path / "larger")
    forge(larger, lambda rows: [row.update(alpha=0.001) for row in rows])
    assert any("alpha is 0.001" in str(finding) for finding in verify(larger).findings)
    fewer = shutil.copytree(tmp_path / "run", tmp_path / "fewer")
    forge(fewer, lambda rows: rows.pop(0))
    assert any("the run's inputs are 12" in str(finding) for finding in verify(fewer).findings)
    claims = shutil.copytree(tmp_path / "run", tmp_path / "claims")
    forge(claims, simultaneous=False)
    assert any("alpha is " in str(finding) for finding in verify(claims).findings)


def test_a_memory_s_lifetime(few, do, tmp_path, forge):
    """Two runs, one alpha: numbers go on where the first run ended, and what is spent stays below it."""
    memory = str(tmp_path / "memory.sqlite")
    c = replace(few, alpha=0.01, lifetime=True, memory=memory)
    other = replace(c, ids="60,65,70,75,80")
    do(c, tmp_path / "first")
    do(other, tmp_path / "second")
    first, second = read_run(tmp_path / "first"), read_run(tmp_path / "second")
    assert first.description["lifetime_from"] == 1
    assert second.description["lifetime_from"] == 13
    assert first.column("alpha").tolist() == [lifetime_alpha(0.01, i) for i in range(1, 13)]
    assert second.column("alpha").tolist() == [lifetime_alpha(0.01, i) for i in range(13, 18)]
    assert "--lifetime" in first.description["command"]
    assert "lifetime_from" not in first.description["command"].replace("-", "_")
    assert verify(tmp_path / "first").ok
    assert verify(tmp_path / "second").ok
    with Memory.open(memory) as opened:
        found = opened.stats()
        assert opened.lifetime == found.lifetime == 0.01
        assert found.spent == pytest.approx(0.01 * (1 - 1 / 18))
        assert (found.numbers, found.submissions) == (17, 17)
        assert opened.check().ok
        with pytest.raises(ArgumentError, match="use a different seed"):
            opened.reserve([0], 0, np.zeros((1, 1, 8, 8), np.float32))
        assert opened.reserve([0], 1, np.zeros((1, 1, 8, 8), np.float32)) == 18
    forge(tmp_path / "second", lifetime_from=1)
    assert any("alpha is " in str(finding) for finding in verify(tmp_path / "second").findings)
    forge(tmp_path / "second", lifetime_from=None)
    assert any("lifetime_from" in str(finding) for finding in verify(tmp_path / "second").findings)


def test_a_lifetime_run_that_was_stopped_keeps_its_numbers(few, do, tmp_path):
    c = replace(few, lifetime=True, memory=str(tmp_path / "memory.sqlite"))
    do(c, tmp_path / "run", shard=(1, 2))
    do(replace(c, ids="100,105"), tmp_path / "meanwhile")
    assert read_run(tmp_path / "meanwhile").description["lifetime_from"] == 13
    assert do(c, tmp_path / "run", shard=(2, 2)).finished
    whole = replace(c, memory=str(tmp_path / "alone.sqlite"))
    do(whole, tmp_path / "alone")
    names = [name for name in read_run(tmp_path / "run").table.column_names if not name.startswith("memory_")]
    tables = [read_run(tmp_path / name).table.select(names).drop_columns("seconds") for name in ("run", "alone")]
    assert tables[0].equals(tables[1])


def test_run_and_memory_must_agree_before_the_work(few, do, tmp_path):
    memory = str(tmp_path / "memory.sqlite")
    do(replace(few, memory=memory), tmp_path / "plain")
    with pytest.raises(ArgumentError, match=r"with a lifetime alpha of 0.001, got .* with alpha for each certificate"):
        do(replace(few, memory=memory, lifetime=True), tmp_path / "run")
    lasting = str(tmp_path / "lasting.sqlite")
    Memory.open(lasting, lifetime=0.01).close()
    with pytest.raises(ArgumentError, match=r"with alpha for each certificate, got .* with a lifetime alpha of 0.01"):
        do(replace(few, memory=lasting), tmp_path / "run")
    with pytest.raises(ArgumentError, match=r"with a lifetime alpha of 0.001, got"):
        do(replace(few, memory=lasting, lifetime=True), tmp_path / "run")


def test_a_plain_run_cannot_be_added_to_a_lifetime_memory(few, do, tmp_path):
    do(few, tmp_path / "plain")
    with Memory(lifetime=0.9) as memory, pytest.raises(ArgumentError, match="have no number"):
        add_to_memory(tmp_path / "plain", memory)


def test_a_memory_that_keeps_nothing_is_refused_before_the_work(few, do, tmp_path):
    with pytest.raises(ArgumentError, match="the path of a file for the memory"):
        do(replace(few, memory=str(tmp_path / ":memory:")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_lifetime_run_has_no_place_in_another_memory(few, do, tmp_path):
    do(replace(few, lifetime=True, memory=str(tmp_path / "memory.sqlite")), tmp_path / "run")
    data = digits("test")
    inputs = dict(zip(data.ids.tolist(), data.x, strict=True))
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        add_to_memory(tmp_path / "run", memory, inputs)
        assert memory.submissions == 12
    with Memory(lifetime=0.001) as memory, pytest.raises(ArgumentError, match="have no number"):
        add_to_memory(tmp_path / "run", memory, inputs)


@pytest.mark.parametrize(
    ("options", "what"),
    [({"simultaneous": True, "lifetime": True, "memory": "m"}, "got both"), ({"lifetime": True}, "expected memory")],
)
def test_configurations_that_make_no_sense(few, options, what):
    with pytest.raises(ArgumentError, match=what):
        replace(few, **options)


def test_configurations_of_before_have_alpha_for_each(few):
    said = {name: value for name, value in few.to_dict().items() if name not in ("simultaneous", "lifetime")}
    c = replace(Configuration.from_dict(said), inputs=3)
    assert c.alphas().tolist() == [0.001] * 3
