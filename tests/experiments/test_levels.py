import pytest

from anisocert.evaluate import compare
from levels import average_table, level_table


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
    before = [*at, 0.4, 0.8, pytest.approx(0.4), pytest.approx(0.8)]
    volume = [2 / 3, pytest.approx(0.8 / 3), pytest.approx(1.6 / 3)]
    ball = [1.0, pytest.approx(1.1 / 3), pytest.approx(2.2 / 3)]
    assert found["anisotropic"] == before + volume + ball
    assert found["fixed"] == before + [1.0, pytest.approx(0.4), pytest.approx(0.8)] * 2
    assert found["isotropic"][-3:] == [None] * 3
    assert "smoothadv" in table.title


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
