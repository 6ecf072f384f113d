import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from anisocert.cli import main
from anisocert.cli.demo_text import conclude
from anisocert.errors import ArgumentError
from anisocert.report.toy import toy
from anisocert.runs import read_run
from anisocert.runs.rows import SCHEMA


def anisocert(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anisocert", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def quick(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The whole demo, in this process."""
    out = tmp_path_factory.mktemp("demo") / "run"
    arguments = ["anisocert", "demo", "--max", "4", "--n", "300", "--epochs", "2", "--out", str(out)]
    printed, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(told):
        patch.setattr(sys, "argv", arguments)
        patch.setattr(warnings, "formatwarning", warnings.formatwarning)
        with pytest.raises(SystemExit) as end:
            main()
    return subprocess.CompletedProcess(arguments, end.value.code or 0, printed.getvalue(), told.getvalue()), out


def test_demo_prints_a_table_and_says_what_it_means(quick):
    done, out = quick
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    text = " ".join(done.stdout.split())
    for word in ("4 test digits", "certified", "accuracy", "abstain", "What this says", "What to try next", out.name):
        assert word in text
    assert "anisocert demo --" in text


def test_demo_ends_with_a_report(quick):
    done, out = quick
    assert done.stdout.replace("\n", "").rstrip().endswith(str(out / "report.html"))
    html = (out / "report.html").read_text("utf-8")
    for word in ("digits, l2", "digits, l1", "What the memory did", "anisocert verify"):
        assert word in html


def test_toy_draws_a_picture(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("anisocert.report.toy.toy", partial(toy, epochs=6))  # enough for every region
    said = cli("demo", "--toy", "--n", 300, "--out", tmp_path)
    assert (tmp_path / "toy.png").read_bytes()[:4] == b"\x89PNG"
    assert str(tmp_path / "toy.pdf") in said.out
    assert len(re.findall(r"regions: [\d.]+ x [\d.]+, [\d.]+ x [\d.]+", said.out)) == 4


def test_demo_leaves_whole_runs(quick):
    _, out = quick
    runs = [path.parent for path in out.rglob("run.json")]
    assert runs
    for run in runs:
        described = json.loads((run / "run.json").read_text())
        assert {"certificates.parquet", "theta/theta.safetensors"} <= set(described["files"])
        for name, digest in described["files"].items():
            assert hashlib.sha256((run / name).read_bytes()).hexdigest() == digest
        table = pq.read_table(run / "certificates.parquet")
        assert table.num_rows == 4
        assert set(SCHEMA.names) <= set(table.column_names)
        assert set(table["votes"].to_pylist()) == {300}
        assert (described["n"], described["n0"], described["seed"], described["data"]) == (300, 100, 0, "digits")
        assert described["numerics"]["rows"] % 32 == 0
        assert described["numerics"]["precision"] in ("float32", "bfloat16")
        assert len(described["model_hash"]) == 64
        assert (run / described["model"]).stat().st_size > 10_000


def test_its_runs_are_those_of_certify(cli, quick):
    _, out = quick
    run = out / "l2-fixed"
    assert "nothing wrong" in cli("verify", run, "--recount", 2).out
    command = shlex.split(json.loads((run / "run.json").read_text())["command"])
    before = (run / "certificates.parquet").read_bytes()
    assert "finished: 4 inputs" in cli(*command[1:]).out
    assert (run / "certificates.parquet").read_bytes() == before


@pytest.mark.parametrize("file", [None, "None"])  # the latter as earlier versions wrote it
def test_its_memories_are_said_to_be_gone(cli, quick, tmp_path, file, forge):
    run = shutil.copytree(quick[1] / "l2-isotropic", tmp_path / "run")
    described = json.loads((run / "run.json").read_text())
    assert described["memory"]["file"] is None
    forge(run, memory=described["memory"] | {"file": file})
    said = cli("verify", run, code=3).out
    assert "not recomputed: the memory's columns: its memory ended with the process that filled it; " in said
    cli("report", run, "--out", tmp_path / "report.html")
    assert "--memory None" not in (tmp_path / "report.html").read_text() + read_run(run).configuration.command(run)
    cli("memory", "add", run, "--memory", tmp_path / "m.sqlite")  # there are no answers to be lost
    assert "nothing wrong; " in cli("verify", run).out


def test_a_run_that_is_not_the_demos_is_left_alone(cli, quick, tmp_path):
    out = shutil.copytree(quick[1], tmp_path / "copy")  # its runs are of the networks where they came from
    before = (out / "l2-fixed" / "run.json").read_bytes()
    assert "expected a demo's run or none at" in cli("demo", "--out", out, code=2).err
    assert (out / "l2-fixed" / "run.json").read_bytes() == before


@pytest.mark.parametrize("link", ["l1-fixed", "l1-fixed/theta", "l1-fixed/unfinished"])
def test_files_behind_a_link_are_left_alone(cli, tmp_path, link):
    victim = tmp_path / "victim" / "theta" / "mine.safetensors"
    victim.parent.mkdir(parents=True)
    victim.write_text("precious")
    (place := tmp_path / "demo" / link).parent.mkdir(parents=True)
    place.symlink_to(victim.parent if link.endswith("theta") else victim.parents[1])
    said = cli("demo", "--out", tmp_path / "demo", "--force", code=2)
    assert (f"{link}, got a link" in said.err, said.out) == (True, "")
    assert victim.read_text() == "precious"


def test_thetas_that_are_not_the_demos_are_left_alone(cli, tmp_path):
    (mine := tmp_path / "l1-fixed" / "theta" / "mine.safetensors").parent.mkdir(parents=True)
    mine.write_text("precious")
    assert "mine.safetensors, or a file that anisocert recognises" in cli("demo", "--out", tmp_path, code=2).err
    assert mine.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alpha", "1.5"], ("alpha", "1.5")),
        (["--n", "0"], ("n in", "0")),
        (["--n0", "-3"], ("n0", "-3")),
        (["--sigma", "-1"], ("sigma", "-1")),
        (["--sigma", "nan"], ("sigma", "nan")),
        (["--max", "0"], ("max", "0")),
        (["--seed", "-1"], ("seed", "-1")),
    ],
)
def test_wrong_values_are_one_readable_line(cli, tmp_path, arguments, words):
    said = cli("demo", *arguments, "--out", tmp_path / "run", code=2)
    assert said.err.startswith("error: expected ")
    assert len(said.err.splitlines()) == 1
    assert said.out == ""
    for word in words:
        assert word in said.err


