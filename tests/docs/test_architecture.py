"""The page that walks through the rooms names all of them, each after those that it uses."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_rooms_are_listed_in_the_order_of_imports():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["containers"] == ["anisocert"])
    height = {room: -number for number, layer in enumerate(layers) for room in layer.split(" | ")}
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    listed = [room for row in rows for room in re.findall(r"`(\w+)`", row)]
    assert set(listed) == set(height)
    assert listed == sorted(listed, key=height.get)
