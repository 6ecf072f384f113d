"""Prints the precision that is not the default of this machine, for a second run of the tests that leave it open."""

import torch

from anisocert.engine.numerics import native_precision

print({"float32": "bfloat16", "bfloat16": "float32"}[native_precision(torch.device("cpu"))])
