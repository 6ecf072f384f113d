"""What is shown about an input is what its run and its memory hold, and no more."""

import html
import math
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import anisocert as ac
from anisocert import models
from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.errors import ArgumentError
from anisocert.report import assumptions, evidence_of, evidence_page, sentence
from anisocert.report.evidence_tables import vote_counts, votes_table
from anisocert.runs import read_run
from anisocert.work import add_to_memory

NOTES = ("kept", "shrunk", "inherited", "abstained")


@pytest.fixture(scope="session")
def made(trained_digits, write_run, tmp_path_factory):
    """A folder with `plain`, a run as it came, and `remembered`, one through a memory."""
    folder = tmp_path_factory.mktemp("some evidence")
    network = ac.Network(models.load(trained_digits)[0], 10, numerics=Numerics("float32", False, 160))
    some, theta = digits("test").subset(most=12), np.random.default_rng(0).uniform(0.2, 0.4, (1, 8, 8))
    smoothing = ac.Gaussian(theta.astype(np.float32))
    found = ac.certify(network, some.x, ids=some.ids.tolist(), smoothing=smoothing, plan=ac.Plan(n=200))
    described = {
        "model": str(trained_digits), "n": 200, "device": "cpu", "numerics": network.numerics,
    }  # fmt: skip
    # Regions larger than certified, so that the memory has something to do: the first one just covers an input of
    # another class, and the input that is farthest from it abstains.
    gauges = found[0].region.gauges(some.x)
    other = np.array([c.prediction != found[0].prediction for c in found])
    factors = np.full(len(found), 3.0)
    factors[0] = 1.02 * gauges[other].min()
    grown = [_grown(c, k) for c, k in zip(found, factors, strict=True)]
    last = int(gauges.argmax())
    found[last] = grown[last] = replace(
        grown[last], prediction=-1, gap=0.0, region=None, p_a=0.4, p_b=0.6, x=some.x[last], reason="no class is clear"
    )
    write_run(folder / "plain", found, some.y, **described, method="fixed")
    write_run(folder / "remembered", grown, some.y, **described, method="anisotropic")
    with ac.Memory.open(folder / "memory.sqlite") as memory:
        add_to_memory(folder / "remembered", memory, dict(zip(some.ids.tolist(), some.x, strict=True)))
    return folder


def _grown(certificate, factor):
    theta = (certificate.theta * factor).astype(np.float32)
    region = ac.Gaussian(theta).region(certificate.region.center, theta, certificate.gap)
    return replace(certificate, theta=theta, region=region, method="anisotropic")


@pytest.fixture
def plain(made):
    return read_run(made / "plain")


@pytest.fixture
def remembered(made):
    return read_run(made / "remembered")


@pytest.fixture
def noted(remembered):
    """The id of an input with each note."""
    return dict(zip(remembered.column("memory_note")[::-1], remembered.column("idx")[::-1].tolist(), strict=True))


def x_of(number):
    return digits("test").subset(ids=[number]).x[0].astype(np.float64)


def lengths(text):
    """All decimal numbers of a text."""
    return [float(one) for one in re.findall(r"\d+\.\d+", text)]


def test_a_certificate_without_a_memory(plain):
    e = evidence_of(plain, 0)
    row = plain.table.to_pylist()[0]
    assert e.prediction == row["prediction"]
    assert e.binding is e.region
    assert (e.region.radius, e.region.proxy_radius) == (row["radius"], row["proxy_radius"])
    assert np.array_equal(e.region.center, x_of(0))
    assert e.whole
    said = sentence(e)
    assert said.startswith(
        "The smoothed classifier answers input 0 of digits with class 0, and gives the same answer after every"
    )
    assert "wrong is at most 0.001" in said
    assert not any("memory" in one for one in assumptions(e))


def test_implied_radii_are_those_of_the_region_and_no_corner_of_their_balls_is_outside(plain):
    e = evidence_of(plain, 0)
    rng = np.random.default_rng(0)
    balls = {one.norm: one for one in e.implied(e.binding)}
    assert set(balls) == {"l2", "l1", "l_inf"}
    directions = {
        "l2": [v / np.linalg.norm(v) for v in (1 / e.binding.axes**2, *rng.normal(size=(50, 1, 8, 8)))],
        "l1": [np.eye(64)[i].reshape(1, 8, 8) for i in range(64)],
        "l_inf": list(rng.choice([-1.0, 1.0], size=(50, 1, 8, 8))),
    }
    for norm, ball in balls.items():
        largest = max(e.binding.gauge(e.binding.center + ball.radius * d) for d in directions[norm])
        assert largest <= 1 + 1e-12
        assert largest > (0.5 if norm == "l2" else 1 - 1e-9)
        assert ball.pixels <= 255 * ball.radius < ball.pixels * (1 + 1e-12)
    # what is printed is rounded down
    shown = lengths(sentence(e))
    assert math.floor(balls["l2"].radius * 1e4) / 1e4 in shown
    assert math.floor(balls["l2"].pixels * 1e2) / 1e2 in shown


