"""Tables of networks made fit for noise: from rows made of committed ones, each number against those rows."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anisocert.errors import ArgumentError
from anisocert.evaluate import ADMITTED, EVERYONE, OWN, down, percent, render
from anisocert.evaluate.table import text
from anisocert.runs import read_run
from anisocert.runs.files import TABLE
from first import FILE, read_lines, written
from network_tables import FOLDERS, NAMES, aims_table, network_tables
from tables import NAMES as KNOWN
from tables import RESULTS, all_tables

SIZES = ("radius", "proxy_radius", "memory_radius", "memory_proxy_radius")


@pytest.fixture
def made(forge, tmp_path):
    """Writes a run: the first rows of a committed one, with sizes times a factor."""

    def write(folder, network, method, *, inputs=8, times=1.0, n=10_000, data="cifar10"):
        place = tmp_path / folder / network / method
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(RESULTS / "cohen-0.25" / method.partition("-")[0], place)
        rows = pq.read_table(place / TABLE)[:inputs]
        for name in set(SIZES) & set(rows.column_names):
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(times * np.array(rows[name])))
        pq.write_table(rows, place / TABLE)
        forge(place, n=n, data=data, sigma=float(network.rpartition("-")[2]))
        return {name: np.array(values) for name, values in rows.to_pydict().items()}

    return write


def lines(table):
    """Cells as texts, without intervals."""
    return [[text(cell, column) for column, cell in table.pairs(row)] for row in table.rows]


def numbers(rows, radii, prefix=""):
    right = rows[f"{prefix}prediction"] == rows["label"]
    radius, proxy = (np.where(right, rows[f"{prefix}{size}"], 0.0) for size in SIZES[:2])
    return [percent((right & (radius >= at)).mean()) for at in radii] + [down(radius.mean()), down(proxy.mean())]


def test_what_was_not_run_has_no_table(tmp_path):
    assert aims_table(tmp_path) is None
    assert all(network_tables(tmp_path, folder) == [] for folder in FOLDERS)
    assert not any(name in all_tables(tmp_path) for name in (*FOLDERS, "denoised-aims"))


def test_every_line_says_its_network_and_whom_it_protects(made, tmp_path):
    trained = made("denoised", "cohen-0.25", "ours")
    told = made("denoised", "theta-0.25", "ours", times=0.5)
    fixed = made("denoised", "theta-0.25", "fixed")
    (table,) = network_tables(tmp_path, "denoised")
    assert table.title == "cifar10, l2: 8 inputs, n = 10,000"
    at = [float(column.name) for column in table.columns if column.group]
    assert lines(table) == [
        [NAMES["theta"], "0.25", "fixed", EVERYONE, *numbers(fixed, at)],
        [NAMES["theta"], "0.25", "anisotropic", OWN, *numbers(told, at)],
        [NAMES["theta"], "0.25", "anisotropic", ADMITTED, *numbers(told, at, "memory_")],
        [NAMES["cohen"], "0.25", "anisotropic", OWN, *numbers(trained, at)],
        [NAMES["cohen"], "0.25", "anisotropic", ADMITTED, *numbers(trained, at, "memory_")],
    ]
    drawn = render(all_tables(tmp_path)["denoised"][0], "markdown")
    assert EVERYONE in drawn
    assert "–" in drawn.splitlines()[5]  # few inputs: with intervals


def test_each_n_and_each_set_of_inputs_has_a_table_of_its_own(made, tmp_path):
    made("imagenet", "adapted-0.5", "fixed", inputs=8, data="imagenet")
    made("imagenet", "adapted-0.5", "fixed-100k", inputs=4, n=100_000, data="imagenet")
    few = made("imagenet", "adapted-0.5", "isotropic", inputs=3, data="imagenet")
    titles = {table.title: table for table in network_tables(tmp_path, "imagenet")}
    assert list(titles) == [
        "imagenet, l2: 8 inputs, n = 10,000", "imagenet, l2: 3 inputs, n = 10,000",
        "imagenet, l2: 4 inputs, n = 100,000",
    ]  # fmt: skip
    shared = titles["imagenet, l2: 3 inputs, n = 10,000"]
    assert [line[2] for line in lines(shared)] == ["fixed", "isotropic", "isotropic"]
    assert lines(shared)[1][-2] == numbers(few, [])[0]
    assert "Not the paper's networks." in shared.caption


def test_aims(made, tmp_path):
    for name, times in (("cohen", 1.0), ("theta", 0.5), ("scalar", 0.4)):
        for method, inputs in (("fixed", 80), ("ours", 60)):
            rows = made("denoised", f"{name}-0.25", method, inputs=inputs, times=times)
    trained = made("denoised", "cohen-0.5", "fixed", inputs=60)
    assert trained is not None  # alone at its level: no line
    for name in ("cohen", "theta"):
        made("denoised", f"{name}-1", "fixed", inputs=60)
    found = lines(aims_table(tmp_path))
    assert [line[:4] for line in found[:2]] == [["0.25", "fixed", EVERYONE, "80"], ["0.25", "anisotropic", OWN, "60"]]
    assert [line[0] for line in found[2:]] == ["1"]
    assert found[2][6:] == ["–", "–"]  # nothing there is told the mean of theta
    right = rows["prediction"] == rows["label"]
    radius = np.where(right, rows["radius"], 0.0) / 0.4
    lost = 100 * (((0.5 * radius >= 0.5) & right).mean() - ((radius >= 0.5) & right).mean())
    assert lost < 0
    assert found[1][4].startswith("+0.0 (+0.0 to +0.0)")
    assert found[1][5].startswith(f"{lost:+.1f} (")
    assert found[1][6:] == ["1.250", "1.250"]


def test_aims_of_each_n_and_of_methods_without_a_place(made, forge, tmp_path):
    for name in ("cohen", "theta"):
        for n in (10_000, 100_000):
            made("denoised", f"{name}-0.25", f"fixed-{n}", n=n, times=0.5 if n > 10_000 and name == "theta" else 1.0)
    made("denoised", "cohen-0.25", "isotropic", n=100_000)
    made("denoised", "theta-0.25", "isotropic", n=10_000)  # beside none of as many votes
    for name in ("cohen", "theta"):
        made("denoised", f"{name}-0.5", "fixed")
        forge(tmp_path / "denoised" / f"{name}-0.5" / "fixed", method="cascade")
    found = lines(aims_table(tmp_path))
    assert [line[:2] for line in found] == [
        ["0.25", "fixed, n = 10,000"], ["0.25", "fixed, n = 100,000"], ["0.5", "cascade, n = 10,000"],
    ]  # fmt: skip
    assert found[0][5].startswith("+0.0")
    assert found[1][5].startswith("-")


def test_what_a_stranger_leaves_of_them_stands_beside(made, tmp_path):
    made("denoised", "theta-0.25", "fixed")
    own = read_run(tmp_path / "denoised" / "theta-0.25" / "fixed").model_hash
    assert len(all_tables(tmp_path)["denoised"]) == 1
    committed = [line for line in read_lines(RESULTS / FILE) if (line.sigma, line.method) == (0.25, "fixed")]
    told = [replace(line, recipe="theta", model_hash="0" * 64) for line in committed]
    (tmp_path / "denoised" / FILE).write_text(written(told))
    with pytest.raises(ArgumentError, match=r"expected runs of one network in .*denoised/theta-0\.25"):
        all_tables(tmp_path)
    (tmp_path / "denoised" / FILE).write_text(written([replace(line, model_hash=own) for line in told]))
    beside = all_tables(tmp_path)["denoised"][1]
    assert beside.title == "What is left by a stranger who comes first"
    assert {line[0] for line in lines(beside)} == {"behind a denoiser told theta, σ = 0.25"}


def test_the_tables_are_known_to_pages():
    assert {*FOLDERS, "denoised-aims"} <= set(KNOWN)
    assert all((Path(__file__).parents[2] / "experiments" / f"{folder}.toml").is_file() for folder in FOLDERS)
