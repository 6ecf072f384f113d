"""The reproduction's tables: from a small real experiment, against the rows themselves; and the page as committed."""

import io
import json
import math
import re
import shutil
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from anisocert.errors import ArgumentError
from anisocert.evaluate import down, percent
from anisocert.evaluate.protection import MEANING
from anisocert.optimize.published import PublishedAnisotropic
from anisocert.reproduce import read_matrix
from anisocert.reproduce.publishing import publish
from anisocert.runs import read_run
from runtime import runtime_table

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "experiments" / "tables.py"
SMALL = """
data = "digits"
[train]
arch = "small-cnn"
epochs = 4
[certify]
n = 300
rows = 320
max = 5
[methods.fixed]
method = "fixed"
[methods.isotropic]
method = "isotropic"
memory = true
[methods.published-isotropic]
method = "isotropic"
paper = true
iterations = 2
[methods.published]
method = "anisotropic"
paper = true
iterations = 2
memory = true
[methods.ours]
method = "anisotropic"
memory = true
[methods.average]
method = "average"
average-of = "ours"
[methods.ours-ball]
of = "ours"
memory-prefer = "ball"
[[networks]]
recipe = "cohen"
sigma = [0.25, 0.5]
methods.fixed-many = { method = "fixed", max = 12 }
[[networks]]
name = "strong"
recipe = "consistency"
sigma = 0.5
only = ["fixed"]
[[networks]]
recipe = "stability"
norm = "l1"
sigma = 0.5
certify = { max = 3 }
"""
RUNTIME = [
    {"network": "resnet18-paper", "norm": "l2", "sigma": 0.25, "n": 100000, "method": method,
     "algorithm": algorithm, "seconds_choose": choose, "seconds_votes": votes, "images": 4, "device": "here",
     "isotropic_steps": 900}
    for algorithm, chosen, votes in (("published", 1.0, 0.5), ("sensible", 1.0, 0.2), ("ours", 0.2, 0.1))
    for method, choose in (("fixed", 0.0), ("anisotropic", chosen))
]  # fmt: skip


@pytest.fixture(scope="module")
def script():
    import tables

    return tables


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The experiment's stages one after another in this process, as `anisocert reproduce` runs them in many."""
    from anisocert.cli.app import app

    out = tmp_path_factory.mktemp("experiment")
    (out / "small.toml").write_text(SMALL)
    (out / "memories").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(out)
        ascent = replace(PublishedAnisotropic().ascent, iterations=5)  # no option says how many
        hasty = partial(PublishedAnisotropic, ascent=ascent)
        patch.setattr("anisocert.optimize.methods.PublishedAnisotropic", hasty)
        for stage in read_matrix(out / "small.toml"):
            app(list(stage.command), standalone_mode=False)
    publish(out, out / "results")
    (out / "results" / "runtime.json").write_text(json.dumps(RUNTIME))
    return out / "results"


@pytest.fixture(scope="module")
def like_cifar(results, tmp_path_factory, forge):
    """The same rows under the name of the paper's data, so that they stand beside its numbers."""
    copy = tmp_path_factory.mktemp("like") / "results"
    shutil.copytree(results, copy)
    for file in copy.glob("*/*/run.json"):
        forge(file.parent, data="cifar10")
    return copy


class Rows:
    """A run's sizes by numpy alone: 0 where the answer is wrong. prefix: memory_ for those after it."""

    def __init__(self, results, run, prefix=""):
        table = pq.read_table(results / run / "certificates.parquet").sort_by("idx")
        rows = {name: np.array(values) for name, values in table.to_pydict().items()}
        self.right = rows[f"{prefix}prediction"] == rows["label"]
        self.radius, self.proxy = (
            np.where(self.right, rows[f"{prefix}{size}"], 0.0) for size in ("radius", "proxy_radius")
        )

    def numbers(self):
        return [percent(self.right.mean()), down(self.radius.mean()), down(self.proxy.mean())]

    def typical(self):
        """Accuracy at 0, and what half of the inputs reach."""
        middle = (len(self.right) + 1) // 2
        return [percent(self.right.mean()), *(down(np.sort(size)[-middle]) for size in (self.radius, self.proxy))]


def lines(text, name):
    """Cells of a drawn table's lines."""
    block = re.search(rf"<!-- table {name} -->\n(.*?)<!-- end -->", text, re.DOTALL)[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line[:1] == "|"]
    return [row for row in rows if not set("".join(row)) <= set("-: ")]


@pytest.fixture(scope="module")
def printed(script, results):
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        patch.setattr(sys, "argv", [str(SCRIPT), "--results", str(results)])
        script.main()
    return out.getvalue()


