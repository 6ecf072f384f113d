"""The published numbers, against places of the paper's text and its LaTeX."""

import math
import re
from pathlib import Path

import pytest

from anisocert.evaluate import against_paper, compare, paper_source, paper_tables, published, render

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


def test_ours_beside_the_papers(run, columns):
    runs = [run(columns("fixed", [0.3, 0.6], sigma), f"runs/{sigma}", data="/data/cifar10") for sigma in (0.25, 0.5)]
    table = against_paper(compare(runs)[0])
    assert [(c.group, c.name) for c in table.columns[1:]] == [("fixed", "ours"), ("fixed", "paper")]
    values = {row[0].value: [cell.value for cell in row[1:]] for row in table.rows}
    assert values["0.000"] == [1.0, "86"]
    assert values["0.500"] == [0.5, "51"]
    assert values["ACR"] == [pytest.approx(0.45), "0.722"]
    assert "oracle over σ 0.25, 0.5" in table.caption
    assert "Table 1" in table.caption


def test_the_l1_table_says_what_was_done_to_the_papers_radii(run, columns):
    one = run(columns("anisotropic", [0.3, 0.6], norm=["l1", "l1"]), data="cifar10")
    table = against_paper(compare([one])[0])
    assert "divided by √3" in table.caption
    assert [row[0].value for row in table.rows][:3] == ["0.000", "0.144", "0.288"]
    assert "0.565" in render(table, "markdown")  # 0.980 / sqrt(3) = 0.5658, rounded down
