"""The published numbers, against places of the paper's text and its LaTeX."""

import math
import re
from pathlib import Path

import pytest

from anisocert.evaluate import EVERYONE, NOBODY, against_paper, compare, paper_source, paper_tables, published, render

TEX = Path(__file__).parents[3] / "shared" / "paper" / "ancer.tex"


def test_table_1_by_its_text():
    cifar, imagenet = published("cifar10", "l2"), published("imagenet", "l2", "smoothadv")
    at_half = cifar.radii.index(0.5)
    assert cifar.rows["anisotropic"].accuracy[at_half] == 0.77  # "brings certified accuracy to 77% (from 66%)"
    assert published("cifar10", "l2", "macer").rows["isotropic"].accuracy[at_half] == 0.66
    assert imagenet.rows["anisotropic"].acr_proxy == 1.965
    assert (cifar.network, imagenet.network) == ("ResNet18", "ResNet50")


def test_l1_is_in_true_units():
    table = published("cifar10", "l1")
    assert table.radii[4] == pytest.approx(1 / math.sqrt(3))
    assert table.rows["anisotropic"].acr == pytest.approx(0.980 / math.sqrt(3))
    assert table.rows["fixed"].accuracy[4] == 0.46


@pytest.mark.parametrize("table", paper_tables(), ids=lambda t: f"{t.data}-{t.norm}-{t.recipe}-{t.rule}")
def test_tables_are_whole(table):
    for row in table.rows.values():
        assert len(row.accuracy) == len(table.radii) == 7
        assert list(row.accuracy) == sorted(row.accuracy, reverse=True)
        assert row.acr_proxy >= row.acr > 0


def test_all_recipes_are_there():
    found = {(t.data, t.norm, t.recipe) for t in paper_tables() if t.rule == "oracle"}
    l2 = {("cifar10", "l2", r) for r in ("cohen", "smoothadv", "macer")}
    l2 |= {("imagenet", "l2", r) for r in ("cohen", "smoothadv")}
    assert found == l2 | {("cifar10", "l1", "stability"), ("imagenet", "l1", "stability")}
    assert "openreview.net" in paper_source()


def test_there_is_none_for_digits():
    assert published("digits", "l2") is None


@pytest.mark.skipif(not TEX.is_file(), reason="the paper's source is not on this machine")
def test_every_row_is_in_the_paper():
    lines = [re.sub(r"\\textbf\{([^}]*)\}|\s", r"\1", line) for line in TEX.read_text().splitlines()]
    for table in paper_tables():
        unit = math.sqrt(3) if table.norm == "l1" else 1
        for row in table.rows.values():
            numbers = [f"{100 * a:.0f}" for a in row.accuracy] + [
                f"{row.acr * unit:.3f}",
                f"{row.acr_proxy * unit:.3f}",
            ]
            assert any("&".join(numbers) in line for line in lines), numbers


def lines(table):
    """Cells by method, whose numbers, noise level and memory, without whom they protect."""
    return {tuple(cell.value for cell in row[:4]): [cell.value for cell in row[5:]] for row in table.rows}


def test_ours_beside_the_papers(run, columns):
    runs = [
        run(columns("fixed", radii, sigma), f"runs/{sigma}", data="/data/cifar10")
        for sigma, radii in ((0.25, [0.3, 0.2]), (0.5, [0.1, 0.6]))
    ]
    table = against_paper(compare(runs)[0])
    told = lines(table)
    assert [column.name for column in table.columns[5:]] == ["0", "0.25", "0.5", "1", "1.5", "2", "2.5", "ACR", "ACR~"]
    assert told["fixed", "paper", "oracle", "as printed"] == ["86", "71", "51", "27", "14", "6", "2", "0.722", "0.722"]
    assert told["fixed", "here", "envelope", "not needed"] == [1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, None, None]
    at_radii, means = told["fixed", "here", "oracle", "not needed"][:-2], told["fixed", "here", "oracle", "not needed"]
    assert at_radii == [1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    assert means[-2:] == [pytest.approx(0.45), pytest.approx(0.9)]
    assert "Here: σ 0.25, 0.5;" in table.caption
    assert "Table 1" in table.caption
    assert [row[4].value for row in table.rows] == [NOBODY, f"{EVERYONE}, one radius at a time", NOBODY]


def test_the_published_algorithm_and_ours_both_stand_beside_the_papers(run, columns):
    runs = [
        run(columns("anisotropic", [r, r], memory=[r, r / 2]), name, data="cifar10", paper=paper)
        for name, r, paper in (("a", 0.3, True), ("b", 0.6, False))
    ]
    told = lines(against_paper(compare(runs)[0]))
    assert [(key[0], key[1], key[3]) for key in told] == [
        ("anisotropic", "paper", "as printed"),
        ("anisotropic", "here", "before"), ("anisotropic", "here", "after"),
        ("anisotropic, as published", "here", "before"), ("anisotropic, as published", "here", "after"),
    ]  # fmt: skip
    assert told["anisotropic, as published", "here", "0.25", "after"][1:3] == [0.5, 0.0]
    assert told["anisotropic", "here", "0.25", "after"][1:3] == [1.0, 0.5]


def test_one_noise_level_stands_beside_the_papers_table_of_that_level(run, columns):
    runs = [
        run(columns(method, [0.3 * sigma], sigma), f"{method}{sigma}", data="cifar10", recipe="smoothadv")
        for method in ("fixed", "average")
        for sigma in (0.5, 1.0)
    ]
    told = lines(against_paper(compare(runs)[0], 1.0))
    assert set(told) == {
        (method, who, level, memory)
        for method in ("fixed", "average")
        for who, level, memory in (("paper", "1", "as printed"), ("here", "1", "not needed"))
    }
    assert told["average", "paper", "1", "as printed"][-2:] == ["0.329", "0.379"]
    assert told["average", "here", "1", "not needed"][1] == 1.0
    assert against_paper(compare(runs)[0], 0.5) is None


def test_the_l1_table_says_what_was_done_to_the_papers_radii(run, columns):
    one = run(columns("anisotropic", [0.3, 0.6], norm=["l1", "l1"]), data="cifar10")
    table = against_paper(compare([one])[0])
    assert "divided by √3" in table.caption
    assert [column.name for column in table.columns[5:8]] == ["0", "0.144", "0.288"]
    assert "0.565" in render(table, "markdown")  # 0.980 / sqrt(3) = 0.5658, rounded down
