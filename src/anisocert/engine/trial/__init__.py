"""A model on trial before any vote rests on it: are its scores such that each input has a vote of its own?

The same comparison of scores decides whether another form of the model may vote in its place.
"""

from anisocert.engine.trial.agreement import GROUPS, alike, identical, leads_kept, same_slopes, same_votes
from anisocert.engine.trial.checking import expect_shape
from anisocert.engine.trial.inputs import trial_inputs
from anisocert.engine.trial.trying import Trial

__all__ = [
    "GROUPS", "Trial", "alike", "expect_shape", "identical", "leads_kept", "same_slopes", "same_votes", "trial_inputs",
]  # fmt: skip
