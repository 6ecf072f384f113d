"""What a file of networks and methods stands for."""

from pathlib import Path

import numpy as np
import pytest

from anisocert.data import digits, prepared
from anisocert.errors import ArgumentError
from anisocert.reproduce import read_matrix

TEXT = """
data = "digits"
[train]
arch = "small-cnn"
epochs = 3
[certify]
n = 500
[methods.fixed]
method = "fixed"
[methods.ours]
method = "anisotropic"
memory = true
[methods.average]
method = "average"
average-of = "ours"
[methods.ball]
of = "ours"
memory-prefer = "ball"
[[networks]]
recipe = "cohen"
sigma = [0.25, 0.5]
[[networks]]
recipe = "smoothadv"
sigma = 0.25
train = { epochs = 1, set = ["steps=2", "copies=2"], compile = false }
methods.ours = { max = 3, paper = true }
"""

CIFAR10 = Path(__file__).parents[2] / "experiments" / "cifar10.toml"
SETTINGS = {
    "smoothadv": ["steps=2", "copies=1", "epsilon=0.25", "warmup=1"],
    "macer": ["beta=1", "gamma=4.1", "weight=12", "start=0"],
}


@pytest.fixture
def write(tmp_path):
    def written(text):
        (tmp_path / "it.toml").write_text(text)
        return tmp_path / "it.toml"

    return written


def test_every_network_is_trained_and_certified_by_every_method(write):
    stages = read_matrix(write(TEXT))
    assert [stage.name for stage in stages] == [
        f"{what} {network}{method}"
        for network in ("cohen-0.25", "cohen-0.5", "smoothadv-0.25")
        for what, method in (
            ("train", ""),
            ("certify", " fixed"),
            ("certify", " ours"),
            ("certify", " average"),
            ("remember", " ball"),
        )
    ]
    assert " ".join(stages[0].command) == (
        "train --data digits --norm l2 --sigma 0.25 --recipe cohen --arch small-cnn --epochs 3 "
        "--out networks/cohen-0.25"
    )
    assert " ".join(stages[2].command) == (
        "certify networks/cohen-0.25/last.safetensors --data digits --norm l2 --sigma 0.25 --n 500 "
        "--method anisotropic --memory memories/cohen-0.25-ours.sqlite --out runs/cohen-0.25/ours"
    )
    assert stages[3].needs == ("train cohen-0.25", "certify cohen-0.25 ours")
    assert "--average-of runs/cohen-0.25/ours" in " ".join(stages[3].command)
    assert stages[4].needs == ("certify cohen-0.25 ours",)
    assert " ".join(stages[4].command) == (
        "memory add runs/cohen-0.25/ours --memory-prefer ball --memory memories/cohen-0.25-ball.sqlite "
        "--out runs/cohen-0.25/ball"
    )


def test_a_group_of_networks_may_differ(write):
    stages = {stage.name: " ".join(stage.command) for stage in read_matrix(write(TEXT))}
    assert "--epochs 1 --set steps=2 --set copies=2 --no-compile" in stages["train smoothadv-0.25"]
    assert "--max 3 --paper" in stages["certify smoothadv-0.25 ours"]
    assert "--paper" not in stages["certify smoothadv-0.25 fixed"]


OWN = """methods.ours = { max = 3 }
methods.fixed-many = { method = "fixed", skip = 2 }
only = ["ours", "fixed-many"]
first = ["ours"]
"""
FIRST = "[first]\nmultiples = [1, 2.5]\nmax = 9\n[[networks]]"


