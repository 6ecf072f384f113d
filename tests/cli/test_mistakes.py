"""What a newcomer gets wrong: one line that says what was expected, and the documented exit code."""

import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from anisocert.data import digits
from anisocert.errors import AnisocertWarning
from anisocert.evaluate.protection import SEEN
from anisocert.models import load, save

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def made(quick, do, trained_digits, tmp_path_factory):
    """A folder with a network, a run through a memory, and things that are not what they should be."""
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copy(trained_digits, folder / "net.safetensors")
    model, memory = (str(folder / name) for name in ("net.safetensors", "memory.sqlite"))
    do(replace(quick, model=model, memory=memory, n=100, max=2), folder / "run")
    x, y = RNG.random((12, 8, 8), np.float32), np.arange(12) % 10
    np.savez(folder / "good.npz", x=x[:, None], y=y)
    np.savez(folder / "flat.npz", x=x.reshape(12, 64), y=y)
    np.savez(folder / "colour.npz", x=x[:, None].repeat(3, 1), y=y)
    np.savez(folder / "eleven.npz", x=x, y=np.arange(12) - 1 + (np.arange(12) == 0))
    np.savez(folder / "from-one.npz", x=x[:, None], y=y + 1)
    np.savez(folder / "large.npz", x=1e6 * x.reshape(12, 64), y=y)
    np.savez(folder / "none.npz", a=x)
    np.savez(folder / "bytes.npz", x=(x * 255).round(), y=y)
    for name, side in (("cat", 8), ("dog", 9)):
        (folder / "sizes" / name).mkdir(parents=True)
        Image.new("L", (side, side)).save(folder / "sizes" / name / "1.png")
    (folder / "cut.npz").write_bytes((folder / "good.npz").read_bytes()[:500])
    (folder / "empty.npz").touch()
    np.save(folder / "plain.npy", x)
    (folder / "cut.safetensors").write_bytes((folder / "net.safetensors").read_bytes()[:5000])
    (folder / "text.txt").write_text("hello\n")
    (folder / "nothing").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "zero.toml").write_text('data = "a\\u0000b"\nmethods = {}\nnetworks = []\n')
    (folder / "command.toml").write_text('train = "x"\n')
    (folder / "zero-out.toml").write_text('recipe = "a\\u0000b"\n')
    (folder / "nets.py").write_text(
        "from torch import nn\n"
        "def narrow(): return nn.Sequential(nn.Flatten(), nn.Linear(3, 10))\n"
        "def ten(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()\n"
        "def nine(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 9)).eval()\n"
        "class Estimator:\n    def predict_proba(self, x): return x\n"
        "estimator = Estimator\n"
        "def broken(): raise OSError('no weights\\nhere')\n"
    )
    for name, change in (
        ("no-table", lambda run: (run / "certificates.parquet").unlink()),
        ("no-json", lambda run: (run / "run.json").write_text("{")),
    ):
        change(shutil.copytree(folder / "run", folder / name))
    return folder


