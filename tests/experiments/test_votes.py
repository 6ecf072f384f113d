"""benchmarks/votes.py and optimize.py: what is printed is of what was computed."""

import sys

import numpy as np
import pytest
import torch
from torch import nn


class Rows(nn.Module):
    """Counts the rows that it is given."""

    def __init__(self):
        super().__init__()
        self.linear, self.rows = nn.Linear(3 * 8 * 8, 4), 0

    def forward(self, x):
        self.rows += len(x)
        return self.linear(x.flatten(1))


@pytest.mark.parametrize(("asked", "computed"), [(15_000, 10_000), (20_000, 20_000), (70, 70)])
def test_the_sensible_lines_say_how_many_votes_they_are(script, monkeypatch, asked, computed):
    monkeypatch.setattr(torch, "compile", lambda step, **_: step)
    model = Rows().eval().requires_grad_(False)
    run, votes = script("votes").sensible(model, torch.rand(3, 8, 8), asked)
    model.rows = 0
    assert run().sum() == model.rows == votes == computed


@pytest.mark.parametrize("fast", [False, True])
def test_operations_are_counted_as_the_network_is_written(script, fast):
    width, length = 8, 5
    layer = nn.TransformerEncoderLayer(width, 2, 16, batch_first=True).eval().requires_grad_(False)
    products = length * width * (4 * width + 2 * 16) + 2 * length * length * width  # of layers, and of attention
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(fast)
        assert script("votes").operations(layer, torch.rand(length, width)) == 2 * products
        assert torch.backends.mha.get_fastpath_enabled() == fast
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_share_is_of_the_rate_in_the_networks_own_precision(script, monkeypatch, capsys, precision):
    votes, told = script("votes"), {}
    rates = {"float32": 1e9, "bfloat16": 1e12}
    monkeypatch.setattr(votes, "matmul_rate", lambda device, kind: rates[kind])
    monkeypatch.setattr(votes, "ready", lambda: None)
    monkeypatch.setattr(votes, "tell", told.update)
    monkeypatch.setenv("ANISOCERT_PRECISION", precision)  # as a machine would choose, unasked
    command = ["votes", "small-cnn", "--side", "engine", "--n", "64", "--device", "cpu", "--no-compile", "--rows", "32"]
    monkeypatch.setattr(sys, "argv", [*command, "--repeats", "1"])
    votes.main()
    assert told["rate"] == rates[precision]
    votes.told("small-cnn", [("engine", told | {"seconds": 1e3 * told["flops"] / told["rate"]})])
    assert " 100% " in capsys.readouterr().out


def test_a_side_that_fails_ends_the_program_with_an_error(script, monkeypatch, capsys):
    votes = script("votes")
    monkeypatch.setattr(
        votes, "command", lambda name, side, *_: ("-c", f"exit({side!r} == 'engine' and {name!r} == 'a')")
    )
    monkeypatch.setattr(sys, "argv", ["votes", "a", "b", "--device", "cpu"])
    with pytest.raises(SystemExit, match="failed: -c exit"):
        votes.main()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["a", "b"]


def test_nothing_is_a_superset_of_nothing(script):
    superset = script("optimize").superset
    own = np.array([1.0, 0.995]), np.array([1.0, 3.0])
    assert superset(own, []) == "-"
    assert superset(own, [(np.array([1.0, 1.0]), np.array([2.0, 2.0]))]) == "100.0% / 50.0%"
