"""The behaviour of the network that a memory belongs to: a second line of defence behind its hash."""

from __future__ import annotations

from typing import Any

import numpy as np

from anisocert.errors import ArgumentError
from anisocert.memory._belonging import way_out
from anisocert.memory._ledger import Ledger


def expect(ledger: Ledger, model_hash: str, probe: Any, norm: int | None = None) -> None:
    """Keep the scores of a probe, or compare them with those that are kept. Called inside a transaction.

    norm: of the regions that are to be promised; an error if those promised so far have another.
    """
    from anisocert.engine import same_behaviour

    head, scores = ledger.head, np.ascontiguousarray(probe, "<f4")
    out = way_out(ledger.store.place)
    if head.model_hash not in (None, model_hash):
        raise ArgumentError(
            f"expected model {head.model_hash}, to which this memory belongs, got {model_hash}: {out}, "
            "or, if only precision or grid are others, ask with those that it was made with (--precision, --grid)"
        )
    if norm is not None and head.norm not in (None, norm):
        has = f"{ledger.store.place or 'this memory'} with regions of norm l{head.norm}"
        raise ArgumentError(f"expected a memory for norm l{norm}, got {has}: {out}")
    if head.probe is None or head.probe_hash != model_hash:  # of another network, to which nothing was promised
        if not ledger.store.read_only:
            changes = {"probe": scores.tobytes(), "probe_shape": scores.shape, "probe_hash": model_hash}
            ledger.append("entries", [], **changes)
        return
    kept = np.frombuffer(head.probe, "<f4").reshape(head.probe_shape or ())
    if kept.shape != scores.shape or not same_behaviour(kept, scores):
        raise ArgumentError(
            f"expected the network that this memory was made with, got one that answers differently under the same "
            f"hash, {model_hash}{'' if head.shape else ', or is asked about inputs of another shape'}: {out}"
        )
