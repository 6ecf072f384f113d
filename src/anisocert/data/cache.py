"""Where data sets are kept: the platform's cache folder, or the one the user names."""

import os
import sys
from pathlib import Path

VARIABLE = "ANISOCERT_DATA"


def root() -> Path:
    """The folder that data sets are fetched to and looked for in: $ANISOCERT_DATA, or the platform's cache folder."""
    folder = os.environ.get(VARIABLE)
    if folder:
        return Path(folder).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "anisocert" / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "anisocert" / "data"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anisocert" / "data"
