import dataclasses

import numpy as np
import pytest

from anisocert import Certificate, Region

FIELDS = {
    "id": 3, "prediction": 1, "gap": 0.5, "theta": np.float32(0.25), "p_a": 0.7, "p_b": 0.3, "top_votes": 80,
    "runner_up_votes": 10, "votes": 100, "bound_k": 80, "bound_n": 100, "alpha": 0.001, "num_classes": 10,
    "bound": "one-vs-rest", "stop": None, "method": "fixed", "norm": 2, "seed": 0, "model_hash": "abc", "seconds": 0.1,
    "noise": "gaussian",
}  # fmt: skip


def test_radii_are_those_of_the_region():
    certificate = Certificate(region=Region(np.zeros(2), [1.0, 4.0], 2), **FIELDS)
    assert certificate.radius == 1.0
    assert certificate.proxy_radius == pytest.approx(2.0)


def test_an_abstention_has_no_radius():
    certificate = Certificate(region=None, **(FIELDS | {"prediction": -1, "gap": 0.0}))
    assert certificate.radius == certificate.proxy_radius == 0.0


def test_frozen():
    certificate = Certificate(region=None, **FIELDS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.gap = 9.0
    assert certificate.note == certificate.reason == ""


def test_repr_is_short():
    assert len(repr(Certificate(region=Region(np.zeros(3072), 1.0, 2), **FIELDS))) < 500


def test_repr_shows_the_radius_beside_the_gap_and_never_a_larger_one():
    """The gap alone, in units of the noise, would be read as the radius, which it is larger than by a factor."""
    certificate = Certificate(region=Region(np.zeros(2), 0.1234567, 2), **FIELDS)
    assert f"radius={certificate.radius}" in repr(certificate)
    assert "0.123457" not in repr(certificate)
    assert "region=None" in repr(Certificate(region=None, **(FIELDS | {"prediction": -1, "gap": 0.0})))