def test_out_that_is_a_file(cli, tmp_path):
    (tmp_path / "file").touch()
    assert f"'--out': dir '{tmp_path / 'file'}' is a file" in cli("demo", "--out", tmp_path / "file", code=2).err


def test_a_wrong_value_ends_the_process_with_its_line():
    done = anisocert("demo", "--alpha", "1.5")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: expected alpha in (0, 1), got 1.5\n"


def test_a_warning_is_one_readable_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["anisocert", "--version"])
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with pytest.raises(SystemExit):
        main()
    assert warnings.formatwarning("n is small", UserWarning, "file.py", 3) == "warning: n is small\n"


@pytest.mark.parametrize("arguments", [["demo", "--n", "many"], ["demo", "--colour", "red"], ["dance"]])
def test_wrong_usage(cli, arguments):
    said = cli(*arguments, code=2)
    assert "Traceback" not in said.err
    assert arguments[-1] in said.err or arguments[-2] in said.err


def test_debug_leaves_the_error_to_python_which_shows_the_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["anisocert", "demo", "--alpha", "1.5", "--debug"])
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with pytest.raises(ArgumentError, match="expected alpha in"):
        main()


def test_help(cli):
    said = cli("demo", "--help").out
    for option in ("--out", "--sigma", "--n", "--n0", "--alpha", "--max", "--epochs", "--seed"):
        assert option in said


def test_the_gain_that_is_told_never_grows(tmp_path):
    fixed = SimpleNamespace(
        accuracy=lambda at: np.ones(np.size(at)), correct=np.ones(1), abstention=0.0, radius=np.array([1.0])
    )
    told = Console(file=io.StringIO(), width=400)
    shaped = SimpleNamespace(proxy_radius=np.array([1.999]))
    conclude(told, {"l2-fixed": fixed, "l2-anisotropic": shaped}, 0.1, tmp_path)
    assert "is 1.99 times the radius" in told.file.getvalue()