@pytest.fixture(scope="module")
def beside(script, like_cifar):
    page = "".join(f"<!-- table {name} -->\n<!-- end -->\n" for name in script.NAMES)
    return script.written(page, script.all_tables(like_cifar))


def test_levels_are_the_rows(results, printed):
    found = {(row[0], row[1]): row for row in lines(printed, "cohen-levels")}
    for sigma in ("0.25", "0.5"):
        row = found[sigma, "anisotropic"]
        assert [row[2], *row[-8:-6]] == Rows(results, f"cohen-{sigma}/ours").typical()
        assert row[-6:-3] == Rows(results, f"cohen-{sigma}/ours", "memory_").typical()
        assert row[-3:] == Rows(results, f"cohen-{sigma}/ours-ball", "memory_").typical()
        fixed = found[sigma, "fixed"]
        assert fixed[-6:-3] == fixed[-3:] == Rows(results, f"cohen-{sigma}/fixed").typical()
        assert found[sigma, "isotropic"][-3:] == ["–"] * 3  # went through one memory only
        published = Rows(results, f"cohen-{sigma}/published")
        assert found[sigma, "anisotropic, as published"][-8:-6] == published.typical()[1:]


def test_means_come_with_what_the_memories_left_of_them(results, printed):
    found = {tuple(row[:3]): row[3:] for row in lines(printed, "means")}
    row = found["cohen", "σ 0.25", "anisotropic"]
    assert row[:2] == Rows(results, "cohen-0.25/ours").numbers()[1:]
    assert row[-4:-2] == Rows(results, "cohen-0.25/ours", "memory_").numbers()[1:]
    assert row[-2:] == Rows(results, "cohen-0.25/ours-ball", "memory_").numbers()[1:]


