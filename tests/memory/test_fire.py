"""Proof under fire in its short form; `python tests/memory/fire.py` is the long one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FIRE = Path(__file__).with_name("fire.py")


def test_no_promise_breaks_while_replicas_and_the_database_die(postgres):
    """Several hundred admissions by three replicas of three clients; the fixture skips where there is no PostgreSQL."""
    form = {"folder": postgres.folder, "admissions": 300, "replicas": 3, "clients": 3, "kills": 4, "restarts": 2}
    options = [word for name, value in form.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([sys.executable, FIRE, *options], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["violations"] == 0
    for norm in ("l2", "l1"):
        assert said[norm]["admissions"] == 150
        assert {"kept", "shrunk", "inherited", "abstained"} <= set(said[norm]["notes"])
        assert (said[norm]["kills"], said[norm]["restarts"]) == (2, 1)
        assert said[norm]["pairs_proven_apart"] > 50


@pytest.fixture(scope="module")
def brute_force():
    import importlib.util

    spec = importlib.util.spec_from_file_location("brute_force", FIRE.with_name("brute_force.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("norm", [1, 2])
def test_the_brute_force_sees_what_meets_and_what_does_not(brute_force, norm, exact_touch):
    """Beside the exact oracle of the geometry's own tests."""
    from anisocert.geometry import Region

    rng = np.random.default_rng(norm)
    for _ in range(150):
        a, b = rng.uniform(0.2, 2, 2), rng.uniform(0.2, 2, 2)
        c, d = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2) * 3
        touch = float(exact_touch(Region(c, a, norm), Region(d, b, norm)))
        for scale, apart in ((1 - 1e-9, True), (1 + 1e-9, False)):
            if touch > 0:
                assert brute_force.separated(c, a, d, b * touch * scale, norm) == apart
        if touch == 0:
            assert not brute_force.separated(c, a, d, b, norm)
