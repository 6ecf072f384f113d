"""A way to choose theta that nobody foresaw: one class, and its place in METHODS."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.appearance import APPEARANCES, OTHER, Appearance
from anisocert.bounds import Plan
from anisocert.engine import Query
from anisocert.errors import ArgumentError
from anisocert.optimize import CODED, METHODS, PUBLISHED, Method, Settings
from anisocert.report import draw_curves
from anisocert.runs import read_run
from anisocert.smoothing.claims import needed_evidence
from anisocert.verify import verify


@dataclass(frozen=True)
class Contrast(Method):
    """Less noise where an input is dark. limit: of the brightest place, in units of the noise's own theta."""

    limit: float = 1.0

    name = "contrast"

    def choose(self, query: Query, plan: Plan) -> torch.Tensor:
        brightest = query.x.flatten(1).amax(1).view(-1, *(1 for _ in query.shape))
        share = (query.x / brightest).clamp(0.5, 1.0)
        return float(query.smoothing.theta) * self.limit * share


def test_it_certifies(half_space):
    x = np.array([[2.0, 1.0, 0.0]], np.float32)
    (found,) = ac.certify(
        half_space([1.0, 0.0, 0.0]).eval(), x, num_classes=2, smoothing=ac.Gaussian(0.5), method=Contrast(),
        plan=ac.Plan(n=500),
    )  # fmt: skip
    assert (found.method, found.prediction, found.theta.tolist()) == ("contrast", 0, [0.5, 0.25, 0.25])
    np.testing.assert_allclose(found.region.axes, found.gap * found.theta)


def test_a_run_asks_for_it_by_name(quick, do, tmp_path, cli, monkeypatch):
    with pytest.raises(ArgumentError, match=f"expected method to be one of {', '.join(METHODS)}, got 'contrast'"):
        replace(quick, method="contrast")
    monkeypatch.setitem(METHODS, "contrast", lambda settings: Contrast(settings.limit or 1.0))
    assert do(replace(quick, method="contrast", limit=2.0, max=3), tmp_path / "run").finished
    run = read_run(tmp_path / "run")
    assert run.column("method").tolist() == ["contrast"] * 3
    for row in run.rows:
        assert (row["theta_min"], row["theta_max"]) == pytest.approx((0.25, 0.5))
    assert verify(tmp_path / "run").ok
    (note,) = verify(tmp_path / "run").notes
    assert note.startswith("theta is each input's own; that it was chosen without the votes that certify it cannot be")
    assert cli("verify", tmp_path / "run", "--recount", 3)
    told = json.loads(cli("show", tmp_path / "run", run.rows[0]["idx"], "--json").out)
    assert told["row"]["method"] == "contrast"
    assert "the noise chosen for this input" in told["sentence"]  # nothing is claimed for all inputs unless it is known
    cli("report", tmp_path / "run", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '<p class="kind">digits, l2: contrast</p>' in page
    assert "--method-contrast" not in page
    assert drawn(tmp_path / "run") == OTHER.light


def test_what_people_are_told_of_it_is_said_once(quick, do, tmp_path, cli, monkeypatch):
    monkeypatch.setitem(METHODS, "contrast", lambda _: Contrast())
    monkeypatch.setitem(APPEARANCES, "contrast", Appearance("less noise where it is dark", "#123456", "#fedcba"))
    assert do(replace(quick, method="contrast", max=3), tmp_path / "run").finished
    cli("report", tmp_path / "run", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '<p class="kind">digits, l2: less noise where it is dark</p>' in page
    bright, dark = page.partition("@media screen and (prefers-color-scheme: dark)")[::2]
    assert "--method-contrast: #123456;" in bright
    assert "--method-contrast: #fedcba;" in dark
    assert drawn(tmp_path / "run") == "#123456"


def drawn(run) -> str:
    """The colour of a run's curve."""
    (figure,) = draw_curves(ac.evaluate(run))
    (colour,) = {line.get_color() for line in figure.axes[0].lines}
    return colour


@pytest.mark.parametrize("known", [METHODS, PUBLISHED])
def test_names_are_those_that_certificates_bear(known):
    settings = Settings(theta=np.ones((), np.float32))
    assert [make(settings).name for make in known.values()] == list(known)


def test_memories_know_what_the_certificates_of_codes_rest_on():
    assert {method for method in METHODS if needed_evidence({"method": method, "codes": "0"})} == set(CODED)
