"""A run is verified by the noise that its rows name, and one from before they named it by what its gaps tell."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.runs import read_run
from anisocert.runs.files import read_description, write_description
from anisocert.verify import verify

NOISES = {
    "gaussian": ac.Gaussian(0.3),
    "uniform": ac.Uniform(0.6),
    "gaussian-mixture": ac.GaussianMixture([0.25, 0.75], [0.15, 0.6]),
}


@pytest.fixture
def make(half_space, write_run, tmp_path):
    """Saves a run of five inputs under a noise, one of which abstains."""

    def run(name: str) -> Path:
        model, smoothing, plan = half_space([1.0, 2.0]).eval(), NOISES[name], ac.Plan(n0=100, n=500)
        x = np.array([[1.0, 1.0], [-1.0, -1.0], [0.3, 0.2], [0.1, 0.1], [0.0, 0.0]], np.float32)
        found = ac.certify(model, x, num_classes=2, smoothing=smoothing, plan=plan)
        components = "0.25:0.5,0.75:2" if name == "gaussian-mixture" else None
        write_run(tmp_path / name, found, [0, 1, 0, 0, 0], sigma=0.3, n0=plan.n0, n=plan.n, components=components)
        return tmp_path / name

    return run


@pytest.mark.parametrize("name", NOISES)
def test_an_honest_run_passes(make, name):
    run = make(name)
    assert verify(run).findings == ()
    assert set(read_run(run).column("noise")) == {name}
    assert (read_run(run).column("prediction") >= 0).sum() == 4


@pytest.mark.parametrize("name", NOISES)
def test_a_run_from_before_rows_named_their_noise_passes(make, forge, name):
    run = make(name)
    pq.write_table(pq.read_table(run / "certificates.parquet").drop_columns(["noise"]), run / "certificates.parquet")
    described = read_description(forge(run))
    write_description(run, {name: value for name, value in described.items() if name not in ("noise", "components")})
    assert verify(run).findings == ()
    certified = read_run(run).column("prediction") >= 0
    assert set(read_run(run).column("noise")[certified]) == {name}


def test_votes_under_one_noise_do_not_count_under_another(make, forge):
    def change(run: Path, noise: str) -> None:
        forge(run, lambda rows: [row.update(noise=noise) for row in rows], noise=noise, components=None)

    run = make("gaussian-mixture")
    change(run, "gaussian")  # its gaps are larger: these would be too small, which is no honest run either
    assert any("gap is" in finding.what for finding in verify(run).findings)
    run = make("gaussian")
    change(run, "gaussian-mixture")
    assert any("gap is" in finding.what and "too much" in finding.what for finding in verify(run).findings)
    change(run, "uniform")
    assert {finding.what for finding in verify(run).findings} == {"norm is 'l2', that of uniform noise is l1"}
    change(run, "laplace")
    assert all("noise is 'laplace', which is not known here" in finding.what for finding in verify(run).findings)


def test_a_row_must_have_the_noise_that_its_run_says(make, forge):
    run = make("gaussian-mixture")
    forge(run, noise="gaussian", components=None)
    assert {finding.what for finding in verify(run).findings} == {
        "noise is 'gaussian-mixture', the run's is 'gaussian'"
    }


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"noise": "gaussian-mixture"}, "whose weights and sigmas must be known: certify with --components"),
        ({"components": "1:1"}, "expected noise gaussian-mixture with components, got gaussian"),
        ({"noise": "gaussian-mixture", "components": "1"}, "expected components as weight:multiple of sigma"),
        ({"noise": "gaussian-mixture", "components": "0.5:1"}, "expected weights positive with sum 1"),
    ],
)
def test_components_belong_to_a_mixture(quick, options, complaint):
    with pytest.raises(ArgumentError, match=complaint):
        replace(quick, **options)


def test_fixed_noise_is_the_same_for_every_input(half_space, write_run, tmp_path):
    """Else noise that was chosen for each input would be reported as one classifier's, certified for everyone."""
    x = np.array([[1.0, 1.0], [-1.0, -1.0]], np.float32)
    found = [
        replace(ac.certify(half_space([1.0, 2.0]).eval(), x[i : i + 1], ids=[i], num_classes=2,
                           smoothing=ac.Gaussian(sigma), plan=ac.Plan(n=500))[0], method="fixed")
        for i, sigma in enumerate((0.3, 0.4))
    ]  # fmt: skip
    write_run(tmp_path / "run", found, [0, 1], sigma=0.3, n=500)
    assert {(one.where, one.what) for one in verify(tmp_path / "run").findings} == {
        ("example 1", "theta is not the one that method fixed has for every input of the run")
    }
