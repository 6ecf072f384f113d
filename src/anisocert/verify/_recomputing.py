"""Every row of a run, recomputed from its votes, its theta and the plan."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.bounds import Plan
from anisocert.certificate import ABSTAIN, COUNTS
from anisocert.data.dataset import UNLABELLED
from anisocert.errors import AnisocertError
from anisocert.optimize import SAME_FOR_ALL
from anisocert.rounding import PORTABLE, TOLERANCE, agrees
from anisocert.runs import StoredRun
from anisocert.runs.files import TABLE, Finding, WrongFileError
from anisocert.runs.rows import OPTIONAL, SCHEMA, Row, region_of
from anisocert.smoothing import NOISES, Smoothing, claimable, impossible, level, named, usual, wrong_capture
from anisocert.verify._codes import check_codes, check_selector
from anisocert.verify.backing import check_columns

Thetas = Mapping[int, NDArray[np.float32]]

MAY_BE_MISSING = (*OPTIONAL, "reason")


def check_rows(run: StoredRun, thetas: Thetas) -> tuple[list[Finding], int]:
    """(what is wrong with a run's rows, in their order; how many of them were recomputed).

    WrongFileError where they cannot be looked at one by one.
    """
    missing = [name for name in SCHEMA.names if name not in run.table.column_names]
    if missing:
        raise WrongFileError(run.folder, TABLE, f"lacks {', '.join(missing)}")
    try:
        rows: list[Row] = run.table.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    except ValueError as error:  # the root of pyarrow's errors about values
        raise WrongFileError(run.folder, TABLE, f"has a column whose type is not a run's: {error}") from error
    try:
        plan, alphas, _ = run.plan, run.alphas, run.numerics
    except AnisocertError as error:
        fault = f"does not say which plan the votes followed, or in which numerics: {error}"
        raise WrongFileError(run.folder, "run.json", fault) from error
    shared_theta = thetas.get(rows[0]["idx"]) if rows and run.said("method") in SAME_FOR_ALL else None
    fixed: Smoothing | None = None
    if "command" in run.description:  # a run of ours, which says how to repeat it
        try:
            fixed = run.configuration.smoothing() if run.said("method") == "fixed" else None
        except AnisocertError as error:
            raise WrongFileError(run.folder, "run.json", f"is not the configuration of a run: {error}") from error
    shared_theta = shared_theta if fixed is None else fixed.theta
    findings = list[Finding]()
    if run.description.get("inputs") not in (None, len(rows)):
        findings.append(Finding(TABLE, f"has {len(rows)} rows, the run's inputs are {run.description['inputs']}"))
    findings += _check_ids(Counter(row["idx"] for row in rows), thetas)
    sound: list[Row] = []
    for row, alpha in zip(rows, alphas, strict=True):
        faults = [f"lacks {name}" for name in SCHEMA.names if name not in MAY_BE_MISSING and not _is_there(row[name])]
        faults = faults or [*_check_said(row, run, plan, alpha)]
        faults = faults or [
            *wrong_capture(row, named(row["noise"])),
            *check_selector(row, plan),
            *_check_counts(row, plan),
        ]
        findings += (Finding(f"example {row['idx']}", fault) for fault in faults)
        if not faults and row["idx"] in thetas:
            sound.append(row)
    findings += check_codes(sound, thetas)
    bounds, shape = _bounds(sound, plan), run.description.get("input_shape")
    for row in sound:
        theta = thetas[row["idx"]]
        if theta.ndim and shape is not None and list(theta.shape) != shape:  # a part of it may have a larger mean
            fault = f"theta has shape {theta.shape}, the run's inputs have {shape}"
            findings.append(Finding(f"example {row['idx']}", fault))
        if shared_theta is not None and not np.array_equal(theta, shared_theta):
            fault = f"theta is not the one that method {run.said('method')} has for every input of the run"
            findings.append(Finding(f"example {row['idx']}", fault))
        for fault in _check_claim(row, theta, *bounds[row["idx"]]):
            findings.append(Finding(f"example {row['idx']}", fault))
    return [*findings, *check_columns(run, rows)], len(sound)


def _check_ids(ids: Counter[int], thetas: Thetas) -> Iterator[Finding]:
    if ids and not thetas:  # a copy made for its table, as `reproduce --results` leaves them
        yield Finding("theta", "is missing, so no radius can be recomputed: verify the run itself")
    for number, count in ids.items():
        if count > 1:
            yield Finding(f"example {number}", f"has {count} rows")
        if thetas and number not in thetas:
            yield Finding(f"example {number}", "has no theta")
    for number in sorted(set(thetas) - set(ids)):
        yield Finding(f"example {number}", "has a theta but no row")


def _check_said(row: Row, run: StoredRun, plan: Plan, alpha: float) -> Iterator[str]:
    """What a row repeats of the run, and what it says about its answer."""
    described, expected = run.description, {"alpha": alpha, "bound": plan.bound, "stop": plan.stop}
    if "noise" in described and described["noise"] is None:
        expected["noise"] = usual(str(row["norm"])).name
    names = ("method", "norm", "noise", "seed", "num_classes")
    expected |= {name: described[name] for name in names if described.get(name) is not None}
    for name, value in expected.items():
        if row[name] != value:
            yield f"{name} is {row[name]!r}, the run's is {value!r}"
    sigma = described.get("sigma")
    if isinstance(sigma, int | float) and not abs(row["sigma"] - sigma) <= 1e-6 * abs(sigma):  # one may be a float32
        yield f"sigma is {row['sigma']!r}, the run's is {sigma!r}"
    if row["norm"] not in ("l1", "l2"):
        yield f"norm is {row['norm']!r}, neither l1 nor l2"
    elif (noise := NOISES.get(row["noise"])) is None:
        yield f"noise is {row['noise']!r}, which is not known here: import the file that defines it"
    elif row["norm"] != f"l{noise.norm}":
        yield f"norm is {row['norm']!r}, that of {noise.name} noise is l{noise.norm}"
    if not (row["num_classes"] >= 2 and ABSTAIN <= row["prediction"] < row["num_classes"]):
        yield f"prediction is {row['prediction']} of {row['num_classes']} classes"
    elif not UNLABELLED <= row["label"] < row["num_classes"]:
        yield f"label is {row['label']} of {row['num_classes']} classes"
    if row["correct"] != (row["prediction"] == row["label"] and row["prediction"] != ABSTAIN):
        yield f"correct is {row['correct']}, with prediction {row['prediction']} and label {row['label']}"


def _check_counts(row: Row, plan: Plan) -> Iterator[str]:
    """Votes that one counting can have given, up to where the plan looks."""
    if row["cap"] == 0:  # without a code no class is voted on
        if any(row[name] for name in COUNTS):
            yield f"has {row['votes']} votes, although the selector names no code"
        return
    yield from impossible(row, plan.n)
    n, votes = row["bound_n"], row["votes"]
    if plan.stop is not None and not {n, votes} <= {look.n for look in plan.looks}:
        yield f"has a bound after {n} votes and stopped after {votes}, where the plan does not look"


def _bounds(rows: list[Row], plan: Plan) -> dict[int, tuple[float, float, float]]:
    """(p_a, p_b, gap) of each example, by its id."""
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["votes"]:
            groups[row["noise"], row["num_classes"]].append(row)
    bounds: dict[int, tuple[float, float, float]] = {row["idx"]: (0.0, 1.0, 0.0) for row in rows if not row["votes"]}
    of_alpha = {
        alpha: {look.n: look.alpha for look in replace(plan, alpha=alpha).looks}
        for alpha in {level(row) for row in rows}
    }
    for (noise, num_classes), group in groups.items():
        counted = {name: np.array([row[name] for row in group]) for name in COUNTS}
        # An input may be given up between the looks, which claims nothing.
        alphas = np.array([of_alpha[level(row)].get(row["bound_n"], 0.0) for row in group])
        fresh = np.stack(claimable(named(noise), plan, counted, num_classes, alphas), 1)
        bounds |= {row["idx"]: tuple(values) for row, values in zip(group, fresh.tolist(), strict=True)}
    return bounds


def _check_claim(row: Row, theta: NDArray[np.float32], p_a: float, p_b: float, gap: float) -> Iterator[str]:
    """Bounds, gap, answer and sizes, against the recomputed ones."""
    if not bool(np.all(np.isfinite(theta)) and np.all(theta > 0)):
        yield "theta is not positive and finite"
        return
    yield from _compare(row, "p_a", p_a, "votes give")
    yield from _compare(row, "p_b", p_b, "votes give", better=-1)
    gap_faults = [*_compare(row, "gap", gap, "votes give")]
    yield from gap_faults
    if (row["prediction"] == ABSTAIN) != (gap == 0):
        yield f"prediction is {row['prediction']}, but votes give a gap of {gap!r}"
    used = gap if gap_faults else row["gap"]
    radius = proxy = 0.0
    if used > 0:
        region = region_of({**row, "gap": used}, theta, np.zeros(theta.shape))
        radius, proxy = region.radius, region.proxy_radius
    yield from _compare(row, "radius", radius, "votes and theta give", more=0.0)
    yield from _compare(row, "proxy_radius", proxy, "votes and theta give")
    wide = theta.astype(np.float64)
    for name, value in {"theta_min": wide.min(), "theta_max": wide.max()}.items():
        if row[name] != value:
            yield f"{name} is {row[name]!r}, theta's is {float(value)!r}"
    geomean = float(np.exp(np.log(wide).mean()))
    if not agrees(row["theta_geomean"], geomean, more=TOLERANCE):
        yield f"theta_geomean is {row['theta_geomean']!r}, theta's is {geomean!r}"


def _compare(row: Row, name: str, fresh: float, source: str, better: int = 1, more: float = PORTABLE) -> Iterator[str]:
    """Stored and recomputed must agree, and the stored one claim no more. better: -1 where less of it claims more."""
    if not agrees(row[name], fresh, better, more=more):
        too_much = ": it claims too much" if better * (row[name] - fresh) > 0 else ""
        yield f"{name} is {row[name]!r}, {source} {fresh!r}{too_much}"


def _is_there(value: Any) -> bool:
    return value is not None and (not isinstance(value, float) or isfinite(value))
