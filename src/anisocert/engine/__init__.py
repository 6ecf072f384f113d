"""Counts votes of a network under noise: streams, batching, precision, compilation.

What the network itself needs has folders of its own: `identity`, `trial`, `rewriting` and `launching`.
"""

from anisocert.engine.given import Classifier
from anisocert.engine.network import Network, OnRows
from anisocert.engine.numerics import Numerics
from anisocert.engine.probe import same_behaviour
from anisocert.engine.query import Query
from anisocert.engine.stopping import Judge
from anisocert.engine.streams import Stage, Stream
from anisocert.engine.votes import OnVotes, Tally, all_votes, count_votes, top_and_runner_up

__all__ = [
    "Classifier", "Judge", "Network", "Numerics", "OnRows", "OnVotes", "Query", "Stage", "Stream", "Tally", "all_votes",
    "count_votes", "same_behaviour", "top_and_runner_up",
]  # fmt: skip
