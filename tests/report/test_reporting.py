"""A report from Python, on certificates that are in no file."""

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.report import draw_curves


@pytest.fixture(scope="module")
def evaluated(stripes):
    x = np.random.default_rng(0).uniform(0.2, 3, (24, 2)).astype(np.float32)
    labels = stripes(torch.from_numpy(x)).argmax(1)
    given = {"num_classes": 2, "smoothing": ac.Gaussian(0.12), "plan": ac.Plan(n0=50, n=500)}
    scaled = ac.certify(stripes, x, method=ac.Isotropic(), **given)
    memory = ac.Memory()
    lists = {"fixed": ac.certify(stripes, x, **given), "own": scaled, "system": memory.admit_all(scaled)}
    return lambda *names: ac.evaluate({n: lists[n] for n in names}, labels, data="stripes", sigma=0.12, memory=memory)


def test_two_lines_from_certificates_to_a_report(evaluated, tmp_path):
    path = ac.report(evaluated("fixed", "system"), tmp_path / "a" / "report.html")
    text = path.read_text("utf-8")
    assert "Robustness certificates: stripes" in text
    assert "promised from admission on" in text
    assert "certified for everyone" in text
    assert "are not kept as a run, so nothing here can be recomputed from files" in text
    assert "anisocert verify" not in text


def test_certificates_without_a_memory_are_no_systems(evaluated, tmp_path):
    text = ac.report(evaluated("own"), tmp_path / "report.html").read_text("utf-8")
    assert "These certificates have not been through a memory." in text
    assert "whose input comes before the clean one." in text
    assert "anisocert attack" not in text


def test_runs_and_evaluations_can_be_compared(evaluated, systems, tmp_path):
    text = ac.report([evaluated("fixed"), systems / "own", str(systems / "inherit")], tmp_path / "report.html")
    said = text.read_text("utf-8")
    assert "anisocert verify" in said
    assert "stripes.npz, l2" in said
    assert "stripes, l2" in said


def test_curves_are_drawn_with_whom_they_protect(evaluated):
    (figure,) = draw_curves(evaluated("fixed", "own"))
    assert [line.get_text() for line in figure.legends[0].get_texts()] == [
        "fixed: certified for everyone",
        "isotropic: about one input's own classifier",
    ]


def test_a_foreign_file_stays(evaluated, tmp_path):
    (tmp_path / "thesis.html").write_text("years of work")
    with pytest.raises(ArgumentError, match=r"expected nothing at .* replace it with --force \(force=True\)"):
        ac.report(evaluated("fixed"), tmp_path / "thesis.html")
    assert ac.report(evaluated("fixed"), tmp_path / "thesis.html", force=True).read_text().startswith("<!doctype html>")


def test_arguments_that_are_no_page(evaluated, tmp_path):
    one = evaluated("fixed")
    for given, message in (
        (
            (str(tmp_path / "report.html"), one),
            r"expected what to report on first, then the file, got '.*report\.html'",
        ),
        ((one, one), "expected what to report on first"),
        ((one, 5), r"expected out as the path of an \.html file, got 5"),
        ((one, f"{tmp_path}/pages/"), r"the name of a file, got the folder .*/pages/: .*/pages/report\.html, say"),
        ((one, tmp_path / "r.md"), r"the name of an \.html file, as the page is HTML, got .*r\.md: .*r\.md\.html, say"),
    ):
        with pytest.raises(ArgumentError, match=message):
            ac.report(*given)
    with pytest.raises(ArgumentError, match="expected gallery, a number of inputs >= 0, got 'a'"):
        ac.report(one, tmp_path / "report.html", gallery="a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", [5, [], [None]])
def test_what_cannot_be_reported_on(what, tmp_path):
    with pytest.raises(ArgumentError, match=r"expected (what ac\.evaluate|something to report on)"):
        ac.report(what, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_certificates_are_evaluated_first(tmp_path):
    found = ac.certify(
        lambda x: x, np.ones((1, 2), "float32"), num_classes=2, smoothing=ac.Gaussian(0.25),
        plan=ac.Plan(n0=10, n=50), model_id="identity",
    )  # fmt: skip
    with pytest.raises(ArgumentError, match=r"a Certificate: ac\.report\(ac\.evaluate\(certificates, labels\), out\)"):
        ac.report(found, tmp_path / "report.html")


def test_the_room_is_the_function_and_the_room():
    import anisocert.report as room

    assert room is ac.report
    assert room.draw_curves is draw_curves
