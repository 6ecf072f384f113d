import re

import pytest
from scipy.stats import binomtest

from anisocert.evaluate import ADMITTED, EVERYONE, compare
from levels import OURS, average_table, headline_table, level_table, many_table, within


@pytest.fixture
def group(run, columns):
    def made(name, method, memory=None, kept="volume", **said):
        rows = columns(method, [0.2, 0.4, 0.6], 1.0, memory)
        return run(rows, name, data="cifar10", recipe="smoothadv", memory={"prefer": kept}, **said)

    return compare(
        [
            made("f", "fixed"), made("m", "average"), made("i", "isotropic", [0.2, 0.4, 0.1]),
            made("o", "anisotropic", [0.2, 0.0, 0.6]), made("b", "anisotropic", [0.2, 0.3, 0.6], "ball"),
        ]
    )  # fmt: skip


def test_a_line_tells_what_each_memory_left(group):
    table = level_table(group[0])
    found = {row[1].value: [cell.value for cell in row[2:]] for row in table.rows}
    assert list(found) == ["fixed", "average", "isotropic", "anisotropic"]
    at = [1.0, 2 / 3, 1 / 3, 0.0, 0.0, 0.0, 0.0]
    before = [*at, 0.4, 0.8]
    assert found["anisotropic"] == [*before, 2 / 3, 0.2, 0.4, 1.0, 0.3, 0.6]
    assert found["fixed"] == before + [1.0, 0.4, 0.8] * 2
    assert found["isotropic"][-3:] == [None] * 3
    assert "smoothadv" in table.title


def test_accuracies_of_few_inputs_are_told_with_how_far_they_may_be_off():
    for inputs in (100, 500, 2000):
        told = float(re.search(r"at most ([\d.]+) points", within(inputs))[1])
        ends = [proportion_ci(count, inputs) for count in range(inputs + 1)]
        off = max(abs(100 * (end - count / inputs)) for count, both in enumerate(ends) for end in both)
        assert off <= told < off + 0.1
    assert "2.2 points" in within(2000)


def proportion_ci(count, total):
    """Wilson's interval by scipy."""
    return binomtest(count, total).proportion_ci(method="wilson")


@pytest.fixture
def ten(run, columns):
    """Ten inputs, of which the memory took one from ours."""
    sizes = [0.1 * i for i in range(1, 11)]
    made = {"data": "cifar10", "recipe": "cohen", "memory": {"policy": "inherit"}}
    ours = columns("anisotropic", sizes, 0.5, [0.0, *sizes[1:]])
    return compare([run(columns("fixed", sizes, 0.5), "f", **made), run(ours, "o", **made)])[0]


def test_what_half_of_the_inputs_reach_has_an_exact_interval(ten):
    fixed, ours = headline_table(ten).rows
    assert [cell.value for cell in fixed[:3]] == ["0.5", "fixed", EVERYONE]
    assert [cell.value for cell in ours[:3]] == ["0.5", OURS, ADMITTED]
    assert [cell.value for cell in fixed[3:6]] == [1.0, 0.6, 0.1]  # at 0, sigma and twice sigma
    assert ours[3].value == 0.9
    median = fixed[6]
    assert [median.value, median.low, median.high] == pytest.approx([0.6, 0.2, 0.9])  # the second and the ninth of ten


def test_a_level_without_a_method_that_another_has_is_no_headline(run, columns):
    runs = [("fixed", 0.25), ("fixed", 0.5), ("anisotropic", 0.5)]
    told = {"data": "cifar10", "memory": {"policy": "inherit"}}
    made = [run(columns(method, [0.1], sigma, [0.1]), f"{method}-{sigma}", **told) for method, sigma in runs]
    assert [[cell.value for cell in row[:2]] for row in headline_table(compare(made)[0]).rows] == [
        ["0.5", "fixed"],
        ["0.5", OURS],
    ]
    assert len(headline_table(compare(made[:2])[0]).rows) == 2  # nobody ran ours


def test_more_inputs_have_a_table_of_the_two_that_were_run(ten):
    table = many_table(ten)
    assert [(row[1].value, row[2].value) for row in table.rows] == [("fixed", EVERYONE), (OURS, ADMITTED)]
    assert all(cell.low <= cell.value <= cell.high for row in table.rows for cell in row[3:])


def test_average_theta_stands_beside_the_papers_at_its_level(group):
    ours, paper = ([cell.value for cell in row] for row in average_table(group).rows)
    assert ours[:4] == ["smoothadv", "σ 1", 3, "here"]
    assert ours[4:8] == [1.0, 1.0, 1.0, 2 / 3]
    assert paper == [
        "smoothadv", "σ 1", None, "paper", "45", "29", "44", None, "0.565", "0.329", "0.871", None,
        "0.565", "0.379", "0.992", None,
    ]  # fmt: skip


def test_no_average_no_table(run, columns):
    assert average_table(compare([run(columns("fixed", [0.5]))])) is None
