"""The end of a run: what its parts become."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anisocert.errors import AnisocertWarning
from anisocert.runs import read_run
from anisocert.runs.rows import SCHEMA
from anisocert.work import _merging as merging
from anisocert.work._merging import _rows, _thetas
from anisocert.work.unfinished import PART_SCHEMA


def part(path, ids, gap, theta):
    """A part of inputs with these ids, all with one gap and theta; what else a row has is nothing here."""
    rows = [{"idx": i, "gap": gap, "theta": [theta]} for i in ids]
    pq.write_table(pa.Table.from_pylist(rows, PART_SCHEMA), path)
    return path


def test_row_and_theta_come_from_the_same_part(tmp_path):
    """Two machines may have done the same input, each with a theta, and so a gap, of its own."""
    first, second = part(tmp_path / "a", [0, 1], 2.0, 0.4), part(tmp_path / "b", [1, 2], 3.0, 0.5)
    for where in ({0: first, 1: first, 2: second}, {0: first, 1: second, 2: second}):
        table = _rows([0, 1, 2], where)
        assert table.schema.names == SCHEMA.names
        thetas = dict(_thetas([0, 1, 2], where, (1,)))
        pairs = {(gap, float(np.float32(thetas[i][0]))) for i, gap in enumerate(table["gap"].to_pylist())}
        assert pairs == {(2.0, float(np.float32(0.4))), (3.0, float(np.float32(0.5)))}


def test_what_a_memory_is_asked_with_is_the_whole_run(quick, do, tmp_path, monkeypatch):
    asked = []

    def ask(run, *rest):
        asked.append(run)
        return passed(run, *rest)

    passed = merging.pass_through
    monkeypatch.setattr(merging, "pass_through", ask)
    do(replace(quick, max=2, memory=str(tmp_path / "memory.sqlite")), tmp_path / "run")
    (run,) = asked
    assert run.configuration == replace(read_run(tmp_path / "run").configuration, memory=run.configuration.memory)
    assert (run.plan.n, len(run.alphas)) == (quick.n, 2)


def test_inputs_of_another_run_are_left_out(quick, do, same, tmp_path):
    """As of a part that somebody put into the folder."""
    few = replace(quick, max=2)
    do(few, tmp_path / "whole")
    do(few, tmp_path / "run", shard=(1, 2))
    other = part(tmp_path / "run" / "unfinished" / "part-000999999-x.parquet", [999999], 1.0, 0.25)
    with pytest.warns(AnisocertWarning, match="1 inputs in .* were done by another"):
        assert do(few, tmp_path / "run", shard=(2, 2)).finished
    assert not other.exists()
    assert same(tmp_path / "run", tmp_path / "whole")