CERTIFY = "--data digits --sigma 0.25 --method fixed --n 100 --max 2 --out out"
TRAIN = "train --data digits --arch small-cnn --sigma 0.25 --epochs 1 --out out"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (f"certify net.safetensors {CERTIFY} --sigma -1", 2, "expected sigma positive and finite, got -1.0"),
        (f"certify net.safetensors {CERTIFY} --bound x", 2, "expected bound to be one of"),
        (f"certify net.safetensors {CERTIFY} --num-classes 7", 2, "expected a network with 7 classes"),
        (f"certify net.safetensors {CERTIFY} --shard ²/²", 2, "expected --shard as in 2/8, got '²/²'"),
        (f"certify net.safetensors {CERTIFY} --ids ²", 2, "expected ids as in 3,17,100-199, got '²'"),
        (f"certify net.safetensors {CERTIFY} --device meta", 2, "expected auto, cpu, cuda"),
        (f"certify net.safetensors {CERTIFY} --memory nowhere/m.sqlite", 2, "nowhere/m.sqlite: mkdir -p"),
        (f"certify net.safetensors {CERTIFY} --data eleven.npz --ids 11", 2, "the network gives 10 scores"),
        (f"certify net.safetensors {CERTIFY} --data eleven.npz", 2, "got labels up to 10"),
        (f"certify nets:nine {CERTIFY} --num-classes 9", 2, "expected labels 0 to 8 in digits, as the network gives 9"),
        ("predict nets:ten --data from-one.npz --sigma 1 --max 2", 2, "got labels up to 10: do labels start at 1?"),
        ("diagnose nets:ten --data from-one.npz", 2, "got labels up to 10: do labels start at 1?"),
        (f"certify nets:ten {CERTIFY} --num-classes 9", 2, "expected a network with 9 classes in nets:ten, got 10"),
        (f"certify good.npz {CERTIFY}", 2, "a file of data: name the network first, then --data "),
        (f"certify nets.py:ten {CERTIFY}", 2, "expected a Python module, got the file nets.py: write nets:ten"),
        (f"certify nets:estimator {CERTIFY}", 1, "torch.from_numpy(estimator.predict_proba("),
        (f"certify nets:ten {CERTIFY} --data large.npz --sigma 1e5", 2, "as in --grid 0.00"),
        ("certify nets:ten --data digits --sigma 0.25", 2, "expected --out, the folder of the run, as in --out runs/a"),
        ("report run --out pages/", 2, "expected the name of a file, got the folder pages/: pages/report.html, say"),
        (f"certify net.safetensors {CERTIFY} --data sizes --ids cat/2.png", 2, "as in cat/1.png, got 'cat/2.png'"),
        (f"certify net.safetensors {CERTIFY} --data flat.npz", 1, "takes inputs of shape (64,), got: "),
        (f"certify net.safetensors {CERTIFY} --data flat.npz --dry-run", 1, "takes inputs of shape (64,), got: "),
        (f"certify nets:narrow {CERTIFY}", 1, "takes inputs of shape (1, 8, 8), got: "),
        (f"certify absent.nets:narrow {CERTIFY}", 2, "expected a Python module absent.nets, in the current folder or"),
        (f"certify nets:absent {CERTIFY}", 2, "expected a function nets:absent, got no such name in"),
        (
            f"certify net.safetensors {CERTIFY} --denoise absent:net",
            2,
            "expected a Python module absent, in the current",
        ),
        (f"certify nets:broken {CERTIFY}", 1, r"got what it raised: OSError('no weights\nhere')"),
        (f"certify cut.safetensors {CERTIFY}", 1, "expected a whole safetensors file at"),
        (f"certify net.safetensors {CERTIFY.replace('--out out', '--out cut.safetensors')}", 2, "is a file"),
        (
            "certify text.txt --data digits --out out",
            1,
            "expected a whole file written by torch.save at",
        ),
        (f"certify nothing {CERTIFY}", 2, "package.module:function, got the folder "),
        (f"certify nowhere {CERTIFY}", 2, "expected a network file, or package.module:function, at"),
        ("predict nowhere.safetensors --data digits", 2, "expected a network file, or package.module:function, at"),
        (f"certify net.safetensors {CERTIFY} --data bytes.npz", 2, "expected inputs in the network's units, with mean"),
        ("predict net.safetensors --data bytes.npz --sigma 1", 2, "expected inputs in the network's units, with mean"),
        ("diagnose net.safetensors --data bytes.npz", 2, "expected inputs in the network's units, with mean"),
        ("quantize net.safetensors --data bytes.npz --sigma 1 --split test --out q.onnx", 2, "in the network's units"),
        (f"certify net.safetensors {CERTIFY} --data sizes", 2, "expected images of one size, 8 x 8 pixels"),
        (f"certify net.safetensors {CERTIFY} --ids 0-99999999", 2, "expected at most 1,000,000 ids, got 100,000,000"),
        (f"certify nets:narrow {CERTIFY} --mean nan --std 1", 2, "expected mean finite and std finite and > 0"),
        (f"certify nets:narrow {CERTIFY} --mean 0 --std inf", 2, "expected mean finite and std finite and > 0"),
        (f"{TRAIN} --seed -1", 2, "expected seed: whole numbers in [0, 2**64), got -1"),
        (f"{TRAIN} --batch-size 0", 2, "got epochs 1 and batch_size 0"),
        (f"{TRAIN} --lr 0", 2, "expected learning_rate > 0"),
        (f"{TRAIN} --crop -1", 2, "'--crop'"),
        (f"{TRAIN} --device nonsense", 2, "expected auto, cpu, cuda"),
        (f"{TRAIN} --data flat.npz", 1, "takes inputs of shape (64,), got: "),
        (f"{TRAIN} --out text.txt", 2, "'--out': dir 'text.txt' is a file"),
        ("predict net.safetensors --data colour.npz --sigma 1", 1, "takes inputs of shape (3, 8, 8), got: "),
        ("diagnose net.safetensors --data colour.npz", 1, "takes inputs of shape (3, 8, 8), got: "),
        ("diagnose net.safetensors --data digits --figure a.xyz", 2, "expected --figure as a .png or .pdf file"),
        ("verify run --recount 1 --device nonsense", 2, "expected auto, cpu, cuda"),
        ("verify nothing", 2, "expected a finished run"),
        ("attack run --device nonsense", 2, "expected auto, cpu, cuda"),
        ("attack run --memory nothing", 2, "expected a file for the memory, got nothing, a folder"),
        ("show run 99999", 2, "got 99999, which is not in it"),
        ("show no-table 0", 2, "certificates.parquet: is missing"),
        ("report no-json", 2, "is not what the run wrote"),
        ("memory lookup memory.sqlite --data digits --split x", 2, "expected split 'train' or 'test', got 'x'"),
        (
            "memory lookup memory.sqlite --data colour.npz",
            2,
            "of shape (1, 8, 8), as all in this memory, got (3, 8, 8)",
        ),
        ("memory lookup memory.sqlite --inputs good.npz --ids 99", 2, "got 99, which is not among them"),
        ("memory lookup memory.sqlite --inputs cut.npz", 2, "expected a whole numpy file at cut.npz"),
        ("memory lookup memory.sqlite --inputs empty.npz", 2, "expected a whole numpy file at empty.npz"),
        ("memory lookup memory.sqlite --inputs none.npz", 2, "expected an array x in none.npz, got a"),
        ("memory lookup memory.sqlite --inputs plain.npy", 2, "expected --inputs as an .npz file, got plain.npy"),
        ("memory add run --memory nowhere/m.sqlite --force", 2, "nowhere/m.sqlite: mkdir -p nowhere"),
        ("memory add nowhere --memory m.sqlite", 2, "expected a finished run"),
        ("memory stats text.txt", 1, "is not a memory, or is damaged"),
        ("export run --digits 1000000 --out a.tsv", 2, "'--digits'"),
        ("data info cut.npz", 2, "expected a whole numpy file at cut.npz"),
        ("reproduce nothing --out out", 2, "is a directory"),
        ("reproduce fifo --out out", 2, "expected a regular file at fifo, got a FIFO"),
        ("reproduce zero.toml --out out", 2, "expected data in the file as a text, got 'a"),
        ("import fifo --out imported", 2, "expected a regular file at fifo, got a FIFO"),
        (f"{TRAIN} --config fifo", 2, "expected a regular file at fifo, got a FIFO"),
        (f"{TRAIN} --config command.toml", 2, "command.toml: expected [train] as a table, got 'x'"),
        (f"{TRAIN} --config zero-out.toml", 2, "expected recipe as a text, got 'a"),
        ("export run --out text.txt", 2, "or replace it with --force"),
        ("export run --out /dev/null --force", 2, "expected a regular file, or nothing, at /dev/null, got a device"),
    ],
)
def test_one_line_and_the_documented_code(cli, made, monkeypatch, command, code, words):
    monkeypatch.chdir(made)
    said = cli(*command.split(), code=code)
    assert words in said.err
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    assert "(unexpected: " not in said.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_training_on_a_device_that_is_not_here(cli, made, monkeypatch):
    monkeypatch.chdir(made)
    said = cli(*TRAIN.split(), "--device", "cuda", code=2).err
    assert "expected a device that this torch can use, got 'cuda'" in said
    assert said.endswith("; cpu is one\n")