def test_runs_on_other_inputs_are_not_drawn_beside_the_rest(script, results, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    (copy / "cohen-0.25" / "fixed-many").rename(copy / "cohen-0.25" / "more")
    with pytest.raises(ArgumentError, match="the same inputs in all runs of cohen, got 7 that not all have"):
        script.all_tables(copy)


def test_more_inputs_stand_apart_from_the_comparison_of_all_methods(results, printed):
    rows = lines(printed, "cohen-many")[1:]
    assert [row[:2] for row in rows] == [["0.25", "fixed"], ["0.5", "fixed"]]
    assert rows[0][3].split()[0] == Rows(results, "cohen-0.25/fixed-many").typical()[0]
    assert "12 inputs" in printed.partition("<!-- table cohen-many")[2].partition("|")[0]
    assert "l2: 5 inputs" in printed.partition("<!-- table cohen-levels")[2].partition("|")[0]


def test_networks_that_are_not_the_papers_have_a_name_of_their_own(printed):
    assert "ResNet18 with a 3x3 stem, l2: 5 inputs" in printed.partition("<!-- table strong-levels")[2]
    assert [row[0] for row in lines(printed, "means")].count("ResNet18 with a 3x3 stem") == 1


def test_best_over_the_levels_stands_beside_the_paper(results, beside):
    found = {tuple(row[:4]): row[5:] for row in lines(beside, "cohen-paper")}
    both = [Rows(results, f"cohen-{sigma}/ours") for sigma in ("0.25", "0.5")]
    radii, proxies = np.array([one.radius for one in both]), np.array([one.proxy for one in both])
    right = np.array([one.right for one in both])
    at = [0, 0.25, 0.5, 1, 1.5, 2, 2.5]
    oracle = [percent(((radii >= r) & right).any(0).mean()) for r in at]
    assert found["anisotropic", "here", "oracle", "before"] == [
        *oracle, down(radii.max(0).mean()), down(proxies.max(0).mean()),
    ]  # fmt: skip
    envelope = [percent(((radii >= r) & right).mean(1).max()) for r in at]
    assert found["anisotropic", "here", "envelope", "before"] == [*envelope, "–", "–"]
    assert found["anisotropic", "paper", "oracle", "as printed"] == [
        "86", "85", "77", "53", "31", "17", "10", "1.449", "1.772",
    ]  # fmt: skip
    assert ("anisotropic, as published", "here", "oracle", "after") in found
    assert ("anisotropic, memory keeps the ball", "here", "oracle", "after") in found
    assert lines(beside, "stability-paper")[1][-2] == "0.447"  # 0.775 over the root of 3, rounded down


def test_supersets(results, beside):
    rows = {tuple(row[:3]): row[3:] for row in lines(beside, "superset")}
    fixed, isotropic, ours = (Rows(results, f"cohen-0.25/{name}") for name in ("fixed", "isotropic", "ours"))
    shares = []
    for slack in (0, 0.01):
        for size in ("radius", "proxy"):
            most = np.maximum(getattr(fixed, size), getattr(isotropic, size))
            most = np.maximum(most, getattr(ours, size))
            shares.append(percent((getattr(ours, size) >= (1 - slack) * most)[most > 0].mean()))
    assert rows["cohen", "σ 0.25", "anisotropic"] == ["5", *shares]
    assert rows["cohen", "oracle", "paper"] == ["–", "83", "93", "–", "–"]


def test_average_theta(results, beside):
    (row,) = [row for row in lines(beside, "average") if row[:2] == ["cohen", "σ 0.5"]]
    runs = [("fixed", ""), ("average", ""), ("ours", ""), ("ours", "memory_")]
    told = [Rows(results, f"cohen-0.5/{name}", prefix).numbers() for name, prefix in runs]
    assert row[4:] == [numbers[i] for i in range(3) for numbers in told]


def floored(ratio):
    return f"{math.floor(1000 * ratio + 1e-6) / 1000:.3f}"


def test_gains_and_their_signs(results, beside):
    rows = {tuple(row[:3]): row[3:] for row in lines(beside, "gains")}
    fixed, start, isotropic, published, ours = (
        Rows(results, f"cohen-0.25/{name}")
        for name in ("fixed", "published-isotropic", "isotropic", "published", "ours")
    )
    ratios = [
        getattr(one, size).mean() / getattr(other, size).mean()
        for size in ("radius", "proxy")
        for one, other in ((start, fixed), (published, start), (isotropic, fixed), (ours, isotropic))
    ]
    cells = rows["cohen", "σ 0.25", "5 inputs"]
    assert [cell.split()[0] for cell in cells] == [floored(ratio) for ratio in ratios]
    assert ["✗" in cell for cell in cells] == [ratio < 1 for ratio in ratios]
    assert rows["cohen", "oracle", "paper"][:2] == [f"{1.117 / 0.722:.3f}", f"{1.449 / 1.117:.3f}"]
    (row,) = [row for row in lines(beside, "memory-gains") if row[:2] == ["cohen", "σ 0.25"]]
    ours, published = (Rows(results, f"cohen-0.25/{name}", "memory_") for name in ("ours", "published"))
    assert row[4].split()[0] == floored(ours.proxy.mean() / published.proxy.mean())
    assert row[5] == "–"  # the published algorithm went through one memory only
    assert row[10].split()[0] == f"{100 * (ours.right.mean() - fixed.right.mean()):+.1f}"


def test_runtime(printed):
    (_, published), (_, sensible), (fixed, ours) = zip(*[iter(lines(printed, "runtime")[1:])] * 2, strict=True)
    assert published[4:11] == ["1", "0.5", "1.5", "1.00", "–", "2.7", "1.80"]
    assert sensible[4:11] == ["1", "0.2", "1.2", "1.25", "–", "2.7", "2.25"]
    assert ours[4:11] == ["0.2", "0.1", "0.3", "5.00", "–", "2.7", "9.00"]
    assert fixed[4:11] == ["0", "0.1", "0.1", "5.00", "2.00", "1.6", "16.00"]
    assert "900 isotropic steps" in printed


def test_the_published_way_is_timed_with_the_steps_of_its_regions_too():
    side = {"network": "a", "norm": "l2", "sigma": 0.5, "images": 2, "device": "d", "isotropic_steps": 900}
    told = [
        ("published", "isotropic", 9.0, 1.0),
        ("published", "anisotropic", 12.0, 1.0),
        ("ours", "anisotropic", 0.5, 0.5),
    ]
    lines = [
        side | dict(zip(("algorithm", "method", "seconds_choose", "seconds_votes"), one, strict=True)) for one in told
    ]
    assert "published would take a 5.0 times as long" in runtime_table(lines).caption
    assert "would take" not in runtime_table(lines[1:]).caption
    other = [line | {"sigma": 1.0, "seconds_votes": 2 * line["seconds_votes"]} for line in lines]
    assert "would take a (l2, 0.5) 5.0, a (l2, 1) 4.0 times as long" in runtime_table(lines + other).caption
    assert "would take a (l2, 1) 4.0 times as long" in runtime_table(lines[1:] + other).caption


def test_a_page_is_written_between_its_marks_and_stays_so(script, results, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("# A\n<!-- table macer-levels -->\nold\n<!-- end -->\nB\n<!-- table gains -->\n<!-- end -->\nC\n")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--results", str(results), "--write", str(page)])
    script.main()
    text = page.read_text("utf-8")
    assert text.startswith("# A\n<!-- table macer-levels -->\n<!-- end -->\nB\n<!-- table gains -->\n**Relative")
    assert text.endswith("<!-- end -->\nC\n")
    assert script.written(text, script.all_tables(results)) == text
    with pytest.raises(ArgumentError, match="got 'gians'"):
        script.written("<!-- table gians -->\n<!-- end -->", {})


def test_a_page_may_show_one_noise_level_of_a_table(script, results):
    tables = script.all_tables(results)
    text = script.written("<!-- table cohen-headline at 0.5 -->\nold\n<!-- end -->\n", tables)
    assert text.startswith("<!-- table cohen-headline at 0.5 -->\n**")
    head, *rows = lines(text, "cohen-headline at 0.5")
    every = lines(script.written("<!-- table cohen-headline -->\n<!-- end -->\n", tables), "cohen-headline")
    assert rows == [row for row in every[1:] if row[0] == "0.5"]
    assert head == every[0]
    assert 0 < len(rows) < len(every) - 1
    assert script.written(text, tables) == text
    with pytest.raises(ArgumentError, match=r"expected a noise level of the table .*, got '2'"):
        script.written(text.replace("at 0.5", "at 2"), tables)


def test_rows_of_two_networks_are_not_drawn_as_one(script, results, tmp_path, forge):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    folder = copy / "cohen-0.25" / "fixed-many"
    forge(folder, model_hash="other")
    for draw in (script.all_tables, lambda where: script.write_figures(where, tmp_path)):
        with pytest.raises(ArgumentError, match=r"one network in .*cohen-0\.25, got .*; fixed-many of other"):
            draw(copy)


def test_the_pictures(script, results, tmp_path):
    for _ in range(2):  # ours may be replaced
        files = script.write_figures(results, tmp_path)
    names = ("l2", "l1", "strong")  # nothing of SmoothAdv and MACER was run
    assert [file.name for file in files] == [f"reproduction-{name}.png" for name in names]
    assert all(file.read_bytes()[:4] == b"\x89PNG" for file in files)


@pytest.fixture(scope="module")
def drawn(script, tmp_path_factory):
    """(tables, pictures) of the committed rows, each of whose runs is read once: nobody changes them meanwhile."""
    import network_tables
    import one_network
    import one_system

    once = cache(read_run)
    with pytest.MonkeyPatch.context() as patch:
        for module in (script, network_tables, one_network, one_system):
            patch.setattr(module, "read_run", once)
        return script.all_tables(script.RESULTS), script.write_figures(script.RESULTS, tmp_path_factory.mktemp("drawn"))


@pytest.fixture(scope="module")
def committed(drawn):
    return drawn[0]


WITH_TABLES = [
    page
    for page in ("README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md"))))
    if "<!-- table " in (ROOT / page).read_text("utf-8")
]