def test_a_group_may_have_methods_of_its_own_and_be_attacked(write):
    text = TEXT.replace("methods.ours = { max = 3, paper = true }", OWN).replace("[[networks]]", FIRST, 1)
    stages = {stage.name: stage for stage in read_matrix(write(text))}
    assert [name for name in stages if "smoothadv" in name] == [
        "train smoothadv-0.25", "certify smoothadv-0.25 ours", "certify smoothadv-0.25 fixed-many",
        "attack smoothadv-0.25 ours",
    ]  # fmt: skip
    assert "--n 500 --method fixed --skip 2 --out" in " ".join(stages["certify smoothadv-0.25 fixed-many"].command)
    attack = stages["attack smoothadv-0.25 ours"]
    assert attack.needs == ("certify smoothadv-0.25 ours",)
    assert " ".join(attack.command) == ("attack runs/smoothadv-0.25/ours --first --radius 0.25 --radius 0.625 --max 9")


def test_a_run_through_another_memory_may_be_attacked_averaged_and_remembered_again(write):
    text = TEXT.replace("[methods.ball]", '[methods.again]\nof = "ball"\n[methods.ball]')
    text = text.replace('average-of = "ours"', 'average-of = "ball"').replace("methods.ours =", 'first = ["ball"]\n#')
    stages = {stage.name: stage for stage in read_matrix(write(text))}
    assert stages["attack smoothadv-0.25 ball"].needs == ("remember smoothadv-0.25 ball",)
    assert stages["certify cohen-0.25 average"].needs == ("train cohen-0.25", "remember cohen-0.25 ball")
    assert stages["remember cohen-0.25 again"].needs == ("remember cohen-0.25 ball",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('data = "digits"', "", "expected data"),
        ("[train]", "[trian]", "got 'trian'"),
        ("sigma = 0.25", "", "expected sigma"),
        ("methods.ours = {", "methods.our = {", "or a new one that says its method, got 'our'"),
        ("methods.ours = {", 'only = ["hours"]\nmethods.ours = {', "expected only in networks among .*, got 'hours'"),
        ("methods.ours = {", 'first = ["hours"]\nmethods.ours = {', "'certify smoothadv-0.25 hours' among the stages"),
        ("sigma = 0.25", 'sigma = 0.25\nname = "cohen"', "'train cohen-0.25' twice"),
        ("[methods.fixed]", '[methods.".."]', "expected names of networks and methods in .*, got '.' or '..'"),
        ("[train]", "[train", "not TOML"),
        ('data = "digits"', "data = " + "[" * 5000, "not TOML"),
        ('"digits"', '"digit"', "expected a data set among"),
        ('"digits"', "3", "expected data in the file as a text, got 3"),
        (
            "sigma = [0.25, 0.5]",
            'sigma = "all"',
            "expected sigma in networks as a number or a list, each a number, got 'all'",
        ),
        ("sigma = [0.25, 0.5]", "sigma = []", "expected sigma in networks, at least one, got none"),
        ("train = {", "certify = 3 # {", "expected certify in networks as a table, got 3"),
        ("methods.ours = {", "methods.ours = 3 # {", "expected methods.ours in networks as a table, got 3"),
        ('average-of = "ours"', 'average-of = "hours"', "'certify cohen-0.25 hours' among the stages"),
        ("n = 500", 'denoise = "stranger:go"', "may not name code that is executed, got stranger:go"),
        ("n = 500", '"denoise=stranger:go" = true', "expected options of anisocert certify .*, got --denoise=stra"),
        ("n = 500", '"memory=/home/else.sqlite" = true', "or compute, or does a part, got --memory=/home/else.sql"),
        ("n = 500", 'out = "/home/precious"', "or compute, or does a part, got --out"),
        ("n = 500", "force = true", "or compute, or does a part, got --force"),
        ("n = 500", 'ray-address = "ray://stranger"', "or compute, or does a part, got --ray-address"),
        ("n = 500", 'shard = "1/4"', "or compute, or does a part, got --shard"),
        (
            '[[networks]]\nrecipe = "cohen"',
            '[first]\nsave = false\n[[networks]]\nfirst = ["ours"]\nrecipe = "cohen"',
            "or compute, or does a part, got --no-save",
        ),
        ("n = 500", "help = true", "or compute, or does a part, got --help"),
        ("sigma = 0.25", 'sigma = 0.25\nname = "../x"', "expected names of letters, digits, .* got 'train ../x-0.25'"),
        ("sigma = 0.25", f"sigma = 1{'0' * 400}", "expected finite numbers as sigma in networks"),
        ("sigma = 0.25", f"sigma = {'1' * 5000}", "not TOML"),
        ('of = "ours"\nmemory', 'of = "fixd"\nmemory', "'certify cohen-0.25 fixd' among the stages"),
        ('of = "ours"\nmemory', 'of = "ball"\nmemory', "none needs itself, got remember cohen-0.25 ball -> reme"),
    ],
)
def test_mistakes_are_named(write, old, new, said):
    with pytest.raises(ArgumentError, match=said):
        read_matrix(write(TEXT.replace(old, new)))


