"""The service under fire in its short form; `python tests/service/fire.py` is the long one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_no_promise_breaks_while_replicas_and_the_database_die(postgres):
    """Two replicas of three clients; the fixture skips where there is no PostgreSQL."""
    for module in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(module, reason=f"needs {module}: pip install '.[serve]'")
    form = {"admissions": 100, "replicas": 2, "clients": 3, "kills": 2, "restarts": 2, "area": 0.3}
    form["folder"] = postgres.folder
    command = [sys.executable, Path(__file__).with_name("fire.py")]
    command += [word for name, value in form.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["violations"] == 0
    for norm in ("l2", "l1"):
        assert said[norm]["submissions"] >= 50
        assert {"kept", "inherited", "abstained"} <= set(said[norm]["notes"])
        assert (said[norm]["kills"], said[norm]["restarts"]) == (1, 1)
        assert said[norm]["points_asked_elsewhere"] > 5
    assert said["l2"]["pairs_proven_apart"] + said["l1"]["pairs_proven_apart"] > 0
