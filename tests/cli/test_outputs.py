"""Files that somebody else wrote stay where they are, unless --force says otherwise."""

import os
import re
import resource
import shutil
from dataclasses import replace

import numpy as np
import pytest


@pytest.fixture(scope="module")
def made(quick, do, trained_digits, tmp_path_factory):
    """A folder with a network, a run, a memory and a file of the field."""
    folder = tmp_path_factory.mktemp("outputs")
    shutil.copy(trained_digits, folder / "net.safetensors")
    x = np.random.default_rng(0).random((4, 1, 8, 8), np.float32)
    np.savez(folder / "d.npz", x=x, y=np.arange(4))
    model, data, memory = (str(folder / name) for name in ("net.safetensors", "d.npz", "m.sqlite"))
    do(replace(quick, model=model, data=data, memory=memory, n=100), folder / "run")
    (folder / "cohen").write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    return folder


PREDICT = "predict net.safetensors --data d.npz --sigma 0.25 --n 50"
FILES = [
    "report run --out OUT",
    "show run 0 --out OUT",
    f"{PREDICT} --format csv --out OUT",
    f"{PREDICT} --format json --out OUT",
    "memory export m.sqlite --out OUT",
    "export run --out OUT",
    "report run --out here.html --figures .",
]


@pytest.mark.parametrize("command", FILES)
def test_a_file_that_is_not_ours_is_refused_without_force(cli, made, monkeypatch, tmp_path, command):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    typed = command.replace("OUT", "out").split()
    out = tmp_path / ("accuracy-d.npz-l2.pdf" if "--figures" in typed else "out")
    out.write_text("my thesis")
    said = cli(*typed, code=2).err
    assert f"expected nothing at {out.name}, or a file that anisocert recognises as its own, got another" in said
    assert out.read_text() == "my thesis"
    cli(*typed, "--force")
    assert out.read_bytes() != b"my thesis"
    cli(*typed)  # over its own
    out.unlink()
    (tmp_path / "elsewhere").write_text("my thesis")
    out.symlink_to(tmp_path / "elsewhere")
    assert f"at {out.name}, got a symbolic link" in cli(*typed, "--force", code=2).err
    assert (tmp_path / "elsewhere").read_text() == "my thesis"
    if typed[0] == "memory" or "--figures" in typed:
        return
    out.unlink()
    os.mkfifo(out)
    assert f"at {out.name}, got a FIFO" in cli(*typed, "--force", code=2).err


def test_a_picture_that_is_not_ours_is_refused_before_the_work(cli, made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    (tmp_path / "mine.png").write_text("my thesis")
    said = cli("diagnose", "net.safetensors", "--data", "d.npz", "--figure", tmp_path / "mine.png", code=2)
    assert "mine.png, or a file that anisocert recognises as its own, got another" in said.err


CERTIFY = "certify net.safetensors --data d.npz --sigma 0.25 --method fixed --n 50 --out out"


@pytest.mark.parametrize("command", [CERTIFY, "import cohen --norm l2 --method fixed --out out"])
@pytest.mark.parametrize("name", ["certificates.parquet", "theta/mine.safetensors", "unfinished/thesis.txt"])
def test_a_run_takes_no_folder_with_others_files(cli, made, monkeypatch, tmp_path, command, name):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).write_text("mine")
    (tmp_path / "out" / "beside.txt").write_text("mine")
    cli(*command.split(), code=2)
    assert (tmp_path / "out" / name).read_text() == "mine"
    if "unfinished" in name and "import" in command:
        return  # which is refused also with --force, as a run under way
    cli(*command.split(), "--force")
    assert (tmp_path / "out" / "run.json").exists()
    assert (tmp_path / "out" / "beside.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_written(cli, made, monkeypatch, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root can write everywhere")
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shut").mkdir(mode=0o500)
    for command in (
        "report run --out shut/a.html", "show run 0 --out shut/a.html", "export run --out shut/a.tsv",
        f"{PREDICT} --out shut/a.csv", "memory export m.sqlite --out shut/a.npz",
        "import cohen --norm l2 --method fixed --out shut/run",
        CERTIFY.replace("--out out", "--out shut/run"),
        "train --data d.npz --arch small-cnn --sigma 0.25 --epochs 1 --out shut/net",
    ):  # fmt: skip
        said = cli(*command.split(), code=1)
        assert said.err.startswith("error: shut/")
        assert said.err.endswith(": Permission denied\n")
    assert list((tmp_path / "shut").iterdir()) == []


@pytest.mark.parametrize(
    "command",
    ["report run --out out", "show run 0 --out out", "export run --out out", f"{PREDICT} --format json --out out",
     "report run --out here.html --figures out"],
)  # fmt: skip
def test_a_file_that_cannot_be_finished_is_not_there(cli, made, monkeypatch, tmp_path, command):
    """As on a full disk; what was there before stays."""
    import matplotlib.figure  # noqa: F401 (it writes a cache)

    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    cli(*command.split())
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        said = cli(*command.split(), "--force", code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert re.fullmatch(r"error: [\w./-]+: File too large\n", said.err)
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


def test_a_training_without_room_goes_on_later(cli, made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    train = ("train", "--data", "d.npz", "--arch", "small-cnn", "--sigma", "0.25", "--epochs", "1", "--out", tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        said = cli(*train, code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert said.err == f"error: {tmp_path}/resume.state: File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["training.lock"]
    cli(*train)
