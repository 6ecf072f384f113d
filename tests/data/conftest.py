from pathlib import Path

import pytest

from anisocert.data import cache


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("IMAGENET_DIR", raising=False)
    return tmp_path / "cache"
