"""The codes of a run's rows, against each other: all are of one codebook, even where its file is not at hand."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from anisocert.optimize import Cascade, Selected
from anisocert.runs.files import Finding
from anisocert.runs.rows import Row


def check_codes(rows: Sequence[Row], thetas: Mapping[int, NDArray[np.float32]]) -> Iterator[Finding]:
    """What is wrong with them. rows: sound by themselves, each with a theta."""
    known = dict[str, NDArray[np.float32]]()
    order = max((row["codes"] for row in rows if row["method"] == Cascade.name), key=len, default="")
    for row in rows:
        where = f"example {row['idx']}"
        if row["method"] == Cascade.name and not f"{order},".startswith(f"{row['codes']},"):
            yield Finding(where, f"codes is {row['codes']!r}, in another order than {order!r} in the same run")
        if row["method"] not in (Cascade.name, Selected.name) or not row["votes"]:
            continue  # without votes theta is that of no code
        theta, before = thetas[row["idx"]], row["selector_sigma"]
        if (
            row["method"] == Cascade.name
            and before is not None
            and theta.size == 1
            and not float(theta.item()) <= before
        ):
            yield Finding(where, f"theta is {theta.item()!r}, beyond the {before!r} of a code that is asked before")
        own = row["codes"].rpartition(",")[2]
        if not np.array_equal(known.setdefault(own, theta), theta):
            yield Finding(where, f"theta is another one than that of code {own} in the same run")
