"""Whoever sees a certified accuracy sees whom it protects, in every table and every format."""

import pytest

from anisocert.evaluate import ADMITTED, EVERYONE, OR_ABSTAINS, OWN, compare, render, tables_of
from anisocert.evaluate.protection import AT_EACH, MEANING, promised
from anisocert.evaluate.render import FORMATS
from anisocert.memory import POLICIES


@pytest.fixture
def tables(run, columns):
    """Every kind of table there is: the paper's data, one noise for all, and noise of its own with and without."""
    runs = [
        run(columns(method, [0.1, 0.3], sigma, memory), f"{method}-{sigma}-{memory}", data="cifar10",
            memory={"policy": "inherit"})
        for sigma in (0.25, 0.5)
        for method, memory in (("fixed", None), ("isotropic", None), ("anisotropic", [0.1, 0.2]))
    ]  # fmt: skip
    return {table.title: table for table in tables_of(compare(runs)[0])}


@pytest.mark.parametrize("style", FORMATS)
def test_every_table_of_sizes_says_whom_they_protect(tables, style):
    assert len(tables) == 6
    for title, table in tables.items():
        text = " ".join(render(table, style).split())
        said = {phrase for phrase in MEANING if phrase in text}
        if title == "What it cost":
            continue
        if style == "terminal":  # where a phrase is a column of several lines
            said |= {phrase for phrase in MEANING if any(cell.value == phrase for row in table.rows for cell in row)}
        if title == "What the memory did":
            assert said == {OWN, ADMITTED}
        elif title.startswith("What may be claimed"):
            assert said == {EVERYONE, OWN}
        else:
            assert said >= {EVERYONE, OWN, ADMITTED}


def test_a_line_of_input_dependent_noise_says_it_itself(tables):
    """In a table with a column for it, no line leaves it open."""
    for table in tables.values():
        for place, column in enumerate(table.columns):
            if column.name == "whom it protects":
                assert {str(row[place].value).removesuffix(AT_EACH) for row in table.rows} <= set(MEANING)


def test_what_a_memory_keeps_depends_on_its_policy():
    assert {name: promised(policy) for name, policy in POLICIES.items()} == {
        "inherit": ADMITTED, "abstain": OR_ABSTAINS, "worst-case": OR_ABSTAINS,
    }  # fmt: skip
    assert promised(None) == OR_ABSTAINS