@pytest.mark.parametrize("note", NOTES)
def test_every_note_of_a_memory(remembered, noted, note, made):
    number = noted[note]
    e = evidence_of(remembered, number)
    row = next(row for row in remembered.table.to_pylist() if row["idx"] == number)
    assert e.note == note
    assert e.prediction == row["memory_prediction"]
    said, why = sentence(e), " ".join(assumptions(e))
    if note == "abstained":
        assert e.binding is None
        assert said == f"Nothing is promised about input {number} of digits: no class is clear."
        assert why == "An abstention is not a statement about robustness, for or against it."
    else:
        assert e.whole
        assert e.binding.radius == pytest.approx(row["memory_radius"], rel=1e-9)
        assert e.binding.proxy_radius == pytest.approx(row["memory_proxy_radius"], rel=1e-9)
        assert said.startswith(f"The system of smoothed classifier and memory answers input {number} of digits with ")
        assert "as long as every answer goes through the same memory" in why
        # the promise is the memory's own: it answers so at points of the region
        with ac.Memory.open(made / "memory.sqlite") as memory:
            for direction in np.random.default_rng(1).normal(size=(10, 1, 8, 8)):
                step = direction / np.linalg.norm(direction / e.binding.axes) * 0.999
                assert memory.lookup((e.binding.center + step).astype(np.float32)).prediction == e.prediction
    if note == "shrunk":
        assert e.binding.proxy_radius < e.region.proxy_radius
    if note == "inherited":
        assert e.promise.id == 0
        assert e.prediction != row["prediction"]
        assert "promised earlier to input 0" in why
        assert "with the noise of input 0, is wrong with probability at most 0.001." in said


@pytest.mark.parametrize("note", NOTES)
def test_without_the_memory_s_file_only_the_ball_that_the_run_knows_is_stated(made, tmp_path, noted, note, forge):
    folder = shutil.copytree(made / "remembered", tmp_path / "run")
    forge(folder, memory=read_run(folder).description["memory"] | {"file": "/nowhere/memory.sqlite"})
    e = evidence_of(read_run(folder), noted[note])
    whole = evidence_of(read_run(made / "remembered"), noted[note])
    if note in ("kept", "abstained"):
        assert e.whole
        assert sentence(e) == sentence(whole)
        return
    assert not e.whole
    assert e.binding.radius == e.binding.enclosing_radius == pytest.approx(whole.binding.radius)
    for small, large in zip(e.implied(e.binding), whole.implied(whole.binding), strict=True):
        assert small.radius <= large.radius * (1 + 1e-9)
    assert any("file is not at hand" in one for one in assumptions(e))
    assert sentence(e).startswith("By the run's own account, which no memory here backs: The system")
    if note == "inherited":
        assert "as certain as the promise" in sentence(e)


def test_a_memory_that_was_emptied_since_does_not_enlarge_anything(made, tmp_path, noted, forge):
    folder = shutil.copytree(made / "remembered", tmp_path / "run")
    ac.Memory.open(tmp_path / "memory.sqlite").close()
    forge(folder, memory=read_run(folder).description["memory"] | {"file": str(tmp_path / "memory.sqlite")})
    assert not evidence_of(read_run(folder), noted["shrunk"]).whole


def test_a_weaker_policy_is_said(made, tmp_path, forge):
    folder = shutil.copytree(made / "remembered", tmp_path / "run")
    forge(folder, memory=read_run(folder).description["memory"] | {"policy": "abstain"})
    assert "gives the same answer, or abstains, after every change" in sentence(evidence_of(read_run(folder), 0))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "is for this one input"),
        (
            {"simultaneous": True, "inputs": 12},
            "All 12 certificates of this run hold together except with probability 0.001",
        ),
        ({"lifetime": True}, "all promises that the memory ever makes, except with probability 0.001 at most"),
    ],
)
def test_what_alpha_is_of(made, tmp_path, options, what, forge):
    folder = shutil.copytree(made / "plain", tmp_path / "run")
    forge(folder, **options)
    assert what in " ".join(assumptions(evidence_of(read_run(folder), 0)))


def test_noise_of_its_own_without_a_memory_is_no_promise_of_a_system(made, tmp_path, forge):
    folder = shutil.copytree(made / "remembered", tmp_path / "run")
    table = pq.read_table(folder / "certificates.parquet")
    names = [name for name in table.column_names if name.startswith("memory_")]
    pq.write_table(table.drop_columns(names), folder / "certificates.parquet")
    forge(folder, memory=None)
    e = evidence_of(read_run(folder), 0)
    assert sentence(e).startswith("The smoothed classifier with the noise chosen for this input answers")
    assert any("not a promise about one system" in one for one in assumptions(e))


