"""The cascade, against classifiers whose every probability is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import anisocert as ac
from anisocert.engine import Query, Stage, all_votes, same_behaviour
from anisocert.errors import AnisocertWarning, ArgumentError
from anisocert.models import PerCode
from anisocert.smoothing import Gaussian, Uniform, cap

QUICK = ac.Numerics("float32", compile=False, rows=4000)
SURE = 1e-9  # an alpha at which no certificate of a test fails by chance


def shares(model, z, code):
    """Exact shares of each class at points under a code, by its network."""
    network = model.networks[code if len(model.networks) > 1 else 0]
    return network.shares(z, model.codes[code].double().numpy())


def answers(model, z):
    """The cascade's answers at points, from exact shares; -1 where rounding decides."""
    found, open_ = np.full(len(z), -1), np.ones(len(z), bool)
    for place, code in enumerate(model.order):
        at = shares(model, z, code)
        ranked, best = np.sort(at, 1), at.argmax(1)
        last = place == len(model.order) - 1
        wins = ranked[:, -1] - ranked[:, -2] > 1e-9 if last else ranked[:, -1] > 0.5 + 1e-9
        found[open_ & wins] = best[open_ & wins]
        open_ &= ranked[:, -1] < 0.5 - 1e-9  # neither won nor close to it
    return found


@pytest.fixture
def several(bands):
    """A random codebook, with one network for all codes or one per code, and inputs."""

    def make(seed, dim=3, codes=3, classes=3):
        rng = np.random.default_rng(seed)
        book = ac.Codebook(rng.uniform(0.1, 1.5, (codes, dim)) if seed % 2 else rng.uniform(0.1, 1.5, codes), 0.5)
        networks = [bands.random(rng, dim, classes, 0.8) for _ in range(codes if seed % 3 else 1)]
        model = ac.Coded(networks if len(networks) > 1 else networks[0], None, book).eval()
        return model, rng.normal(size=(6, dim)).astype(np.float32), rng, ac.Gaussian(book.cascade_sigma)

    return make


@pytest.mark.parametrize("seed", range(24))  # every kind of codebook, dimension and count of classes, twice
def test_exact_shares_give_regions_in_which_the_answer_does_not_change(several, points_of, seed):
    model, x, rng, _ = several(seed, dim=2 + seed % 3, codes=2 + seed % 4, classes=3 + seed % 2)
    for one in x.astype(np.float64):
        under = [shares(model, one[None], code)[0] for code in model.order]
        for place, code in enumerate(model.order):
            c = int(under[place].argmax())
            others = [np.delete(at, c).max() for at in under[:place]]
            sizes = [float(model.codes[before].min()) for before in model.order[:place]]
            caps = [float(Gaussian.gap(1 - q, q)) * size for q, size in zip(others, sizes, strict=True)]
            p = min(under[place].max(), 1 - 1e-12)
            gap, cap = float(Gaussian.gap(p, 1 - p)), min(caps, default=None)
            if gap > 0 and cap != 0:
                region = Gaussian.region(one, model.codes[code].numpy(), gap, cap)
                assert set(answers(model, points_of(region, rng, 500))) <= {c, -1}


def test_votes_give_regions_in_which_the_answer_does_not_change(several, points_of):
    later = first = 0
    for seed in range(6):
        model, x, rng, noise = several(seed, classes=4)
        plan = ac.Plan(n=2000, alpha=SURE)
        ask = {"num_classes": 4, "smoothing": noise, "method": ac.Cascade(), "plan": plan, "numerics": QUICK}
        for one in ac.certify(model, x, **ask):
            assert (one.method, one.alpha) == ("cascade", pytest.approx(SURE, rel=1e-12))
            if one.prediction >= 0:
                *before, own = map(int, one.codes.split(","))
                first, later = first + (not before), later + bool(before)
                assert tuple(before) == model.order[: len(before)]
                np.testing.assert_array_equal(one.theta, model.codes[own].numpy())
                assert one.selector_alpha == (SURE / 2 if before else None)
                assert one.region.enclosing_radius <= (one.cap or np.inf)
                assert set(answers(model, points_of(one.region, rng))) <= {one.prediction, -1}
    assert min(first, later) > 3


