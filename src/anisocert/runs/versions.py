"""Whose versions a run's votes may depend on: others may select other kernels, which change last bits."""

import platform

import numpy as np
import torch

from anisocert import __version__


def versions() -> dict[str, str]:
    """Of what runs here."""
    here = {"anisocert": __version__, "python": platform.python_version()}
    return here | {"torch": torch.__version__, "numpy": np.__version__}
