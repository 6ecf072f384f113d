import numpy as np
import pytest

from anisocert.evaluate import ADMITTED, EVERYONE, compare
from anisocert.report._verdict import telling_radius, verdict


def certified(radii):
    class One:
        def certified(self):
            return np.array(radii)

    return One()


@pytest.mark.parametrize(
    ("radii", "at"),
    [
        ([0.1, 0.43, 0.9], 0.4),
        ([0.0, 0.0, 0.77], 0.6),
        ([0.0, 0.0, 0.0], 0.0),
        ([1.0, 1.0, 1.0], 1.0),
        ([0.0299] * 2, 0.025),
    ],
)
def test_the_radius_told_is_round_and_reached(radii, at):
    found = telling_radius(certified(radii))
    assert found == at
    assert found <= max(radii)


def test_says_what_was_proven(make_run, data):
    group = compare([make_run("a", data, memory=True), make_run("f", data, "fixed")])[0]
    found = verdict(group, dim=36, unit_range=True)
    one = group.headline.binding
    at = telling_radius(one)
    share = one.accuracy(at)[0]
    assert f"length up to {at:g}" in found.lead
    assert found.lead.startswith(f"{np.floor(share * 1000) / 10:g}")
    assert "36 values" in found.points[0]
    assert any("times as large" in point for point in found.points)
    assert any("at most 0.001" in point for point in found.points)
    assert "through one memory" in found.points[-1]
    assert "those after it" in found.cautions[1]
    assert f"that of fixed noise is {EVERYONE}, this one {ADMITTED}." in " ".join(found.points)


def test_without_a_memory_it_is_no_promise(make_run, data):
    assert "promise nothing about one system" in verdict(compare([make_run("a", data)])[0]).cautions[0]


def test_fixed_noise_needs_no_caution(make_run, data):
    assert verdict(compare([make_run("f", data, "fixed")])[0]).cautions == ()


def test_nothing_certified(make_run, data):
    run = make_run("a", data)
    group = compare([run])[0]
    group.entries[0].before.radius[:] = 0
    found = verdict(group)
    assert "None of the 12 inputs" in found.lead
    assert "no class wins" in found.lead


def test_an_unknown_alpha_is_said(make_run, data):
    run = make_run("f", data, "fixed")
    del run.description["alpha"]
    object.__setattr__(run, "table", run.table.drop_columns(["alpha"]))
    assert any("does not say" in point for point in verdict(compare([run])[0]).points)
