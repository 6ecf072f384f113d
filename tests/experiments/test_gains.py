import pytest

from anisocert.evaluate import compare
from gains import duel_table, gain_table, largest_table, memory_gain_table

MANY = 50


@pytest.fixture
def group(run, columns):
    """Sizes at two levels: isotropic twice fixed, ours and published around it; ours loses half in the usual memory."""

    def made(fixed, isotropic, ours, published, left=0.5, published_left=1.0, start=None, **description):
        runs = []
        for sigma in (0.25, 0.5):
            for name, size, keep in (
                ("fixed", fixed, None), ("isotropic", isotropic, 1.0), ("ours", ours, left),
                ("published", published, published_left), ("isotropic, published", start, 1.0),
            ):  # fmt: skip
                if size is None:
                    continue
                radii = [sigma * (1 + i / MANY) * size for i in range(MANY)]
                memory = None if keep is None else [keep * r for r in radii]
                method = "anisotropic" if name in ("ours", "published") else name.partition(",")[0]
                said = {"paper": name.endswith("published"), "data": "cifar10", "recipe": "cohen"} | description
                runs.append(run(columns(method, radii, sigma, memory), f"{name}{sigma}", **said))
        (comparison,) = compare(runs)
        return comparison

    return made


def lines(table, first=3):
    return {tuple(c.value for c in row[:first]): [c.value for c in row[first:]] for row in table.rows}


def test_gains_are_ratios_of_means(group):
    told = lines(gain_table([group(1, 2, 3, 2.5, start=1.25)]))
    for level in ("σ 0.25", "σ 0.5", "oracle"):
        assert told["cohen", level, f"{MANY} inputs"] == ["1.250", "2.000", "2.000", "1.500"] * 2
    assert told["cohen", "oracle", "paper"] == ["1.547", "1.297", None, None, "1.547", "1.586", None, None]


def test_a_sign_that_is_not_the_papers_is_marked(group):
    told = lines(gain_table([group(1, 0.5, 0.5, None)]))
    assert told["cohen", "σ 0.25", f"{MANY} inputs"] == [None, None, "0.500 ✗", "1.000 ≈"] * 2


def test_a_loss_that_the_choice_of_inputs_explains_is_marked_as_such(run, columns):
    one = [1.0] * MANY
    other = [1.0] * (MANY - 1) + [0.9]
    runs = [run(columns("fixed", one), "a"), run(columns("isotropic", other), "b")]
    cells = gain_table(compare(runs)).rows[0]
    assert cells[5].value == "0.998 ✗≈"


def test_ours_against_the_published_algorithm_after_each_memory(group):
    told = lines(memory_gain_table([group(1, 2, 3, 2)]), 2)
    assert told["cohen", "σ 0.25"] == [
        MANY, "1.500", "0.750 ✗", None, "1.500", "0.750 ✗", None, "+0.0 ≈", "+0.0 ≈", None,
    ]  # fmt: skip


def test_lost_accuracy_is_told_in_points(group):
    told = lines(memory_gain_table([group(1, 2, 3, None, left=0.0)]), 2)
    assert told["cohen", "σ 0.5"][-2] == "-100.0 ✗"  # a region without size is an abstention
    assert told["cohen", "σ 0.5"][1:4] == [None] * 3


def test_a_duel_is_fought_input_by_input(run, columns):
    ours = columns("anisotropic", [0.1, 0.2, 0.3, 0.4], prediction=[1, 1, 1, 2])
    theirs = columns("anisotropic", [0.2, 0.1, 0.3, 0.4]) | {"proxy_radius": [0.5, 0.9, 0.6, 0.1]}
    (comparison,) = compare([run(ours, "a"), run(theirs, "b", paper=True)])
    # larger radius: ours the second, theirs the first and the fourth, which we got wrong; the third is equal
    assert lines(duel_table([comparison]), 2)[None, "σ 0.25"] == [4, 0.25, 0.5, 0.0, 0.75, 0.5]


def test_largest_counts_near_ties_apart(group):
    told = lines(largest_table([group(1, 2, 1.99, 1.9, start=1.95)]))
    assert told["cohen", "σ 0.25", "anisotropic"] == [MANY, 0.0, 0.0, 1.0, 1.0]
    assert told["cohen", "oracle", "anisotropic, as published"] == [MANY, 0.0, 0.0, 0.0, 0.0]
    assert told["cohen", "oracle", "paper"] == [None, "83", "93", None, None]


def test_each_algorithm_is_held_against_its_own_isotropic_theta(group):
    told = lines(largest_table([group(1, 2, 2, 1.5, start=1.4)]))
    assert told["cohen", "σ 0.25", "anisotropic"][1:] == [1.0] * 4
    assert told["cohen", "σ 0.25", "anisotropic, as published"][1:] == [1.0] * 4


def test_the_papers_line_comes_once_a_recipe(group):
    table = largest_table([group(1, 2, 3, 2)])
    assert [row[2].value for row in table.rows].count("paper") == 1
    assert table.rows[-1][2].value == "paper"


def test_other_data_has_no_line_of_the_paper(group):
    one = group(1, 2, 3, 2, data="digits")
    assert all(row[2].value != "paper" for table in (gain_table([one]), largest_table([one])) for row in table.rows)


def test_nothing_to_compare(run, columns):
    alone = compare([run(columns("fixed", [0.5]))])
    assert [made(alone) for made in (gain_table, largest_table, memory_gain_table)] == [None] * 3
