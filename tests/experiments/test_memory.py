"""benchmarks/memory.py times lookups of which half are answered, and says what an input takes to be submitted."""

import itertools
import sys
from types import SimpleNamespace

import pytest

from anisocert.memory import Memory


@pytest.mark.parametrize("norm", ["1", "2"])
def test_half_of_the_lookups_are_answered_and_the_seconds_are_of_what_was_submitted(script, monkeypatch, capsys, norm):
    memory, answered, lookup, ticks = script("memory"), [], Memory.lookup, itertools.count()
    monkeypatch.setattr(Memory, "lookup", lambda self, x: answered.append(lookup(self, x) is not None))
    monkeypatch.setattr(memory, "opened", lambda _: "")  # which takes another process
    monkeypatch.setattr(memory, "time", SimpleNamespace(perf_counter=ticks.__next__, process_time=lambda: 0.0))
    command = ["memory", "--norms", norm, "--sizes", "40", "--timed", "20", "--side", "56", "--size", "0.3"]
    monkeypatch.setattr(sys, "argv", [*command, "--no-loop"])
    memory.main()
    assert answered == [True] * 10 + [False] * 10
    assert "filled at 20.00 ms per submission" in capsys.readouterr().out
