"""What is left out of a published table follows from what is kept."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anisocert.bounds import Plan
from anisocert.reproduce.publishing import FOLLOWING, kept_rows
from anisocert.runs import read_run


@pytest.mark.parametrize("stop", [None, "checkpoints", "betting"])
def test_the_bounds_follow_from_the_rows_that_are_kept(quick, do, tmp_path, stop):
    do(replace(quick, max=4, stop=stop), tmp_path / "run")
    rows, plan = read_run(tmp_path / "run").rows, Plan(n=200, stop=stop)
    table = pq.read_table(pa.BufferReader(kept_rows(tmp_path / "run")))
    assert set(rows[0]) - set(table.column_names) == set(FOLLOWING) - ({"bound_k", "bound_n"} if stop else set())
    shares = {look.n: look.alpha for look in plan.looks}
    for row, kept in zip(rows, table.to_pylist(), strict=True):
        k, n = (kept["bound_k"], kept["bound_n"]) if stop else (kept["top_votes"], kept["votes"])
        assert plan.estimate(k, kept["runner_up_votes"], n, 10, shares[n]) == (row["p_a"], row["p_b"])