def test_under_the_first_code_a_certificate_is_that_of_fixed_noise(several):
    same = 0
    for seed in range(4):
        model, x, _, noise = several(2 * seed)
        ask = {"num_classes": 3, "smoothing": noise, "plan": ac.Plan(n=500), "numerics": QUICK}
        fixed = ac.certify(model.networks[model.order[0] if len(model.networks) > 1 else 0], x, **ask)
        for one, other in zip(ac.certify(model, x, method=ac.Cascade(), **ask), fixed, strict=True):
            if "," not in one.codes:
                same += other.prediction >= 0
                assert (one.prediction, one.radius, one.top_votes) == (other.prediction, other.radius, other.top_votes)
            elif other.prediction >= 0:  # by which it was named; votes may be luckier than they said
                assert one.radius > 0.7 * other.radius
    assert same > 4


def three(bands, share, q, own, sizes=(0.5, 0.25)):
    """At 0: class 0 has `share` and class 2 has q under the first code; class 0 has `own` under the second."""
    first = bands([1.0, 0.0], [sizes[0] * ndtri(q), -sizes[0] * ndtri(share)], [2, 1, 0], 3)
    second = bands([0.0, 1.0], [-sizes[1] * ndtri(own)], [1, 0], 3)
    return ac.Coded([first, second], None, ac.Codebook(sizes, 0.5)).eval()


@pytest.mark.parametrize(("share", "q", "own"), [(0.4, 0.2, 0.8), (0.3, 0.3, 0.99)])
def test_the_region_reaches_the_nearer_border(bands, at_zero, share, q, own):
    one = at_zero(three(bands, share, q, own), ac.Cascade(), 50_000, num_classes=3, numerics=QUICK)
    far = min(-0.5 * ndtri(max(q, 1 - share - q)), 0.25 * ndtri(own))
    assert (one.prediction, one.codes) == (0, "0,1")
    assert 0.85 * far < one.radius < far


@pytest.mark.parametrize(("q", "binding"), [((0.4, 0.2), 0.8), ((0.2, 0.4), 0.4)])
def test_every_code_that_was_asked_before_limits_the_region(bands, q, binding):
    """Under the first two codes another class has q, across coordinates of their own; the third is sure."""
    sizes = (0.8, 0.4, 0.2)
    spread = [
        bands(np.eye(3)[i].tolist(), [-9.0, sizes[i] * ndtri(q[i]), 0.0, 0.2], [0, 2, 1, 3, 0], 4) for i in range(2)
    ]
    last = bands([0.0, 0.0, 1.0], [-1.0], [1, 0], 4)
    model = ac.Coded([*spread, last], None, ac.Codebook(sizes, 0.5)).eval()
    (one,) = ac.certify(
        model, np.zeros((1, 3), np.float32), num_classes=4, smoothing=ac.Gaussian(0.8), method=ac.Cascade(),
        plan=ac.Plan(n=50_000), numerics=QUICK,
    )  # fmt: skip
    far = min(-size * ndtri(share) for size, share in zip(sizes, q, strict=False))
    assert (one.prediction, one.codes, one.selector_sigma) == (0, "0,1,2", pytest.approx(binding))
    assert 0.85 * far < one.radius < far


def test_alpha_is_kept_where_both_votes_are_at_their_limits(bands, within_rate):
    """Under the first code the border of another class's majority, under the second the class's own."""
    runs, alpha = 600, 0.4
    model, x = three(bands, 0.35, 0.25, 0.7), np.zeros((runs, 2), np.float32)
    true_cap, true_axis = -0.5 * ndtri(0.4), 0.25 * ndtri(0.7)
    found = ac.certify(
        model, x, num_classes=3, smoothing=ac.Gaussian(0.5), method=ac.Cascade(),
        plan=ac.Plan(n=200, alpha=alpha), numerics=QUICK,
    )  # fmt: skip
    wrong = [one.cap > true_cap or 0.25 * one.gap > true_axis for one in found if one.cap is not None]
    assert len(wrong) > 0.8 * runs
    assert within_rate(sum(wrong), runs, alpha)
    assert sum(wrong) > len(wrong) * alpha / 4  # the test would see a bound that is too large


