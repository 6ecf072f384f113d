"""A memory that is no file, in a store that nobody foresaw: one class, and its place in STORES."""

import json

import pytest

from anisocert.memory import Memory
from anisocert.memory.opening import STORES
from anisocert.runs import read_run

URL, SHOWN = "lists://me:secret@locked/m", "lists://me@locked/m"


def written(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def certify(list_store, remembering, tmp_path, cli, monkeypatch):
    """A run of a dozen inputs, some of which a memory shrinks, by the command line."""
    monkeypatch.chdir(tmp_path)
    c = remembering(tmp_path)
    asked = ("--sigma", c.sigma, "--method", "fixed", "--n0", c.n0, "--n", c.n, "--alpha", c.alpha, "--device", "cpu")
    numerics = ("--rows", 160, "--precision", "float32", "--no-compile", "--grid", 0)
    command = ("certify", c.model, "--data", c.data, *asked, *numerics)
    return lambda name, *more, code=0: cli(*command, "--out", tmp_path / name, *more, code=code)


@pytest.mark.filterwarnings("ignore:Without any noise")  # its network was never trained
def test_every_command_takes_its_url(certify, cli, tmp_path):
    run = tmp_path / "run"
    certify("run", "--memory", "lists://m")
    stored = read_run(run)
    assert stored.description["memory"]["file"] == "lists://m"
    assert "shrunk" in stored.column("memory_note")
    assert "--memory lists://m" in stored.description["command"]
    assert "nothing wrong; " in cli("verify", run, "--memory", "lists://m").out
    number = next(row["idx"] for row in stored.rows if row["memory_note"] == "shrunk")
    assert json.loads(cli("show", run, number, "--json", "--memory", "lists://m").out)["promise"] == number
    assert (
        "entries in lists://other, policy" in cli("memory", "add", run, "--memory", "lists://other", "--out", "b").out
    )
    said = cli("memory", "add", run, "--memory", "lists://other", code=2).err
    assert "expected --out DIR or --force, as" in said
    assert "has the answers of lists://m: a copy keeps both" in said
    assert read_run(run).memory == stored.memory
    cli("memory", "add", run, "--memory", "lists://other", "--force")
    assert read_run(run).memory.place == "lists://other"
    assert "proven disjoint" in cli("memory", "check", "lists://m").out
    looked_up = cli("memory", "lookup", "lists://m", "--data", stored.description["data"]).out
    assert " of 12 inputs lie in" in looked_up
    with Memory.open("lists://m", read_only=True) as memory:
        count = len(memory)
    assert f"entries              {count}" in cli("memory", "stats", "lists://m").out
    assert f"{count} entries with " in cli("memory", "export", "lists://m", "--out", "m.npz").out
    effort = ("--max", 1, "--n", 20, "--starts", 1, "--steps", 1, "--samples", 2)
    assert json.loads(cli("attack", run, "--memory", "lists://m", *effort, "--json").out)["memory"] == "lists://m"
    moved = cli("memory", "migrate", "lists://other", tmp_path / "moved.sqlite").out
    assert f" entries are in {tmp_path / 'moved.sqlite'} now, proven there; lists://other is closed" in moved
    assert "whose promises were moved to another place" in cli("memory", "stats", "lists://other", code=2).err
    assert "proven disjoint" in cli("memory", "check", tmp_path / "moved.sqlite").out
    assert f"{count} entries dropped; lists://m is" in cli("memory", "reset", "lists://m", "--yes").out
    assert not [path for path in tmp_path.rglob("*") if "lists" in path.name]


@pytest.mark.filterwarnings("ignore:Without any noise")  # its network was never trained
def test_no_server_is_contacted_because_a_run_names_it(certify, cli, tmp_path, monkeypatch, forge):
    """Whoever wrote the run would learn who reads it, and be offered a password."""
    run = tmp_path / "run"
    certify("run", "--memory", "lists://m")
    number = next(row["idx"] for row in read_run(run).rows if row["memory_note"] == "shrunk")

    def contacted(*_, **__):
        raise AssertionError

    for name in ("__init__", "exists"):
        monkeypatch.setattr(STORES["lists"], name, contacted)
    told = "its memory is at lists://m, and no server is contacted because a run names it; pass --memory URL"
    assert told in cli("verify", run, code=3).out
    assert json.loads(cli("show", run, number, "--json").out)["promise"] is None
    cli("report", run, "--out", "r.html")
    assert told in (tmp_path / "r.html").read_text()
    forge(run, method="isotropic")
    assert told in cli("export", run, "--after-memory", "--out", "r.tsv").err
    with pytest.raises(AssertionError):
        cli("show", run, number, "--memory", "lists://m")


@pytest.mark.parametrize(
    "command", ["verify run --memory", "attack run --memory", "memory check", "memory stats", "memory reset --yes"]
)
def test_a_url_without_a_memory_is_refused_without_its_password(list_store, cli, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    said = cli(*command.split(), URL, code=2)
    assert "expected a certificate memory, got" in said.err
    assert SHOWN in said.err
    assert "secret" not in said.out + said.err
    assert list_store.shared == {}


@pytest.mark.filterwarnings("ignore:Without any noise")  # its network was never trained
def test_a_password_is_used_and_never_kept(certify, cli, tmp_path):
    run = tmp_path / "run"
    assert certify("run", "--memory", SHOWN, code=2).err == f"error: expected a password for {SHOWN}, got none\n"
    said = [certify("run", "--memory", URL, "--time-budget", 0, code=3)]
    assert (SHOWN.encode() in written(run), b"secret" in written(run)) == (True, False)
    said.append(certify("run", "--memory", URL))  # resumes
    said.append(certify("run", "--memory", URL))  # is the run that is there
    assert read_run(run).description["memory"]["file"] == SHOWN
    assert f"--memory {SHOWN}" in read_run(run).description["command"]
    said.append(cli("verify", run, code=3))
    assert f"its memory is at {SHOWN}, and no server is contacted" in said[-1].out
    said.append(cli("verify", run, "--memory", URL))
    said.append(cli("memory", "add", run, "--memory", URL))
    said.append(cli("memory", "stats", URL))
    said.append(cli("attack", run, "--memory", URL, "--max", 1, "--n", 20, "--starts", 1, "--steps", 1, "--samples", 2))
    said.append(cli("report", run, "--out", tmp_path / "r.html"))
    said.append(certify("other", "--memory", URL, "--lifetime", code=2))
    said.append(certify("run", "--memory", "lists://me:secret@locked/other", code=2))
    said.append(cli("memory", "reset", URL, "--yes"))
    assert "secret" not in "".join(one.out + one.err for one in said)
    assert b"secret" not in written(tmp_path)