def test_without_the_data_nothing_is_said_that_depends_on_it(write_run, tmp_path):
    """A scalar theta does not tell how many values an input has, and that decides the l_inf ball."""
    theta = np.float32(0.25)
    smoothing = ac.Gaussian(theta)
    found = ac.certify(
        lambda x: -x.flatten(1)[:, :2], np.array([[0.0, 9, 0, 0, 0, 0, 0, 0]]), model_id="mine",
        num_classes=2, smoothing=smoothing, plan=ac.Plan(n=200),
    )  # fmt: skip
    write_run(tmp_path / "run", [replace(c, theta=np.asarray(theta)) for c in found], [0], data="/nowhere.npz", n=200)
    e = evidence_of(read_run(tmp_path / "run"), 0)
    assert [one.norm for one in e.implied(e.binding)] == ["l2", "l1"]
    assert "every value" not in sentence(e)
    assert e.inputs.missing
    assert "The input itself is not shown" in evidence_page(e)


def test_votes(plain):
    row = plain.table.to_pylist()[0]
    bars = dict(vote_counts(evidence_of(plain, 0)))
    assert bars["class 0"] == row["top_votes"]
    assert sum(bars.values()) == row["votes"]
    counts = np.zeros(10, np.int64)
    counts[[0, 3]] = 150, 50
    assert vote_counts(evidence_of(plain, 0, counts)) == [("class 0", 150), ("class 3", 50)]


@pytest.mark.parametrize("note", NOTES)
def test_the_page_holds_all_it_shows(remembered, noted, note):
    e = evidence_of(remembered, noted[note])
    page = evidence_page(e)
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert not re.search(r"""(?:src|href)="(?!data:)""", page)
    assert "http" not in page.replace("http-equiv", "")
    assert page.count('src="data:image/png;base64,') >= 2
    plain_text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert sentence(e) in plain_text
    assert f"anisocert attack {shlex.quote(str(remembered.folder))} --ids {e.id}" in plain_text
    assert ("There is none." in plain_text) == (note == "abstained")


@pytest.mark.parametrize("note", NOTES)
def test_names_that_are_markup_stay_text(remembered, noted, note):
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    clean = evidence_of(remembered, noted[note])
    described = remembered.description | {"model": f"{evil}:{evil}", "model_hash": evil}
    run = replace(remembered, description=described, folder=remembered.folder.with_name(evil.replace("/", "")))
    inputs = replace(clean.inputs, class_names=(evil,) * 10, missing=evil)
    comparison = replace(clean.comparison, data=evil)
    row = dict(clean.row) | {"reason": evil, "bound": evil, "method": evil}
    page = evidence_page(replace(clean, run=run, row=row, inputs=inputs, comparison=comparison))
    assert evil in html.unescape(page)
    assert "<script" not in page
    assert page.count("<img") == evidence_page(clean).count("<img")
    assert not re.search(r"<[^>]*\sonerror", page)


def test_commands_to_paste_hold_nothing_that_a_terminal_obeys(plain, tmp_path):
    described = plain.description | {"data": "x\x1b[", "model_id": "\x1b]0;y"}
    folder = shutil.copytree(plain.folder, tmp_path / "a\x1b[201~\n; touch PWNED")
    run = replace(plain, description=described, folder=folder)
    page = html.unescape(evidence_page(evidence_of(run, int(plain.column("idx")[0]))))
    commands = page.split("How to check it")[1].split("<pre>")[1].split("</pre>")[0].splitlines()
    assert len(commands) == 3
    assert all(line.isprintable() and r"/a\x1b[201~\x0a; touch PWNED" in line for line in commands)
    assert r"$'x\x1b['" in commands[2]


def test_who_is_not_in_the_run(plain):
    with pytest.raises(ArgumentError, match=r"expected the id of an example in .*, got 3, which is not in it"):
        evidence_of(plain, 3)


def test_commands_name_the_functions_that_must_be_typed(plain):
    number = int(plain.column("idx")[0])
    assert "--model" not in evidence_page(evidence_of(plain, number)).split("How to check it")[1].split("certify")[0]
    described = plain.description | {"model": "nets:make", "denoise": "nets:clean"}
    page = evidence_page(evidence_of(replace(plain, description=described), number))
    for line in ("verify", "attack"):
        assert re.search(rf"anisocert {line} .* --model nets:make --denoise nets:clean", page)


def test_bounds_are_rounded_to_the_safe_side(made):
    e = evidence_of(read_run(made / "plain"), 0)
    said, row = {one[0].value: one[1].value for one in votes_table(e).rows}, e.row
    assert row["p_a"] - 1e-6 < float(said["lower bound of its share, p_A"]) <= row["p_a"]
    assert row["p_b"] <= float(said["upper bound of any other's, p_B"]) < row["p_b"] + 1e-6
    seventh = replace(e, row=row | {"alpha": 0.001 / 7, "p_a": 0.78302777, "p_b": 0.21697223})
    said = {one[0].value: one[1].value for one in votes_table(seventh).rows}
    assert [said[name] for name in ("alpha", "lower bound of its share, p_A", "upper bound of any other's, p_B")] == [
        "0.000143", "0.783027", "0.216973",
    ]  # fmt: skip