def test_where_another_class_may_have_won_before_the_input_abstains(bands, at_zero):
    model = three(bands, 0.495, 0.004, 0.9)  # class 1 has 0.501 under the first code
    one = at_zero(model, ac.Cascade(), 4000, num_classes=3, numerics=QUICK)
    assert one.prediction == -1
    if "," in one.codes:
        assert (one.votes, one.cap) == (0, 0.0)
        assert "another class may have a majority under more noise" in one.reason


def test_every_class_under_every_code_before_has_its_part_of_alpha(bands, at_zero):
    """Three other classes under each of two codes may not have a majority: six bounds share alpha / 2."""
    sizes, n = (0.8, 0.4, 0.2), 1000
    spread = bands([1.0, 0.0], [-0.3, 0.0, 0.3], [0, 1, 2, 3], 4)
    sure = bands([0.0, 1.0], [-9.0], [1, 0], 4)
    model = ac.Coded([spread, spread, sure], None, ac.Codebook(sizes, 0.5)).eval()
    one = at_zero(model, ac.Cascade(), n, ac.Gaussian(0.8), num_classes=4, numerics=QUICK, alpha=0.2)
    assert (one.codes, one.selector_votes) == ("0,1,2", n)
    own = float(cap(Gaussian, one.selector_top, n, 0.2 / 2 / 6, one.selector_sigma))
    assert one.cap == pytest.approx(own, rel=1e-12)
    more = float(cap(Gaussian, one.selector_top, n, 0.2 / 2 / 3, one.selector_sigma))
    with ac.Memory() as memory, pytest.raises(ArgumentError, match=r"cap is .*, the selector's votes give"):
        memory.admit(replace(one, cap=more))


def test_a_code_with_a_shape_reaches_as_far_as_its_smallest_noise(bands, at_zero):
    first = bands([1.0, 0.0], [0.5 * ndtri(0.2), -0.5 * ndtri(0.4)], [2, 1, 0], 3)  # class 1 has 0.4
    codes = [[0.5, 8.0], [0.25, 0.25]]
    model = ac.Coded([first, bands([0.0, 1.0], [-9.0], [1, 0], 3)], None, ac.Codebook(codes, 0.5)).eval()
    one = at_zero(model, ac.Cascade(), 20_000, num_classes=3, numerics=QUICK)
    assert (one.prediction, one.codes) == (0, "0,1")
    assert 0.85 < one.cap / (-0.5 * ndtri(0.4)) < 1


def test_votes_that_name_a_code_are_not_those_that_prove_it(bands):
    model, x, noise = three(bands, 0.4, 0.2, 0.8), np.zeros((1, 2), np.float32), ac.Gaussian(0.5)
    ask = {"smoothing": noise, "method": ac.Cascade(), "plan": ac.Plan(n=400), "numerics": QUICK}
    (one,) = ac.certify(model, x, num_classes=3, **ask)
    first = Query.of(ac.Network(model.networks[0], 3, numerics=QUICK), noise, x, [0], 0)
    (counts,) = all_votes(first, noise.scales(first.x.new_full((1, 1), 0.5)), Stage.CAPTURE, [400])
    assert (one.codes, one.selector_top) == ("0,1", 400 - counts[1:].max())


def test_votes_to_select_name_no_other_class_under_a_later_code(bands):
    """The codes before it leave room for the class that was named, and for no other."""
    network = ac.Network(three(bands, 0.4, 0.2, 0.8), 3, numerics=QUICK)
    query = Query.of(network, ac.Gaussian(0.5), np.zeros((1, 2), np.float32), [0], 0)
    _, later = ac.Cascade().decide(query, ac.Plan(n=2000), np.array([0.001]))
    assert later.settle(np.array([[0, 100, 0]])).label.tolist() == [0]


def test_uniform_noise_gives_cross_polytopes(bands, at_zero):
    first = bands([1.0, 0.0], [-0.2, 0.1], [2, 1, 0], 3)  # of width 1: class 1 has 0.3, class 0 0.4
    model = ac.Coded([first, bands([0.0, 1.0], [-0.1], [1, 0], 3)], None, ac.Codebook([0.5, 0.25], 0.5)).eval()
    one = at_zero(model, ac.Cascade(), 20_000, Uniform(0.5), num_classes=3, numerics=QUICK)
    assert (one.norm, one.codes) == (1, "0,1")
    assert 0.85 * 0.1 < one.radius < 0.1


