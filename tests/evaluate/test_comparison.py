import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.evaluate import compare, summary, superset
from anisocert.evaluate.paper import published


def test_runs_are_grouped_by_data_and_norm(run, columns):
    groups = compare(
        [
            run(columns("fixed", [0.5]), data="digits"),
            run(columns("fixed", [0.5], norm=["l1"]), data="digits"),
            run(columns("isotropic", [0.5]), data="/some/where/digits"),
            run(columns("fixed", [0.5]), data="mnist"),
        ]
    )
    assert [(g.data, g.norm, len(g.entries)) for g in groups] == [
        ("digits", "l2", 2), ("digits", "l1", 1), ("mnist", "l2", 1),
    ]  # fmt: skip


def test_order_and_labels(run, columns):
    runs = [
        run(columns(method, [0.5], sigma), f"runs/{method}{sigma}")
        for sigma in (1.0, 0.25)
        for method in ("anisotropic", "isotropic", "fixed")
    ]
    assert [entry.label for entry in compare(runs)[0].entries] == [
        "fixed σ=0.25", "fixed σ=1", "isotropic σ=0.25", "isotropic σ=1", "anisotropic σ=0.25", "anisotropic σ=1",
    ]  # fmt: skip


def test_one_noise_level_is_not_named(run, columns):
    assert [e.label for e in compare([run(columns("fixed", [0.5]))])[0].entries] == ["fixed"]


def test_runs_that_only_their_folders_tell_apart(run, columns):
    runs = [run(columns("fixed", [0.5]), folder) for folder in ("a/x", "a/y")]
    assert [e.label for e in compare(runs)[0].entries] == ["fixed (x)", "fixed (y)"]
    runs = [run(columns("fixed", [0.5]), folder) for folder in ("a/x", "b/x")]
    assert [e.label for e in compare(runs)[0].entries] == ["fixed (a/x)", "fixed (b/x)"]


def test_published_algorithms_are_named(run, columns):
    runs = [run(columns("isotropic", [0.5]), "a"), run(columns("isotropic", [0.5]), "b", paper=True)]
    assert [e.label for e in compare(runs)[0].entries] == ["isotropic", "isotropic, as published"]


def test_another_network_is_no_rival(run, columns):
    """Its run at the same noise level says nothing about the method; of a cascade's networks there is one per level."""
    fixed, shaped = columns("fixed", [0.5]), columns("anisotropic", [0.9])
    for theirs, known in (("a", True), ("b", False), (None, True)):
        (group,) = compare([run(fixed, "x", model_hash=theirs), run(shaped, "y", model_hash="a")])
        assert (group.beside(group.headline, "fixed") is not None) == known
        assert group.mixed != known
        assert ("of several networks, or of one in several precisions or grids" in summary(group).caption) != known
    (group,) = compare([run(fixed, "x", model_hash="a"), run(columns("cascade", [0.9]), "y", model_hash="b")])
    assert group.beside(group.headline, "fixed") is not None
    assert not group.mixed


def test_recipes_are_named_where_there_are_several(run, columns):
    runs = [run(columns("fixed", [0.5]), name, recipe=name) for name in ("cohen", "macer")]
    assert [e.label for e in compare(runs)[0].entries] == ["fixed, cohen", "fixed, macer"]


def test_a_network_behind_a_denoiser_is_not_what_its_recipe_made(run, columns):
    told = {"recipe": "cohen", "data": "cifar10"}
    runs = [run(columns("fixed", [0.5]), f"{denoise}", denoise=denoise, **told) for denoise in (None, "d.safetensors")]
    plain, behind = compare(runs)[0].entries
    assert [plain.label, behind.label] == ["fixed, cohen", "fixed, cohen, behind a denoiser"]
    assert published("cifar10", "l2", plain.recipe) is not None
    assert published("cifar10", "l2", behind.recipe) is None


def test_what_the_search_was_told_tells_runs_apart(run, columns):
    rows = columns("anisotropic", [0.5])
    told = ({}, {"prefer": "volume"}, {"prefer": "ball", "domain": [0.0, 1.0]}, {"prefer": "volume", "domain": [0, 2]})
    runs = [run(rows, f"runs/{number}", **one) for number, one in enumerate(told)]
    assert sorted(e.label for e in compare(runs)[0].entries) == [
        "anisotropic", "anisotropic, domain 0 to 1", "anisotropic, preferring volume",
        "anisotropic, preferring volume, domain 0 to 2",
    ]  # fmt: skip
    assert [e.label for e in compare(runs[1:2])[0].entries] == ["anisotropic"]  # alone it needs no other name
    for hostile in (["<b>", 1], [0], "01", {"low": 0}, [float("nan"), 1.0], [True, 2], [0, 10**400]):
        assert [e.label for e in compare([run(rows, domain=hostile)])[0].entries] == ["anisotropic"]


def twice(run, columns, sigma=0.25):
    """One run through two memories, and the published algorithm through one."""
    return [
        run(columns("anisotropic", [r], sigma, memory=[m]), f"{name}{sigma}", paper=paper, memory={"prefer": kept})
        for name, r, m, paper, kept in (
            ("ours", 0.5, 0.4, False, "volume"), ("ours-ball", 0.5, 0.45, False, "ball"),
            ("published", 0.3, 0.2, True, "volume"),
        )
    ]  # fmt: skip


