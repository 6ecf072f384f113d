"""The same network in forms that a device is quicker at, each the same function up to rounding.

A network is traced, and its multiplications are made fewer and put into better shapes; on a GPU in bfloat16 what is
between them is bfloat16 too. Whether a form is right, whoever asks for it decides.
"""

from anisocert.engine.rewriting.folding import fold
from anisocert.engine.rewriting.forms import first_right, gradient_forms, vote_forms
from anisocert.engine.rewriting.graph import hooked
from anisocert.engine.rewriting.lowering import Lowered
from anisocert.engine.rewriting.tracing import Graph

__all__ = ["Graph", "Lowered", "first_right", "fold", "gradient_forms", "hooked", "vote_forms"]
