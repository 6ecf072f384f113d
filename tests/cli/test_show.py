"""`anisocert show`, as a user calls it."""

import json
import shutil
import sys
from dataclasses import replace

import pytest


@pytest.fixture(scope="module")
def made(quick, do, trained_digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown")
    memory = str(folder / "memory.sqlite")
    do(replace(quick, model=str(trained_digits), sigma=0.5, max=24, memory=memory), folder / "run")
    return folder / "run"


def test_on_a_terminal_and_as_a_page(cli, made, tmp_path):
    said = cli("show", made, 0, "--out", tmp_path / "deep" / "page.html").out
    assert said.startswith("Input 0 of digits: class 0\nits label is class 0; fixed noise, l2\n")
    for part in ("What may be quoted", "Region", "Votes and bounds", "Memory", "ball inside the region", "kept"):
        assert part in said
    assert f"page: {tmp_path / 'deep' / 'page.html'}" in said
    assert "<h1>Input 0 of digits: class 0</h1>" in (tmp_path / "deep" / "page.html").read_text("utf-8")


def test_text_needs_no_jinja2_and_a_page_says_that_it_does(cli, made, tmp_path, monkeypatch):
    from anisocert.report import _html as html

    monkeypatch.setitem(sys.modules, "jinja2", None)
    html._environment.cache_clear()
    assert "What may be quoted" in cli("show", made, 0).out
    assert json.loads(cli("show", made, 0, "--json").out)["id"] == 0
    assert "pip install 'anisocert[report]'" in cli("show", made, 0, "--out", tmp_path / "a.html", code=1).err
    assert not list(tmp_path.iterdir())


def test_votes_of_every_class(cli, made):
    said = json.loads(cli("show", made, 0, "--json", "--recount").out)
    assert sum(said["votes"]) == said["row"]["votes"] == 200
    assert said["votes"][said["prediction"]] == said["row"]["top_votes"]
    assert sorted(said["votes"])[-2] == said["row"]["runner_up_votes"]
    assert json.loads(cli("show", made, 0, "--json").out)["votes"] is None


def test_an_abstention(cli, made):
    import pyarrow.parquet as pq

    rows = pq.read_table(made / "certificates.parquet").to_pylist()
    number = next(row["idx"] for row in rows if row["prediction"] == -1)
    said = cli("show", made, number).out
    assert f"Nothing is promised about input {number} of digits: not proven the most likely" in said
    assert "There is none." in said
    found = json.loads(cli("show", made, number, "--json").out)
    assert (found["prediction"], found["radius"], found["implied"]) == (-1, 0.0, None)


def test_votes_that_are_not_the_run_s(cli, made, tmp_path, forge):
    run = shutil.copytree(made, tmp_path / "run")
    forge(run, seed=1)
    assert "expected the run's votes when drawn again, got others" in cli("show", run, 0, "--recount", code=1).err
    assert "which is not in it" in cli("show", run, 1, "--recount", code=2).err
    assert "which is not in it" in cli("show", run, 1, code=2).err
