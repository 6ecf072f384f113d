import numpy as np

from anisocert.evaluate import compare
from anisocert.report._charts import curves, histograms


def test_curves_are_the_certified_accuracy(make_run, data):
    group = compare([make_run("a", data), make_run("f", data, "fixed")])[0]
    told = curves(group)
    (level,) = told["levels"]
    for series, entry in zip(level["series"], group.entries, strict=True):
        for size in ("radius", "proxy_radius"):
            at = told["sizes"][size]["step"] * np.arange(told["sizes"][size]["points"])
            expected = [int(((entry.before.certified(size) >= r) & entry.before.correct).sum()) for r in at]
            assert series[size] == expected
            assert series[size][-1] == 0


def test_a_few_huge_regions_do_not_flatten_the_rest(make_run):
    run = make_run("a", None, count=400)
    group = compare([run])[0]
    group.entries[0].before.radius[0] = 1e6
    told = curves(group)["sizes"]["radius"]
    assert told["beyond"] == 1
    assert told["step"] * told["points"] < 10


def test_levels(make_run, data):
    runs = [make_run(f"{m}{s}", data, m, sigma=s) for m in ("fixed", "anisotropic") for s in (0.25, 0.5)]
    told = curves(compare(runs)[0])
    assert [level["name"] for level in told["levels"]] == ["σ = 0.25", "σ = 0.5", "envelope", "oracle"]
    *_, envelope, oracle = told["levels"]
    for low, high in zip(envelope["series"], oracle["series"], strict=True):
        assert all(a <= b for a, b in zip(low["radius"], high["radius"], strict=True))


def test_the_size_does_not_grow_with_the_inputs(make_run):
    small, large = (curves(compare([make_run(str(n), None, count=n)])[0]) for n in (50, 5000))
    longest = [len(told["levels"][0]["series"][0]["radius"]) for told in (small, large)]
    assert max(longest) < 500


def test_histograms_count_every_input(make_run, data):
    found = {
        one["title"]: one for one in histograms(compare([make_run("a", data), make_run("i", data, "isotropic")])[0])
    }
    assert set(found) == {"Gap r", "Smallest noise factor", "Typical noise factor", "Shape: max θ / min θ"}
    assert [sum(series["counts"]) for series in found["Smallest noise factor"]["series"]] == [12, 12]
    assert [sum(series["counts"]) for series in found["Gap r"]["series"]] == [11, 11]  # one abstains
    (ratio,) = found["Shape: max θ / min θ"]["series"]
    assert (ratio["label"], sum(ratio["counts"])) == ("anisotropic", 12)
    assert ratio["median"] > 1


def test_histograms_are_of_the_shared_inputs(make_run):
    charts = histograms(compare([make_run("a", None, count=40), make_run("i", None, "isotropic")])[0])
    assert [sum(series["counts"]) for chart in charts[1:] for series in chart["series"]] == [12] * 4


def test_nothing_to_count(make_run, data):
    run = make_run("a", data)
    empty = run.table.drop_columns(["gap", "theta_min", "theta_max", "theta_geomean"])
    object.__setattr__(run, "table", empty)
    assert histograms(compare([run])[0]) == []
