"""What is published of an experiment: every run's rows and description; thetas, networks and memories stay behind."""

import shutil
from pathlib import Path

from anisocert.runs.reading import TABLE, checksum, read_description, write_description


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
        write_description(copy, description | {"files": files, "left_out": "theta"})
        made.append(copy)
    return made
