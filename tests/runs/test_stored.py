"""A finished run is read as it was written, or not at all."""

import pytest
import torch

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.runs import read_run, save_run


@pytest.fixture
def run(tmp_path):
    network = torch.nn.Linear(3, 2).eval()
    found = ac.certify(network, torch.rand(2, 3), num_classes=2, smoothing=ac.Gaussian(0.25), plan=ac.Plan(n=100))
    save_run(tmp_path, {"data": "digits", "norm": "l2"}, found, [0, 1], 0.25)
    return tmp_path


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("digits", "digets"), lambda text: text[:-9], lambda _: "[]"]
)
def test_an_edited_description_is_refused(run, change):
    read_run(run)
    file = run / "run.json"
    file.write_text(change(file.read_text()))
    with pytest.raises(ArgumentError, match="not what the run wrote"):
        read_run(run)