def test_results_do_not_depend_on_the_batch(several, as_alone):
    model, x, _, noise = several(4)
    as_alone(ac.Network(model, 3, numerics=QUICK), x, noise, ac.Cascade())


def test_mistakes_are_named(several):
    model, x, _, noise = several(2)
    ask = {"num_classes": 3, "method": ac.Cascade(), "plan": ac.Plan(n=100), "numerics": QUICK}
    with pytest.raises(ArgumentError, match="expected the smallest value of the codebook's largest noise"):
        ac.certify(model, x, **ask | {"smoothing": ac.Gaussian(2.0)})
    with pytest.raises(ArgumentError, match="expected bound one-vs-rest for cascade, which needs majorities"):
        ac.certify(model, x, smoothing=noise, **ask | {"plan": ac.Plan(n=100, bound="two-class")})
    with pytest.raises(ArgumentError, match=r"expected a model with a codebook for cascade, .*got Bands"):
        ac.certify(model.networks[0], x, smoothing=noise, **ask)
    with pytest.raises(ArgumentError, match="expected a model with a selector for selected, got none: use Cascade"):
        ac.certify(model, x, smoothing=noise, **ask | {"method": ac.Selected()})
    with pytest.raises(ArgumentError, match="expected one network per code, 3, got 2"):
        ac.Coded(model.networks[:2], None, ac.Codebook([0.1, 0.2, 0.3], 0.5))
    with pytest.raises(ArgumentError, match="expected a codebook and a selector, which name a code"):
        PerCode(model.networks)(None)


def test_the_hash_names_every_network(bands):
    hashes = {
        ac.Network(model, 3, numerics=QUICK).hash
        for model in (three(bands, 0.4, 0.2, 0.8), three(bands, 0.4, 0.21, 0.8), three(bands, 0.4, 0.2, 0.81))
    }
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"cap": 10.0}, "cap is 10.0, the selector's votes give"),
        ({"selector_top": 2000}, "cap is "),
        ({"codes": "0"}, "has selector_top, .* which method cascade has not"),
        ({"codes": None}, "which method cascade has not"),
        ({"cap": None}, "lacks cap"),
        ({"codes": "0,0"}, "codes is '0,0', not distinct codes"),
        ({"codes": "0,first"}, "codes is '0,first', not distinct codes"),
    ],
)
def test_a_memory_refuses_what_the_votes_do_not_give(bands, at_zero, change, wrong):
    one = at_zero(three(bands, 0.4, 0.2, 0.9), ac.Cascade(), 2000, num_classes=3, numerics=QUICK)
    with ac.Memory() as memory, pytest.raises(ArgumentError, match=wrong):
        memory.admit(replace(one, **change))
    with ac.Memory() as memory:
        assert memory.admit(one).note == "kept"


def test_a_system_answers_and_keeps_to_it(bands):
    with ac.Memory() as memory:
        system = ac.System(
            three(bands, 0.4, 0.2, 0.9), num_classes=3, smoothing=ac.Gaussian(0.5), method=ac.Cascade(),
            plan=ac.Plan(n=2000), memory=memory, secret=b"0123456789abcdef", numerics=QUICK,
        )  # fmt: skip
        first = system.answer(np.zeros(2, np.float32))
        assert (first.prediction, first.note, first.codes) == (0, "kept", "0,1")
        assert system.answer(np.full(2, 0.01, np.float32)).note == "inherited"


# What answers, beside the certificates