def test_a_name_that_looks_like_an_address(cli, monkeypatch, tmp_path):
    """pyarrow would take it for one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cohen").write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    cli("import", "cohen", "--norm", "l2", "--method", "fixed", "--out", "s3:bucket")
    assert (tmp_path / "s3:bucket" / "certificates.parquet").is_file()


def test_an_error_is_one_line_whatever_it_names(cli):
    said = cli("certify", "a\nerror: all is well", *CERTIFY.split(), code=2).err
    assert len(said.splitlines()) == 1


def test_units_of_a_network_that_states_none(cli, monkeypatch, tmp_path):
    """Floats of 0 to 255 pass, as nobody can know better; but not in silence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_own.py").write_text(
        "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()\n"
    )
    rng = np.random.default_rng(0)
    for name, scale in (("small", 1.0), ("large", 255.0)):
        x = (scale * rng.random((6, 1, 2, 2))).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=x)
    command = ("certify", "users_own:net", "--sigma", 0.25, "--n", 100, "--method", "fixed", "--quiet")
    with pytest.warns(AnisocertWarning, match="are these pixels of 0 to 255"):
        cli(*command, "--data", "large.npz", "--out", "large")
    cli(*command, "--data", "small.npz", "--out", "small")


def test_features_are_not_called_pixels(cli, made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    np.savez(tmp_path / "features.npz", x=np.float32(500 * RNG.random((6, 64))), y=np.arange(6) % 2)
    with pytest.warns(AnisocertWarning, match="standardise the features, for the network too, or choose a sigma in"):
        cli("certify", "nets:ten", *CERTIFY.split(), "--data", tmp_path / "features.npz", "--out", tmp_path / "run")


def test_features_of_very_different_scales_are_told_before_the_work(cli, made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    np.savez(tmp_path / "features.npz", x=np.float32(RNG.normal(size=(20, 64)) * np.geomspace(0.1, 9, 64)))
    data, out = ("--data", tmp_path / "features.npz"), ("--out", tmp_path / "run")
    with pytest.warns(AnisocertWarning, match="features differ in scale .standard deviations 0.* and take the scaler"):
        cli("certify", "nets:ten", *CERTIFY.split(), "--max", 20, *data, *out)


def test_a_dry_run_needs_no_folder(cli, made, monkeypatch):
    monkeypatch.chdir(made)
    said = cli("certify", "nets:ten", "--data", "good.npz", "--sigma", 0.25, "--method", "fixed", "--n", 100,
               "--max", 2, "--dry-run")  # fmt: skip
    assert "would do: certify 2 inputs of good (fixed, l2, sigma 0.25, n 100, alpha 0.001)\n" in said.out


def test_what_was_done_to_the_data_is_noted(cli, made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    np.savez(tmp_path / "grey.npz", x=RNG.random((4, 8, 8), np.float32), y=np.arange(4))
    asked = ("--sigma", 0.25, "--n", 20, "--alpha", 0.1)
    said = cli("predict", "nets:ten", "--data", tmp_path / "grey.npz", *asked)
    assert "note: images of 8 x 8 in grey.npz are taken as 1 x 8 x 8, channels first\n" in said.err
    for name in ("b", "a"):
        (tmp_path / "animals" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "animals" / name / "1.png", transparency=0)
    said = cli("predict", "nets:ten", "--data", tmp_path / "animals", "--ids", "b/1.png", *asked)
    assert "note: folders are classes in the order of their names, a is 0, b is 1: " in said.err
    assert "note: transparency is dropped, as by torchvision's ImageFolder: 1 of 1 images, as in b/1.png" in said.err
    assert re.search(r"^ b/1\.png +1 ", said.out, re.M)
    assert "1 examples of" in said.out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_on_a_device_that_is_not_here(cli, made, monkeypatch):
    monkeypatch.chdir(made)
    said = cli("certify", "net.safetensors", *CERTIFY.split(), "--device", "cuda:0,cuda:1", code=2).err
    assert "(unexpected: " not in said


def test_inputs_that_were_trained_on_are_told_apart(cli, trained_digits, tmp_path):
    """What share of them is certified says nothing about others; so it stands in the run, and in its report."""
    network, said = load(trained_digits)
    data = digits("train")
    known = {"examples": len(data), "data_sha256": data.fingerprint()}
    save(network, tmp_path / "net.safetensors", {**said, **known})
    for split in ("train", "test"):
        asked = ["--data", "digits", "--method", "fixed", "--sigma", "0.25", "--n", "100", "--max", "3", "--split"]
        told = cli("certify", tmp_path / "net.safetensors", *asked, split, "--out", tmp_path / split).out
        cli("report", tmp_path / split, "--out", tmp_path / "report.html", "--gallery", 0)
        page = (tmp_path / "report.html").read_text("utf-8")
        found = [f"\n{SEEN}\n" in told, SEEN in page, "of inputs that were trained on" in page]
        assert found == [split == "train"] * 3
        assert ("inputs not seen" in page) == (split == "test")  # of which the others tell nothing


def test_inputs_of_one_class_of_several_are_told(cli, trained_digits, tmp_path):
    data = digits("test")
    order = np.argsort(data.y, kind="stable")
    np.savez(tmp_path / "sorted.npz", x=data.x[order], y=data.y[order])
    asked = (*["--method", "fixed", "--sigma", "0.25", "--n", "100", "--max", "6", "--data"], tmp_path / "sorted.npz")
    with pytest.warns(AnisocertWarning, match="all 6 inputs are of class 0, of 10"):
        cli("certify", trained_digits, *asked, "--out", tmp_path / "a")
    cli("certify", trained_digits, *asked, "--skip", 50, "--out", tmp_path / "b")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (("certify", "net.safetensors", "--data", "", "--out", "there"), "--data"),
        (("certify", "net.safetensors", "--data", "digits", "--out="), "--out"),
        (("memory", "lookup", "memory.sqlite", "--data", "digits", "--ids", ""), "--ids"),
    ],
)
def test_a_variable_that_is_not_set_is_no_current_folder(cli, made, monkeypatch, typed, name):
    monkeypatch.chdir(made)
    before = sorted(made.iterdir())
    said = cli(*typed, code=2)
    assert f"expected a value for {name}, got an empty one: is a variable of the shell not set?" in said.err
    assert (said.out, sorted(made.iterdir())) == ("", before)


def test_an_empty_place_in_a_configuration_is_no_current_folder(cli, made, tmp_path):
    (tmp_path / "c.toml").write_text('data = ""\n')
    said = cli("certify", made / "net.safetensors", "--config", tmp_path / "c.toml", "--dry-run", code=2)
    assert "c.toml: expected data as a text, got ''" in said.err
