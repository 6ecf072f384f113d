import pytest
import torch

from anisocert.engine import query
from anisocert.engine._rows import first_rung


@pytest.fixture(scope="module", autouse=True)
def _usual_rows():
    """How many rows a call has is decided in this room: here nobody is told otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anisocert.engine.network.first_rung", first_rung)
        yield


class Doubtful:
    """A source that cannot settle some rows at once, as a GPU's: these are wrong until they are asked for again."""

    def __init__(self, source, breaks=0):
        self.source, self.open, self.unsettled, self.kept, self.left = source, source.open, None, {}, breaks

    def noisy(self, slot, vote, place=None):
        self.left -= 1
        if self.left == 0:
            raise torch.OutOfMemoryError("out of memory")
        rows = self.source.noisy(slot, vote)
        self.unsettled = torch.from_numpy((slot >= 0) & (vote % 11 == 3))
        for i in self.unsettled.nonzero()[:, 0].tolist():
            self.kept[slot[i], vote[i]] = rows[i].clone()
            rows[i] = torch.nan
        return rows if place is None else place.copy_(rows)

    def settle(self, noisy, rows, slot, vote):
        for i in rows.tolist():
            noisy[i] = self.kept.pop((slot[i], vote[i]))


@pytest.fixture
def doubtful(monkeypatch):
    """Lets all noise come from such sources, once it is called. breaks: at which batch memory runs out, once."""
    original = query.noise_source
    return lambda breaks=0: monkeypatch.setattr(query, "noise_source", lambda *args: Doubtful(original(*args), breaks))
