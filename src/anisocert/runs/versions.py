"""Versions that a run's votes may depend on: with others, other kernels may compute, which changes last bits."""

import platform

import numpy as np
import torch

from anisocert import __version__


def versions() -> dict[str, str]:
    """Of what is installed here."""
    here = {"anisocert": __version__, "python": platform.python_version()}
    return here | {"torch": torch.__version__, "numpy": np.__version__}
