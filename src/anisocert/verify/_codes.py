"""What rows of methods with a codebook say about it, against the run and each other: even where its file is missing."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.optimize import Cascade, Selected, TwoStep
from anisocert.optimize.coded import SHARE
from anisocert.runs.files import Finding
from anisocert.runs.rows import Row


def check_selector(row: Row, plan: Plan) -> Iterator[str]:
    """What a row says about its selector, against what the run says."""
    sigma = float(np.float32(row["sigma"]))
    if row["selector_alpha"] is not None and row["selector_votes"] != plan.n:
        yield f"selector_votes is {row['selector_votes']}, the plan's is {plan.n}"
    cascade = row["method"] == Cascade.name
    if cascade and row["selector_sigma"] is None and row["theta_min"] != sigma:
        yield f"theta is {row['theta_min']!r} under the first code of the cascade, the run's is {sigma!r}"
    # In a cascade it is that of a code asked before: of the third on, one of several.
    elif row["selector_sigma"] not in (None, sigma) and not (cascade and (row["codes"] or "").count(",") > 1):
        yield f"selector_sigma is {row['selector_sigma']!r}, the run's is {row['sigma']!r}"
    known = row["selector_sigma"] is not None  # else `wrong_capture` says so
    if row["method"] == TwoStep.name and known and not row["theta_max"] < row["selector_sigma"]:
        yield f"theta reaches {row['theta_max']!r}, beyond the selector's noise of {row['selector_sigma']!r}"
    if row["selector_alpha"] not in (None, SHARE * row["alpha"]):
        yield f"selector_alpha is {row['selector_alpha']!r}, its share of {row['alpha']!r} is {SHARE * row['alpha']!r}"


def check_codes(rows: Sequence[Row], thetas: Mapping[int, NDArray[np.float32]]) -> Iterator[Finding]:
    """What is wrong with the rows' codes: all are of one codebook. rows: sound by themselves, each with a theta."""
    code_thetas = dict[str, NDArray[np.float32]]()
    order = max((row["codes"] for row in rows if row["method"] == Cascade.name), key=len, default="")
    largest = _largest(rows, thetas)
    for row in rows:
        where = f"example {row['idx']}"
        if largest is not None and (sigma := row["selector_sigma"]) is not None and not sigma <= largest:
            yield Finding(where, f"selector_sigma is {sigma!r}, beyond the run's largest noise of {largest!r}")
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
        code = row["codes"].rpartition(",")[2]
        if not np.array_equal(code_thetas.setdefault(code, theta), theta):
            yield Finding(where, f"theta is another one than that of code {code} in the same run")


def _largest(rows: Sequence[Row], thetas: Mapping[int, NDArray[np.float32]]) -> float | None:
    """A cascade's largest noise, the run's own, if any row shows that codes are single numbers: all are, or none is."""
    cascade_rows = (row for row in rows if row["method"] == Cascade.name and row["votes"])
    return next((float(np.float32(row["sigma"])) for row in cascade_rows if thetas[row["idx"]].size == 1), None)