def test_stages_whose_files_would_have_one_name(write):
    text = TEXT.replace("[methods.fixed]", '[methods."1-0.25-fixed"]\nmethod = "fixed"\n[methods.fixed]')
    read_matrix(write(text))
    with pytest.raises(ArgumentError, match=r"'certify cohen-0.25 1-0.25-fixed' twice"):
        read_matrix(write(text.replace("sigma = 0.25", 'sigma = 0.25\nname = "cohen-0.25-1"')))


@pytest.mark.parametrize("networks", ['[networks]\nrecipe = "cohen"\nsigma = 1', "networks = []", "networks = [3]"])
def test_networks_are_several_tables(write, networks):
    text = TEXT.partition("[[networks]]")[0]
    with pytest.raises(ArgumentError, match="expected networks as"):
        read_matrix(write(text + networks if networks[0] == "[" else f"{networks}\n{text}"))


def test_radii_of_an_attack_are_multiples_of_the_noise(write):
    text = TEXT.replace("methods.ours =", 'first = ["ours"]\nmethods.ours =')
    with pytest.raises(ArgumentError, match="expected multiples in first as a list, each a number, got 'all'"):
        read_matrix(write(text.replace("[train]", '[first]\nmultiples = "all"\n[train]')))


OTHERS = """
data = "digits"
[train]
arch = "small-cnn"
epochs = 3
[methods.fixed]
method = "fixed"
[methods.ours]
method = "anisotropic"
memory = true
[[networks]]
name = "plain"
recipe = "cohen"
sigma = 0.001
at = []
[[networks]]
name = "denoised"
recipe = "denoiser"
of = "plain-0.001"
sigma = 0.5
at = [0.25, 0.5]
train = { told = "theta", levels = "0.1,1" }
only = ["fixed"]
[[networks]]
name = "behind"
recipe = "distillation"
of = "denoised-0.5"
sigma = 0.5
[[networks]]
name = "alone"
recipe = "distillation"
of = "given.pth"
sigma = [0.25]
at = 0.5
only = ["ours"]
"""