def test_one_run_through_two_memories_is_told_once_before_them(run, columns):
    (group,) = compare(twice(run, columns))
    assert [(one.label, one.stage, one.radius[0]) for one in group.stages()] == [
        ("anisotropic", "before", 0.5), ("anisotropic", "after", 0.4),
        ("anisotropic, as published", "before", 0.3), ("anisotropic, as published", "after", 0.2),
        ("anisotropic, memory keeps the ball", "after", 0.45),
    ]  # fmt: skip


def test_a_family_is_of_one_algorithm_and_one_memory(run, columns):
    (group,) = compare(twice(run, columns) + twice(run, columns, 0.5))
    assert [(f[0].label, f[0].stage, [one.sigma for one in f]) for f in group.families()] == [
        (label, stage, [0.25, 0.5])
        for label, stage in (
            ("anisotropic", "before"), ("anisotropic", "after"), ("anisotropic, as published", "before"),
            ("anisotropic, as published", "after"), ("anisotropic, memory keeps the ball", "after"),
        )
    ]  # fmt: skip


def test_a_name_two_runs_share_takes_no_family_from_the_others(run, columns):
    runs = [run(columns("fixed", [0.5], sigma), f"f{sigma}") for sigma in (0.25, 0.5)]
    runs += [run(columns("isotropic", [0.5]), name) for name in "ab"]
    assert [[one.label for one in family] for family in compare(runs)[0].families()] == [["fixed", "fixed"]]


def test_short_runs_leave_inputs_out(run, columns):
    runs = [run(columns("fixed", [0.5, 0.6, 0.7]), "a"), run(columns("isotropic", [0.5, 0.9]), "b")]
    group = compare(runs)[0]
    assert (len(group), group.left_out) == (2, 1)
    assert [len(entry.before) for entry in group.entries] == [2, 2]


def test_binding_numbers_are_those_after_the_memory(run, columns):
    runs = [
        run(columns("fixed", [0.5]), "a"),
        run(columns("isotropic", [0.5]), "b"),
        run(columns("anisotropic", [0.5], memory=[0.3]), "c"),
    ]
    fixed, isotropic, anisotropic = compare(runs)[0].entries
    assert (fixed.unbound, isotropic.unbound, anisotropic.unbound) == (False, True, False)
    assert [e.binding.radius[0] for e in (fixed, isotropic, anisotropic)] == [0.5, 0.5, 0.3]


def test_headline_is_the_most_shaped_method_at_its_best_level(run, columns):
    runs = [
        run(columns("fixed", [9.0]), "a"),
        run(columns("anisotropic", [0.5]), "b"),
        run(columns("anisotropic", [0.7], 1.0), "c"),
    ]
    assert compare(runs)[0].headline.label == "anisotropic σ=1"


def test_families_need_each_level_once(run, columns):
    runs = [run(columns("fixed", [0.5], sigma), str(i)) for i, sigma in enumerate([0.25, 0.5, 0.5])]
    assert not list(compare(runs)[0].families())
    assert [len(family) for family in compare(runs[:2])[0].families()] == [2]


def test_data_of_one_name_with_other_inputs_is_not_compared(run, columns):
    one, other = (run(columns("fixed", [0.5]), name, data=f"{name}/test.npz", data_hash=name) for name in "ab")
    with pytest.raises(ArgumentError, match=r"called test\.npz, got others with the same ids in a and b"):
        compare([one, other])
    same = run(columns("isotropic", [0.5]), "c", data="c/test.npz", data_hash="a")
    unknown = run(columns("isotropic", [0.5]), "d", data="d/test.npz")
    more = run(columns("isotropic", [0.5, 0.5]), "e", data="e/test.npz", data_hash="e")  # of more inputs, another hash
    assert [len(entry.entries) for entry in compare([one, same, unknown, more])] == [4]


def test_superset_by_hand(results):
    fixed, ancer = results([0.5, 0.5, 0.5, None]), results([0.6, 0.5, 0.4, None])
    assert superset([fixed, ancer]) == [2 / 3, 2 / 3]


def test_where_nobody_certifies_nobody_has_the_largest(results):
    some, none = results([0.5, 0.5, None, None, None]), results([None] * 5)
    assert superset([some, none]) == [1.0, 0.0]
    assert np.isnan(superset([none, none])).all()


def test_superset_with_slack(results):
    fixed, ancer = results([1.0, 1.0, 1.0]), results([0.995, 0.985, 2.0])
    assert superset([fixed, ancer]) == [2 / 3, 1 / 3]
    assert superset([fixed, ancer], slack=0.01) == [2 / 3, 2 / 3]
    assert superset([fixed, ancer], slack=0.02) == [2 / 3, 1.0]


def test_a_wrong_certificate_contains_nothing(results):
    right, wrong = results([0.1]), results([9.0], [False])
    assert superset([right, wrong]) == [1.0, 0.0]


def test_superset_of_sizes(results):
    fixed = results([0.5], proxy_radius=np.array([0.5]))
    ancer = results([0.4], proxy_radius=np.array([0.9]))
    assert superset([fixed, ancer]) == [1, 0]
    assert superset([fixed, ancer], "proxy_radius") == [0, 1]


def test_nothing_to_compare():
    with pytest.raises(ArgumentError, match="at least one run"):
        compare([])
