import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

from anisocert import Certificate, Region
from anisocert.cli import main


@pytest.fixture
def make(write_run):
    return partial(_make, write_run)


def _make(write_run, folder, method="anisotropic", sigma=0.25):
    found = []
    for i in range(6):
        theta = np.full((1, 8, 8), sigma, np.float32)
        if method == "anisotropic":
            theta[0, 0] *= 2
        region = Region(np.zeros((1, 8, 8)), theta.astype(float) * (1 + 0.1 * i) * (1 - 1e-15), 2)
        found.append(
            Certificate(
                id=5 * i, prediction=i, gap=1 + 0.1 * i, region=region, theta=theta, p_a=0.9, p_b=0.1, top_votes=90,
                runner_up_votes=5, votes=100, bound_k=90, bound_n=100, alpha=0.001, num_classes=10,
                bound="one-vs-rest", stop=None, method=method, norm=2, seed=0, model_hash="abc", seconds=0.1,
                noise="gaussian",
            )
        )  # fmt: skip
    write_run(folder, found, [0, 5, 0, 5, 0, 5], sigma=sigma)
    return str(folder)


@pytest.fixture
def report(monkeypatch, capsys):
    """report(arguments) -> (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["anisocert", "report", *map(str, arguments)])
        monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return run


def test_one_run_has_its_report_in_its_folder(make, report, tmp_path):
    run = make(tmp_path / "run")
    code, out, _ = report(run)
    assert code == 0
    assert "run/report.html" in out.replace("\n", "")
    assert "<!doctype html>" in (tmp_path / "run" / "report.html").read_text("utf-8")[:50]


def test_several_runs(make, report, tmp_path):
    runs = [make(tmp_path / method, method) for method in ("fixed", "anisotropic")]
    code, _, _ = report(*runs, "--out", tmp_path / "all.html", "--gallery", 2)
    assert code == 0
    assert (tmp_path / "all.html").read_text("utf-8").count("<template") == 2


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("csv", "anisotropic,0.25,before,"),
        ("markdown", "| anisotropic | 0.25 |"),
        ("latex", r"\toprule"),
        ("terminal", "ACR"),
    ],
)
def test_tables_alone_on_the_standard_output(make, report, tmp_path, style, words):
    code, out, err = report(make(tmp_path / "run"), "--table", style)
    assert code == 0
    assert words in out
    assert "report.html" not in out
    assert "report.html" in err.replace("\n", "")


def test_figures(make, report, tmp_path):
    code, out, _ = report(make(tmp_path / "run"), "--figures", tmp_path / "figures")
    assert code == 0
    assert (tmp_path / "figures" / "accuracy-digits-l2.pdf").is_file()
    assert "accuracy-digits-l2.pdf" in out.replace("\n", "")


def test_one_run_twice_is_one_run(make, report, tmp_path):
    run = make(tmp_path / "run")
    assert report(run, run, "--out", tmp_path / "r.html")[0] == 0
    assert "· 1 run ·" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--table", "word"], "expected --table to be one of terminal"),
        (["--out", "."], "expected the name of a file, got the folder ."),
        (["--out", "r.md"], "expected the name of an .html file, as the page is HTML, got r.md: r.md.html, say"),
    ],
)
def test_wrong_values_are_one_line(make, report, tmp_path, arguments, words):
    run = make(tmp_path / "run")
    code, out, err = report(run, *arguments)
    assert code == 2
    assert words in err
    assert out == ""
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_folder_without_a_run(report, tmp_path):
    code, _, err = report(tmp_path)
    assert code == 2
    assert "expected a finished run" in err


def test_help():
    done = subprocess.run(
        [sys.executable, "-m", "anisocert", "report", "--help"], capture_output=True, text=True, timeout=300
    )
    for option in ("--out", "--figures", "--gallery", "--table", "--model"):
        assert option in done.stdout