@pytest.fixture
def others(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.pth").touch()
    return {stage.name: stage for stage in read_matrix(write(OTHERS))}


def test_networks_may_begin_with_others(others, tmp_path):
    plain, denoiser = "networks/plain-0.001/last.safetensors", "networks/denoised-0.5/last.safetensors"
    behind = "networks/behind-0.5/last.safetensors"
    assert list(others) == [
        "train plain-0.001", "train denoised-0.5", "certify denoised-0.25 fixed", "certify denoised-0.5 fixed",
        "train behind-0.5", "certify behind-0.5 fixed", "certify behind-0.5 ours", "train alone-0.25",
        "certify alone-0.5 ours",
    ]  # fmt: skip
    commands = {name: " ".join(stage.command) for name, stage in others.items()}
    assert commands["train denoised-0.5"] == (
        f"train --data digits --norm l2 --sigma 0.5 --recipe denoiser --classifier {plain} --epochs 3 --told theta "
        "--levels 0.1,1 --out networks/denoised-0.5"
    )
    assert others["train denoised-0.5"].needs == ("train plain-0.001",)
    assert commands["certify denoised-0.25 fixed"] == (
        f"certify {plain} --data digits --norm l2 --sigma 0.25 --denoise {denoiser} --method fixed "
        "--out runs/denoised-0.25/fixed"
    )
    assert others["certify denoised-0.25 fixed"].needs == ("train plain-0.001", "train denoised-0.5")
    assert f"--classifier {plain} --denoise {denoiser}" in commands["train behind-0.5"]
    assert commands["certify behind-0.5 ours"].startswith(f"certify {behind} ")
    assert f"--denoise {denoiser}" in commands["certify behind-0.5 ours"]
    assert others["certify behind-0.5 ours"].needs == ("train plain-0.001", "train denoised-0.5", "train behind-0.5")
    assert f"--recipe distillation --classifier {tmp_path / 'given.pth'}" in commands["train alone-0.25"]
    assert commands["certify alone-0.5 ours"].startswith("certify networks/alone-0.25/last.safetensors ")
    assert "--sigma 0.5 --method anisotropic" in commands["certify alone-0.5 ours"]


def test_stages_know_the_files_of_the_users_that_they_depend_on(others, write, tmp_path):
    given = str(tmp_path / "given.pth")
    assert {name: stage.files for name, stage in others.items() if stage.files} == {
        "train alone-0.25": (given,),
        "certify alone-0.5 ours": (given,),
    }
    text = OTHERS.replace('"plain-0.001"', '"given.pth"')  # behind the denoiser, and behind it again
    assert {stage.name for stage in read_matrix(write(text)) if stage.files == (given,)} == set(others) - {
        "train plain-0.001"
    }


@pytest.mark.parametrize("place", ["few.npz", "prepared", "imagenet"])
def test_data_in_files_is_one_of_them(write, tmp_path, monkeypatch, place):
    few = digits("test").subset(most=4)
    monkeypatch.setenv("ANISOCERT_DATA", str(tmp_path))
    prepared.write(tmp_path / place, {"test": few}) if place != "few.npz" else np.savez(tmp_path / place, x=few.x)
    data = place if place == "imagenet" else str(tmp_path / place)
    names = {Path(file).name for file in read_matrix(write(TEXT.replace('"digits"', f'"{data}"')))[-1].files}
    assert names == ({place} if place == "few.npz" else {"data.json", "y_test.npy", "ids_test.npy"})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('of = "plain-0.001"', "", "expected of, a network, in networks with recipe denoiser or distillation"),
        ("at = []", 'of = "given.pth"', "and with no other, got 'given.pth' with 'cohen'"),
        ('of = "plain-0.001"', 'of = "behind-0.5"', r"those above it \(plain-0.001\) or a file of weights"),
        ('of = "given.pth"', 'of = "stranger:go"', "or a file of weights, got 'stranger:go', which is not in /"),
        ("sigma = [0.25]", "sigma = [0.25, 0.5]", "'certify alone-0.5 ours' twice"),
        ('only = ["fixed"]', "methods.ours = true", "expected methods.ours in networks as a table, got True"),
    ],
)
def test_mistakes_about_other_networks_are_named(others, write, old, new, said):
    with pytest.raises(ArgumentError, match=said):
        read_matrix(write(OTHERS.replace(old, new)))


def test_the_papers_experiment_is_what_its_page_says():
    stages = {stage.name: " ".join(stage.command) for stage in read_matrix(CIFAR10)}
    for sigma in ("0.12", "0.25", "0.5", "1"):
        for recipe, settings in SETTINGS.items():
            said = stages[f"train {recipe}-{sigma}"]
            assert [part for part in said.split() if "=" in part] == settings
    certified = {name: said for name, said in stages.items() if name.startswith("certify")}
    assert {" --skip 20 --max 500 " in said for name, said in certified.items() if not name.endswith("-many")} == {True}
    assert {"remember strong-0.25 ours-ball", "remember strong-0.5 ours-ball"} <= set(stages)
