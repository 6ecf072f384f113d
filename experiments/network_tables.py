"""Networks that never saw noise, made fit for it, and larger images: tables from folders of results of their own.

A run is experiments/results/FOLDER/NETWORK-SIGMA/METHOD, as `anisocert reproduce experiments/FILE.toml --results
experiments/results/FOLDER` leaves them, for denoised.toml, tiny-imagenet.toml and imagenet.toml.
"""

from pathlib import Path

from anisocert.evaluate import Cell, Column, Comparison, Entry, Results, Table, compare, explained, short_down, times
from anisocert.evaluate.cells import accuracies, averages, noise
from anisocert.evaluate.comparison import ORDER
from anisocert.evaluate.results import SIZES
from anisocert.evaluate.table import WHOM
from anisocert.runs import StoredRun, read_run
from paired import Paired, accuracy_gain, average_gain

NAMES = {
    "plain": "plain", "scalar": "behind a denoiser told the mean of theta", "theta": "behind a denoiser told theta",
    "cohen": "trained with this noise", "adapted": "fine-tuned by distillation",
    "behind": "fine-tuned behind a denoiser told theta",
}  # fmt: skip
NETWORKS = {
    "denoised": "ResNet18 with a 3x3 stem.",
    "tiny-imagenet": "ResNet18 with a 3x3 stem, 64x64 images of 200 classes.",
    "imagenet": "EfficientNet-Lite0 at 224x224, 1,000 classes, adapted to noise with 4,500 of the validation images, "
    "without their labels; the images here are none of those, nor was anything chosen with them. Not the paper's "
    "networks.",
}  # fmt: skip
FOLDERS = tuple(NETWORKS)
RADII = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
AIM = 3.0  # points of accuracy that a denoiser may cost, against training with noise


def network_tables(results: Path, folder: str) -> list[Table]:
    """Per n: the runs that have the most inputs; and, where some have fewer, all runs on the inputs all have."""
    return [_table(comparison, folder) for comparison in _comparisons(results / folder)]


def aims_table(results: Path) -> Table | None:
    """What the denoiser costs against training with noise, and what being told theta, not its mean, is worth."""
    by_network: dict[tuple[str, float | None, str, int], Results] = {}
    for comparison in _comparisons(results / "denoised"):
        for entry in comparison.entries:  # of as many votes, those with the most inputs come first
            key = (_network(entry), entry.before.sigma, entry.before.method, int(entry.run.plan.n))
            by_network.setdefault(key, entry.before)
    several = len({n for *_, n in by_network}) > 1
    rows = []
    for name, sigma, method, n in sorted(by_network, key=lambda key: (key[1] or 0.0, _rank(key[2]), key[2:])):
        theta, scalar, trained = (by_network.get((kind, sigma, method, n)) for kind in ("theta", "scalar", "cohen"))
        if name == "theta" and theta is not None and trained is not None:
            costs = [accuracy_gain(theta, trained, radius) for radius in (0.0, 0.5)]
            worth = [None if scalar is None else average_gain(theta, scalar, size) for size in SIZES]
            votes = f", n = {n:,}" if several else ""
            head = (noise(theta), Cell(f"{method}{votes}"), Cell(theta.protects), Cell(float(costs[0].inputs)))
            rows.append((*head, *map(_points, costs), *map(_times, worth)))
    if not rows:
        return None
    columns = (
        Column("σ"), Column("method"), Column(WHOM), Column("inputs", "count"),
        *(Column(name, group="told theta − trained with noise, points at radius") for name in ("0", "0.5")),
        *(Column(name, group="told theta / told its mean,") for name in ("ACR", "ACR~")),
    )  # fmt: skip
    caption = (
        "Before any memory, one training of each network. In brackets the 95 % interval of the difference, input by "
        "input, about inputs not seen, not about other trainings; ≈: it holds 0. Where theta is one number, both "
        f"denoisers are told the same. The aim: no more than {AIM:g} points behind, and ratios above 1."
    )
    return Table("A denoiser against training with noise", columns, tuple(rows), caption)


def _comparisons(folder: Path) -> list[Comparison]:
    runs = [read_run(file.parent) for file in sorted(folder.glob("*/*/run.json"))]
    groups: list[list[StoredRun]] = []
    for n in sorted({int(run.plan.n) for run in runs}):
        same = [run for run in runs if run.plan.n == n]
        most = max(map(len, same))
        whole = [run for run in same if len(run) == most]
        groups += [whole] if len(whole) == len(same) else [whole, same]
    return [comparison for group in groups for comparison in compare(group)]


def _table(comparison: Comparison, folder: str) -> Table:
    order = sorted(comparison.entries, key=_place)
    lines = [(entry, result) for entry in order for result in entry.results]
    at = [radius for radius in RADII if radius == 0 or any(result.accuracy([radius])[0] > 0 for _, result in lines)]
    n = int(comparison.entries[0].run.plan.n)
    columns = (
        Column("network"), Column(comparison.symbol), Column("method"), Column(WHOM),
        *(Column(short_down(radius), "share", f"% certified at {comparison.norm} radius") for radius in at),
        Column("ACR", "length"), Column("ACR~", "length"),
    )  # fmt: skip
    rows = tuple(
        (Cell(NAMES.get(_network(entry), _network(entry))), noise(result), Cell(result.method), Cell(result.protects),
         *accuracies(result, at), *averages([result]))
        for entry, result in lines
    )  # fmt: skip
    note = f" {comparison.left_out:,} inputs that not all of the runs have are left out." if comparison.left_out else ""
    caption = (
        f"{NETWORKS[folder]} Intervals are of 95 % confidence about inputs not seen. "
        f"{explained(result.protects for _, result in lines)}{note}"
    )
    title = f"{comparison.data}, {comparison.norm}: {len(comparison):,} inputs, n = {n:,}"
    return Table(title, columns, rows, caption)


def _network(entry: Entry) -> str:
    """The name before the noise level, by the run's folder."""
    return entry.run.folder.parent.name.rpartition("-")[0]


def _place(entry: Entry) -> tuple[float, int, int]:
    """By noise level, then network, then method."""
    names, network, method = list(NAMES), _network(entry), entry.before.method
    return (
        entry.before.sigma or 0.0,
        names.index(network) if network in names else len(names),
        _rank(method),
    )


def _rank(method: str) -> int:
    return ORDER.index(method) if method in ORDER else len(ORDER)


def _points(pair: Paired) -> Cell:
    return Cell(f"{100 * pair.difference:+.1f} ({100 * pair.low:+.1f} to {100 * pair.high:+.1f})")


def _times(pair: Paired | None) -> Cell:
    """A ratio of means; a tie where the interval of the difference holds 0."""
    if pair is None:  # not measured
        return Cell("–")
    return Cell(f"{times(pair.ratio)}{'' if pair.sure else ' ≈'}")
