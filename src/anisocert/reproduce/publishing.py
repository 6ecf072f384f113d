"""What is published of an experiment: every run's rows and description; thetas, networks and memories stay behind."""

import shutil
from pathlib import Path
from typing import Any

from anisocert.runs.files import TABLE, checksum, read_description, write_description


def publish(out: Path, results: Path) -> list[Path]:
    """Copy the finished runs of an experiment's folder, without their thetas; the copies."""
    made = []
    for described in sorted((out / "runs").glob("*/*/run.json")):
        run = described.parent
        copy = results / run.relative_to(out / "runs")
        copy.mkdir(parents=True, exist_ok=True)
        description = read_description(run)
        shutil.copyfile(run / TABLE, copy / TABLE)
        files = {TABLE: checksum(copy / TABLE)}
        write_description(copy, _inside(description, out.resolve()) | {"files": files, "left_out": "theta"})
        made.append(copy)
    return made


def _inside(said: Any, out: Path) -> Any:
    """A description whose paths begin in the experiment's folder, wherever that lies on this machine."""
    if isinstance(said, dict):
        return {name: _inside(value, out) for name, value in said.items()}
    return said.replace(f"{out}/", "") if isinstance(said, str) else said