@pytest.mark.parametrize("page", WITH_TABLES)
def test_pages_are_what_the_committed_rows_say(script, committed, page):
    text = (ROOT / page).read_text("utf-8")
    assert script.written(text, committed) == text


def test_the_pictures_are_what_the_committed_rows_say(drawn):
    """Pixel by pixel, as fonts come with matplotlib, whose version is pinned; but a processor may round a curve."""
    from matplotlib.image import imread

    _, files = drawn
    page, kept = (ROOT / "docs" / "reproduction.md").read_text("utf-8"), (ROOT / "docs").glob("reproduction-*.png")
    assert {file.name for file in files} == {"attacked-first.png", *(file.name for file in kept)}
    for file in files:
        assert f"]({file.name})" in page
        assert (ROOT / "docs" / file.name).stat().st_size < 150_000
        new, kept = imread(file), imread(ROOT / "docs" / file.name)
        assert new.shape == kept.shape
        assert np.mean(np.abs(new - kept).max(2) > 0.05) < 1e-4, file.name


def test_the_pages_with_tables_are_found():
    assert {"README.md", "docs/reproduction.md", "docs/how-to-choose.md", "docs/guarantees.md"} <= set(WITH_TABLES)


def test_every_table_for_a_page_says_it_but_that_of_seconds(committed):
    assert len(committed) > 20
    for name, drawn in committed.items():
        for table in drawn:
            text = " ".join(
                [
                    table.title,
                    table.caption,
                    *(c.group + c.name for c in table.columns),
                    *(str(cell.value) for row in table.rows for cell in row),
                ]
            )
            assert any(phrase in text for phrase in MEANING) == (name != "runtime"), name


def test_the_committed_rows_stay_small(script):
    """A clone brings all of them, and each run of the experiment anew adds to the history."""
    assert sum(file.stat().st_size for file in script.RESULTS.rglob("*") if file.is_file()) < 8_000_000
