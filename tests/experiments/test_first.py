"""Measurements of a stranger who comes first: from runs to the file, back, and into tables and the picture."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tables
from anisocert.errors import ArgumentError
from anisocert.evaluate import ADMITTED, EVERYONE, LEFT, OWN, Withstood, compare
from anisocert.runs.attacked import AttackedFirst
from anisocert.runs.attacked_file import rows_hash, write_attacked
from anisocert.runs.files import ATTACKED
from first import COLUMNS, Measured, measured, read_lines, written
from protection import attacked_figure, first_table, protection_table

RADII = np.array([0.0, 0.3, 0.5])


@pytest.fixture
def attacked(run, columns):
    """attacked(method, sigma, reach) -> a run by hand, whose answers hold up to `reach`."""

    def made(method, sigma, reach, memory=None):
        found = run(columns(method, [0.6, 0.5, 0.2], sigma, memory), f"{method}-{sigma}", data="cifar10",
                    recipe="cohen", memory={"policy": "inherit"})  # fmt: skip
        labels = np.ones(3, np.int64)
        answers = np.where(np.array(reach)[:, None] >= RADII, 1, 2)
        found.__dict__["attacked"] = AttackedFirst(
            RADII, np.arange(3), labels, answers, labels, labels, 10_000, 0.001, 20, 0, None, 0, 4, 60, 64,
            "m" * 64, "r",
        )  # fmt: skip
        return found

    return made


@pytest.fixture
def lines(attacked):
    runs = [attacked(*one) for one in (
        ("fixed", 0.25, [0.6, 0.6, 0.3]), ("anisotropic", 0.25, [0.6, 0.3, 0.3], [0.6, 0.5, 0.2]),
        ("fixed", 0.5, [0.6, 0.6, 0.6]), ("anisotropic", 0.5, [0.0, 0.0, 0.0], [0.6, 0.5, 0.2]),
    )]  # fmt: skip
    return [line for run in runs for line in measured(run)]


def test_the_file_gives_back_what_was_measured(lines, tmp_path):
    assert [one.line for one in lines[4:8]] == [
        Withstood(0.0, 3, 3, 3, 0, 0), Withstood(0.3, 3, 3, 2, 0, 0), Withstood(0.5, 3, 1, 2, 1, 0),
        Withstood(None, 3, 3, 3, 0, 0),
    ]  # fmt: skip
    assert {one.protects for one in lines[4:8]} == {ADMITTED}
    file = tmp_path / "attacked-first.tsv"
    file.write_text(written(lines), "utf-8")
    assert read_lines(file) == lines
    assert read_lines(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("column", "value"),
    [("inputs", "2"), ("right", "4"), ("otherwise", "9"), ("otherwise", "-1"), ("certified", "x"), ("sigma", ""),
     ("protects", "everybody"), ("radius", "far")],
)  # fmt: skip
def test_a_line_that_cannot_be_is_refused(lines, tmp_path, column, value):
    rows = [row.split("\t") for row in written(lines[:2]).splitlines()]
    rows[2][COLUMNS.index(column)] = value
    (tmp_path / "f.tsv").write_text("\n".join("\t".join(row) for row in rows))
    with pytest.raises(ArgumentError, match=r"f\.tsv, line 3: "):
        read_lines(tmp_path / "f.tsv")
    (tmp_path / "f.tsv").write_text("a\tb\n")
    with pytest.raises(ArgumentError, match=r"expected .* with the columns data, recipe"):
        read_lines(tmp_path / "f.tsv")


def test_a_run_that_nobody_attacked_has_no_lines(run, columns):
    with pytest.raises(ArgumentError, match="attack RUN --first"):
        measured(run(columns("fixed", [0.5])))


@pytest.fixture
def comparison(run, columns):
    made = {"data": "cifar10", "recipe": "cohen", "memory": {"policy": "inherit"}}
    return compare(
        [run(columns("fixed", [0.6, 0.1]), "f", **made), run(columns("anisotropic", [0.6, 0.5], memory=[0.6, 0.5]), "a",
                                                             **made)]
    )[0]  # fmt: skip


def test_without_a_measurement_there_is_no_table():
    assert protection_table([]) is None
    assert first_table([]) is None


def test_whom_each_number_protects(lines):
    theirs = [
        replace(one, method=method, line=replace(one.line, right=0))
        for method in ("anisotropic, as published", "isotropic")
        for one in lines
        if (one.method, one.sigma) == ("anisotropic", 0.25)
    ]
    table = protection_table([*lines, *theirs])
    assert table.title.endswith("3 inputs")
    assert [column.name for column in table.columns[3:6]] == [f"% {whom}" for whom in (EVERYONE, ADMITTED, LEFT)]
    values = [[cell.value for cell in row] for row in table.rows]
    third, most = pytest.approx(1 / 3), pytest.approx(2 / 3)
    assert values == [
        ["0.25", "0.5", "fixed", most, None, most, None],
        ["0.25", "0.5", "isotropic", None, most, 0.0, "1 of 2"],
        ["0.25", "0.5", "anisotropic", None, most, third, "1 of 2"],
        ["0.25", "0.5", "anisotropic, as published", None, most, 0.0, "1 of 2"],
        ["0.5", "0.5", "fixed", most, None, 1.0, None],  # the nearest to 1 that was searched
        ["0.5", "0.5", "anisotropic", None, most, 0.0, "2 of 2"],
    ]
    assert table.rows[2][5].low < 1 / 3 < table.rows[2][5].high
    assert "4 starts of 60 steps with 64 noisy copies, n = 10,000" in table.caption


def test_what_protects_nobody_is_not_in_it(lines):
    table = protection_table([replace(one, protects=OWN) if one.method == "anisotropic" else one for one in lines])
    assert {row[2].value for row in table.rows} == {"fixed"}


def test_runs_that_were_attacked_on_other_numbers_of_inputs_do_not_stand_together(lines):
    fewer = [replace(one, line=replace(one.line, inputs=2, right=1)) for one in lines if one.method == "fixed"]
    with pytest.raises(ArgumentError, match=r"attacked on as many inputs, got \[2, 3\]"):
        protection_table([one for one in lines if one.method != "fixed"] + fewer)


def test_the_long_table_and_the_picture(lines):
    values = [[cell.value for cell in row] for row in first_table(lines).rows]
    assert [row[:4] for row in values] == [
        [f"cohen, σ = {sigma}", method, whose, limit]
        for sigma in ("0.25", "0.5")
        for method, whose in (("fixed", EVERYONE), ("anisotropic", ADMITTED))
        for limit in ("0.5", "own region")
    ]
    assert values[2][4:] == [3, pytest.approx(2 / 3), pytest.approx(1 / 3), "1 of 2", 0]
    figure = attacked_figure(lines, {})
    assert [axis.get_title() for axis in figure.axes] == ["cohen, σ = 0.25", "cohen, σ = 0.5"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(names) == {f"fixed: {EVERYONE}", f"anisotropic: {ADMITTED}", f"fixed: {LEFT}", f"anisotropic: {LEFT}"}
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx([100, 200 / 3, 200 / 3])


def test_between_the_radii_of_the_attack_the_curve_is_that_of_the_rows(comparison, lines):
    """On the images that were attacked: the three of `lines`, of which each certificate ends where it does."""
    base = comparison.entries[0].before
    three = {"ids": [0, 1, 2], "labels": [1, 1, 1], "prediction": [1, 1, 1]}
    rows = replace(base, **{name: np.array(value) for name, value in three.items()},
                   radius=np.array([0.6, 0.5, 0.2]), proxy_radius=np.array([0.6, 0.5, 0.2]))  # fmt: skip
    curve = attacked_figure(lines, {lines[0].of: rows}).axes[0].lines[0]
    assert curve.get_label() == f"fixed: {EVERYONE}"
    assert curve.get_xdata() == pytest.approx([0, 0.2, 0.5, 0.6, 0.6])
    assert curve.get_ydata() == pytest.approx([100, 100, 200 / 3, 100 / 3, 0])
    with pytest.raises(ArgumentError, match=r"expected \[3, 2, 2\] inputs certified, .* got \[3, 2, 1\] in the rows"):
        attacked_figure(lines, {lines[0].of: replace(rows, radius=np.array([0.6, 0.4, 0.2]))})


def test_one_system_has_a_panel_beside_those_that_were_attacked(comparison, lines):
    one = comparison.entries[0].before
    figure = attacked_figure(lines, {}, [one, replace(one, method="cascade")])
    panel = figure.axes[-1]
    assert [axis.get_title() for axis in figure.axes][2:] == ["one system, stronger networks"]
    assert [line.get_label() for line in panel.lines] == [f"fixed, σ = 0.25: {EVERYONE}", f"cascade: {EVERYONE}"]
    assert panel.lines[0].get_ydata() == pytest.approx([100, 100, 50, 0])  # at 0, 0.1 and 0.6, and beyond


def test_more_than_three_panels_stand_in_two_rows(comparison, lines):
    four = [replace(one, sigma=one.sigma + more) for more in (0.0, 0.5) for one in lines]
    figure = attacked_figure(four, {}, [comparison.entries[0].before])
    places = [axis.get_subplotspec() for axis in figure.axes]
    assert [(place.rowspan.start, place.colspan.start) for place in places] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [bool(axis.get_ylabel()) for axis in figure.axes] == [True, False, False, True, False]


def test_the_tables_are_drawn_with_their_intervals(lines, tmp_path):
    (tmp_path / "attacked-first.tsv").write_text(written(lines), "utf-8")
    found = tables.all_tables(tmp_path)
    assert list(found) == ["protection", "attacked-first"]
    page = tables.written("<!-- table attacked-first -->\n<!-- end -->\n", found)
    assert "| 33.3 [0.8–90.6] | 1 of 2 | 0 |" in page
    assert tables.written(page, found) == page
    assert [file.name for file in tables.write_figures(tmp_path, tmp_path)] == ["attacked-first.png"]


def test_the_command_puts_the_lines_of_runs_in_place_of_their_old_ones(tmp_path, run_folder, lines):
    script, out = Path(tables.__file__).with_name("first.py"), tmp_path / "out.tsv"
    out.write_text(written(lines), "utf-8")
    command = [sys.executable, script, run_folder, "--recipe", "cohen", "--data", "cifar10", "--write", out]
    subprocess.run(command, check=True)
    calm = tmp_path / "calm"
    shutil.copytree(run_folder, calm)
    (calm / ATTACKED).unlink()
    before, command[2:3] = out.read_text("utf-8"), [calm, tmp_path / "nothing", run_folder]
    out.write_text(written(lines), "utf-8")
    both = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (both.returncode, out.read_text("utf-8")) == (1, before)
    first, second = both.stderr.splitlines()
    assert f"expected a run that was attacked first, got {calm}: anisocert attack RUN --first" in first
    assert f"got {tmp_path / 'nothing'}" in second
    kept = [one for one in lines if (one.method, one.sigma) != ("fixed", 0.25)]
    assert 0 < len(kept) < len(lines)
    assert [one for one in read_lines(out) if (one.method, one.sigma) != ("fixed", 0.25)] == kept
    first, *_ = found = [one for one in read_lines(out) if (one.method, one.sigma) == ("fixed", 0.25)]
    assert isinstance(first, Measured)
    assert {(one.data, one.recipe, one.method, one.protects) for one in found} == {
        ("cifar10", "cohen", "fixed", EVERYONE)
    }
    assert [one.line.radius for one in found] == [0.0, 0.2, None]


@pytest.fixture
def run_folder(tmp_path):
    """A run on disk, certified by hand, and what an attack on it left."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from anisocert.runs import read_run
    from anisocert.runs.files import checksum, write_description

    folder = tmp_path / "run"
    (folder / "theta").mkdir(parents=True)
    rows = {"idx": [0, 1], "label": [1, 1], "prediction": [1, 1], "radius": [0.3, 0.1], "method": ["fixed"] * 2,
            "norm": ["l2"] * 2, "sigma": [0.25] * 2}  # fmt: skip
    pq.write_table(pa.table(rows), folder / "certificates.parquet")
    files = {"certificates.parquet": checksum(folder / "certificates.parquet")}
    write_description(folder, {"model_hash": "toy", "files": files})
    label = np.ones(2, np.int64)
    found = AttackedFirst(
        np.array([0.0, 0.2]), np.arange(2), label, np.array([[1, 1], [1, 2]]), label, label, 100, 0.001, 9,
        4, 0.004, 0, 1, 1, 1, "toy", rows_hash(read_run(folder).description),
    )  # fmt: skip
    write_attacked(folder, found)
    return folder
