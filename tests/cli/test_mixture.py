"""A Gaussian mixture from the command line: its run holds the components, so that its votes can be drawn again."""

import json

import pytest

from anisocert.errors import ArgumentError
from anisocert.runs import read_run
from anisocert.runs.files import write_description
from anisocert.verify.recounting import recount


def test_a_mixtures_votes_are_drawn_again_from_its_components(cli, network_file, tmp_path):
    run, options = tmp_path / "run", ("--max", 4, "--n", 300, "--sigma", 0.3, "--method", "fixed")
    mixture = ("--noise", "gaussian-mixture", "--components", "0.25:0.5,0.75:2")
    cli("certify", network_file, "--data", "digits", *options, *mixture, "--out", run)
    assert set(read_run(run).column("noise")) == {"gaussian-mixture"}
    cli("verify", run, "--recount", 4)
    described = json.loads((run / "run.json").read_text())
    write_description(run, described | {"components": "0.25:0.5,0.75:1.9"})
    with pytest.raises(ArgumentError, match="expected a mixture's own theta"):
        list(recount(read_run(run), [0]))