@pytest.mark.parametrize(
    ("share", "q", "own", "answer"),
    [
        (0.3, 0.3, 0.9, 0),  # no majority under the first code: the second answers
        (0.27, 0.3, 0.1, 1),
        (0.2, 0.7, 0.99, 2),  # a majority under the first, whatever the second says
        (0.3, 0.3, 0.5, -1),  # a tie under the second
        (0.5, 0.2, 0.99, -1),  # open whether class 0 has won: nobody is asked any more
    ],
)
def test_predict_answers_what_is_certified(bands, share, q, own, answer):
    model, x = three(bands, share, q, own), np.zeros((20, 2), np.float32)
    assert answers(model, x[:1]) == [answer]
    found = ac.predict(
        model, x, num_classes=3, smoothing=ac.Gaussian(0.5), method=ac.Cascade(), plan=ac.Plan(n=4000), numerics=QUICK
    )
    assert (found == answer).mean() > 0.9


def test_predict_shares_alpha_among_the_codes(bands):
    """Ten of ten votes have a p-value of 2^-9, about 0.002, which is more than half of 0.003."""
    model, x = three(bands, 1.0 - 1e-12, 1e-13, 0.9), np.zeros((1, 2), np.float32)
    ask = {"num_classes": 3, "smoothing": ac.Gaussian(0.5), "method": ac.Cascade(), "numerics": QUICK}
    with pytest.warns(AnisocertWarning, match="even if all agree"):
        assert ac.predict(model, x, plan=ac.Plan(n=10, alpha=0.003), **ask).tolist() == [-1]
    assert ac.predict(model, x, plan=ac.Plan(n=10, alpha=0.004), **ask).tolist() == [0]


@pytest.mark.parametrize(
    ("share", "q", "own", "right"),
    [(0.5, 0.0, 0.01, 1), (0.25, 0.502, 0.99, 2), (0.3, 0.3, 0.49, 1)],  # two halves, a bare majority, a near tie
)
def test_predict_is_wrong_in_at_most_alpha_of_runs(bands, within_rate, share, q, own, right):
    runs, alpha = 600, 0.4
    found = ac.predict(
        three(bands, share, q, own), np.zeros((runs, 2), np.float32), num_classes=3, smoothing=ac.Gaussian(0.5),
        method=ac.Cascade(), plan=ac.Plan(n=60, alpha=alpha), numerics=QUICK,
    )  # fmt: skip
    wrong = int(((found >= 0) & (found != right)).sum())
    assert within_rate(wrong, runs, alpha)
    assert wrong > 10  # the test would see a level that is too large


def test_predict_answers_no_other_classifier(several):
    model, x, _, noise = several(2)
    ask = {"num_classes": 3, "smoothing": noise, "plan": ac.Plan(n=100), "numerics": QUICK}
    for method in (None, ac.Fixed(), ac.Selected(), ac.TwoStep()):
        with pytest.raises(ArgumentError, match=r"expected method=ac.Cascade\(\) for a model with a codebook"):
            ac.predict(model, x, method=method, **ask)
    with pytest.raises(ArgumentError, match="got isotropic: ask"):
        ac.predict(model.networks[0], x, method=ac.Isotropic(), **ask)


def test_a_probe_tells_every_part(bands):
    """Networks of very different scores, the selector and the codes: each shows, under one name for all."""
    large = bands([1.0, 0.0], [0.0], [0, 1], 3)
    large.register_forward_hook(lambda *given: 1000 * given[-1])
    parts = {
        "networks": [large, bands([0.0, 1.0], [0.0], [0, 1], 3)],
        "selector": bands([1.0, 1.0], [0.0], [0, 1], 2),
        "codebook": ac.Codebook([0.5, 0.25], 0.5),
    }
    others = {
        "networks": [large, bands([0.0, 1.0], [0.0], [1, 0], 3)],
        "selector": bands([1.0, 1.0], [0.0], [1, 0], 2),
        "codebook": ac.Codebook([0.5, np.nextafter(np.float32(0.25), np.float32(1))], 0.5),
    }

    def probe(changed=None):
        model = ac.Coded(*(others[name] if name == changed else part for name, part in parts.items())).eval()
        return ac.Network(model, 3, model_id="one name", numerics=QUICK).probe((2,))

    assert same_behaviour(probe(), probe())
    assert [same_behaviour(probe(), probe(name)) for name in parts] == [False] * 3
    plain = ac.Network(large, 3, model_id="one name", numerics=QUICK).probe((2,))
    np.testing.assert_array_equal(plain, probe()[: len(plain)])
