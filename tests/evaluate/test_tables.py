import csv
import io
import math
import re

import pytest
from rich.console import Console

from anisocert.errors import ArgumentError
from anisocert.evaluate import (
    EVERYONE,
    NOBODY,
    OR_ABSTAINS,
    OWN,
    Cell,
    Column,
    Table,
    claims,
    compare,
    down,
    memory_effect,
    percent,
    probability,
    render,
    runtime,
    short_down,
    summary,
    supersets,
    tables_of,
    terminal,
    times,
)
from anisocert.evaluate.tables import round_steps, table_radii

FORMATS = ("terminal", "markdown", "latex", "csv")
SMALL = Table(
    "A & B",
    (Column("run_1"), *(Column(r, "share", "accuracy (%)") for r in ("0.5", "1")), Column("ACR", "length")),
    ((Cell("a|b_{x}"), Cell(0.29, 0.1, 0.4001), Cell(None), Cell(0.12399)),),
    "50 % of $x$",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"), [(0.9999, "0.999"), (0.001, "0.001"), (0.0009, "0.000"), (3.0, "3.000"), (0.29, "0.289")]
)
def test_lengths_never_grow(value, text):
    # the double nearest to 0.29 lies below it, so that 0.290 would be too long
    assert down(value) == text
    assert float(text) <= value


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.1, 3, "0.1"), (0.28868, 3, "0.288"), (0.017677, 2, "0.017"), (0.0, 3, "0"), (2.5, 3, "2.5"), (300.0, 3, "300"),
     (0.00099999, 2, "0.00099"), (12345.0, 3, "12300")],
)  # fmt: skip
def test_short_lengths_never_grow(value, digits, text):
    assert short_down(value, digits) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.0089, "1.008"), (0.9999, "0.999"), (0.375 / 0.3, "1.250"), (1.2, "1.200"), (1e29, f"{10**29}.000"),
     (math.inf, "inf")],
)  # fmt: skip
def test_gains_never_grow(ratio, text):
    assert times(ratio) == text


@pytest.mark.parametrize(
    ("alpha", "shown"), [(0.001, "0.001"), (0.001 / 7, "0.000143"), (2.4999999e-5, "2.5e-05"), (0.0010001, "0.00101")]
)
def test_probabilities_are_never_shown_smaller_than_they_are(alpha, shown):
    assert probability(alpha) == shown
    assert float(shown) >= alpha
    assert probability(1.2345642, 6) == "1.23457"


def test_radii_over_columns_never_grow(run, columns):
    one = run(columns("fixed", [0.3], norm=["l1"]), data="cifar10")  # radii of the paper over the root of 3
    table = summary(compare([one])[0])
    assert [column.name for column in table.columns[4:8]] == ["0", "0.144", "0.288", "0.433"]


@pytest.mark.parametrize(("share", "text"), [(0.29, "29.0"), (0.9999, "99.9"), (1.0, "100.0"), (1 / 3, "33.3")])
def test_shares_are_not_rounded_up(share, text):
    assert percent(share) == text


def test_upper_ends_are_rounded_up():
    assert percent(0.4001, upper=True) == "40.1"
    assert (percent(2 / 3), percent(2 / 3, digits=0), percent(0.99999, digits=2)) == ("66.6", "66", "99.99")
    assert (percent(1 / 3, True, digits=0), percent(0.29, digits=0), percent(1.0, digits=0)) == ("34", "29", "100")
    assert "[10.0–40.1]" in render(SMALL, "markdown")


def test_abstentions_never_shrink(run, columns):
    """One of 3,000 inputs has no answer: that is not 0.0 %."""
    abstains = [-1] + [0] * 2999
    sizes = [0.0] + [0.5] * 2999
    table = summary(compare([run(columns("fixed", sizes, prediction=abstains))])[0])
    (line,) = csv.DictReader(io.StringIO(render(table, "csv")))
    assert line["abstains (%)"] == "0.033333334"
    assert "| 0.1 [0.0–0.2] |" in render(table, "markdown")


def test_csv_shares_are_not_rounded_up():
    table = Table("", (Column("a", "share"),), ((Cell(2 / 3, 1 / 6, 5 / 6),),))
    assert render(table, "csv").splitlines()[1] == "66.666666666,16.666666666,83.333333334"


def test_lengths_of_any_size_are_shown():
    """More digits than a Decimal has by default: imported logs may hold them."""
    far = Table("far", (Column("radius", "length"),), ((Cell(1e29, 1e28, 1e30),),))
    assert f"{int(1e29)}.000 [{int(1e28)}.000–{int(1e30)}.000]" in render(far, "markdown")
    assert float(render(far, "csv").splitlines()[-1].split(",")[0]) == 1e29


def test_markdown():
    lines = render(SMALL, "markdown").splitlines()
    assert lines[0] == "**A & B**"
    assert lines[2] == "| run_1 | accuracy (%) 0.5 | 1 | ACR |"
    assert lines[3] == "| --- | ---: | ---: | ---: |"
    assert lines[4] == r"| a\|b_{x} | 29.0 [10.0–40.1] | – | 0.123 |"


def test_latex():
    text = render(SMALL, "latex")
    assert r"\caption{A \& B. 50 \% of \$x\$}" in text
    assert r" & \multicolumn{2}{c}{accuracy (\%)} &  \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"a|b\_\{x\} & 29.0 {\scriptsize [10.0--40.1]} & -- & 0.123 \\" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_csv():
    header, line = csv.reader(io.StringIO(render(SMALL, "csv")))
    assert header == [
        "run_1",
        "accuracy (%) 0.5",
        "accuracy (%) 0.5 low",
        "accuracy (%) 0.5 high",
        "accuracy (%) 1",
        "ACR",
    ]
    assert line == ["a|b_{x}", "29.0", "10.0", "40.01", "", "0.12399"]


def test_csv_lengths_never_grow_and_texts_are_no_formulas():
    table = Table("", (Column("a"), Column("b", "length")), ((Cell("=1+1"), Cell(0.12345678999)),))
    assert render(table, "csv").splitlines()[1] == "'=1+1,0.123456789"


def test_terminal():
    text = render(SMALL, "terminal")
    assert re.search(r"accuracy \(%\) +accuracy \(%\) *\n.*run_1 +0\.5 +1 +ACR", text)
    assert re.search(r"a\|b_\{x\} +29\.0 +– +0\.123", text)


def test_a_narrow_terminal_shows_fewer_radii(four):
    table = summary(compare(four)[0], [i / 10 for i in range(7)])
    wide, narrow = (terminal(table, width) for width in (200, 80))
    assert [str(c.header) for c in wide.columns if str(c.header)[:1] == "0"] == [f"{i / 10:g}" for i in range(7)]
    assert [str(c.header) for c in narrow.columns if str(c.header)[:1] == "0"] == ["0", "0.2", "0.4", "0.6"]
    console = Console(file=io.StringIO(), width=80)
    console.print(narrow)
    assert "…" not in console.file.getvalue()


def test_markup_in_names_is_not_obeyed():
    table = Table("[bold]t[/bold]", (Column("[red]-and-wide"),), ((Cell("[/]"),),))
    assert all(word in render(table, "terminal") for word in ("[bold]t[/bold]", "[red]-and-wide", "[/]"))


def test_sizes_that_no_run_knows_have_no_columns(run, columns):
    (comparison,) = compare([run(columns("anisotropic", [0.5]) | {"proxy_radius": [None]}, "imported", data="mine")])
    assert table_radii(comparison, "proxy_radius") == (0.0,)


def test_unknown_format():
    with pytest.raises(ArgumentError, match="'word'"):
        render(SMALL, "word")


@pytest.fixture
def four(run, columns):
    return [
        run(columns("fixed", [0.1, 0.2, 0.3, 0.4]), "f"),
        run(columns("isotropic", [0.2, 0.2, 0.3, 0.6], memory=[0.2, 0.2, 0.1, 0.0]), "i"),
        run(columns("anisotropic", [0.3, 0.1, 0.4, 0.6], memory=[0.3, 0.1, 0.2, 0.6]), "a"),
    ]


def cells(table, *where):
    """Rows whose first cells are these, as values."""
    return [[c.value for c in row] for row in table.rows if tuple(c.value for c in row[: len(where)]) == where]


def test_summary_by_hand(four):
    table = summary(compare(four)[0], [0.0, 0.25])
    (line,) = cells(table, "anisotropic", "0.25", "after")
    assert line[4:] == [1.0, 0.5, 0.3, pytest.approx(0.3), pytest.approx(0.6), 0.0]
    (line,) = cells(table, "isotropic", "0.25", "after")
    assert line[4:6] == [0.75, 0.0]
    assert line[-1] == 0.25
    assert [c.value for c in table.rows[0]][:4] == ["fixed", "0.25", "not needed", EVERYONE]
    for row in table.rows:
        for cell in row[4:]:
            assert cell.low is None or cell.low <= cell.value <= cell.high


def test_summary_at_proxy_radii(four):
    table = summary(compare(four)[0], [0.25], "proxy_radius")
    assert cells(table, "fixed")[0][4] == 0.75  # proxy radii 0.2, 0.4, 0.6, 0.8
    assert cells(table, "isotropic", "0.25", "after")[0][4] == 0.5
    assert "proxy radius" in table.columns[4].group


def test_numbers_before_the_memory_are_called_so(run, columns):
    table = summary(compare([run(columns("anisotropic", [0.5]))])[0])
    assert "not a claim that a system is robust" in table.caption
    assert [row[3].value for row in table.rows] == [OWN]
    assert table.marks == ("before",)


def test_imported_logs_are_called_so(run, columns):
    one, other = run(columns("fixed", [0.5]), "a", imported={"file": "x"}), run(columns("fixed", [0.5]), "a")
    assert "imported logs" in summary(compare([one])[0]).caption
    assert "imported logs" not in summary(compare([other])[0]).caption


def test_best_over_sigma_is_labelled(run, columns):
    runs = [
        run(columns("fixed", [0.2, 0.2, 0.0], 0.25, prediction=[1, 1, 2]), "a"),
        run(columns("fixed", [0.8, 0.0, 0.8], 1.0, prediction=[1, 2, 1]), "b"),
    ]
    table = summary(compare(runs)[0], [0.0, 0.5])
    assert cells(table, "fixed, envelope")[0][1:6] == [
        "best of 2", "not needed", f"{EVERYONE}, one radius at a time", 2 / 3, 2 / 3,
    ]  # fmt: skip
    assert cells(table, "fixed, oracle")[0][1:6] == ["best of 2", "not needed", NOBODY, 1.0, 2 / 3]
    assert cells(table, "fixed, oracle")[0][7] == pytest.approx((0.8 + 0.2 + 0.8) / 3)
    assert "chosen with its true label" in table.caption


def test_claims(four):
    table = claims(compare(four)[0], [0.0])
    assert [(row[0].value, row[2].value, row[-1].value) for row in table.rows] == [
        ("fixed", EVERYONE, 0.75), ("isotropic", OWN, 0.75), ("anisotropic", OWN, 0.75),
    ]  # fmt: skip


def test_supersets_by_hand(four):
    table = supersets(compare(four)[0])
    before = {row[0].value: row[4].value for row in table.rows if row[2].value == "before"}
    after = {row[0].value: row[4].value for row in table.rows if row[2].value == "after"}
    assert before == {"fixed": 0.25, "isotropic": 0.5, "anisotropic": 0.75}
    assert after == {"fixed": 0.5, "isotropic": 0.25, "anisotropic": 0.5}
    assert [row[3].value for row in table.rows] == [EVERYONE, OWN, OWN, EVERYONE, OR_ABSTAINS, OR_ABSTAINS]


def test_supersets_of_unequal_plans_say_so(run, columns):
    runs = [
        run(columns("fixed", [0.1, 0.2]), "f", n=20_000, alpha=0.001),
        run(columns("isotropic", [0.2, 0.2]), "i", n=10_000, alpha=0.001, bound="one-vs-rest"),
    ]
    ends = "Votes per input differ (10,000 and 20,000): so do the largest radii that each can certify."
    assert supersets(compare(runs)[0]).caption.endswith(f"promises. {ends}")
    runs[0] = run(columns("fixed", [0.1, 0.2]), "other", n=10_000, alpha=0.01, bound="two-class")
    starts = "Alpha differs (0.001 and 0.01), the bound differs (one-vs-rest and two-class): so do"
    assert f"promises. {starts}" in supersets(compare(runs)[0]).caption
    assert supersets(compare([*runs[1:], *runs[1:]])[0]).caption.endswith("promises.")


@pytest.mark.parametrize(("name", "value"), [("n", "many"), ("n", [5]), ("alpha", {})])
def test_plans_that_are_no_numbers_are_refused(run, columns, name, value):
    """Anybody may have written anything into run.json."""
    runs = [run(columns("fixed", [0.1]), "f", **{name: 1}), run(columns("isotropic", [0.2]), "i", **{name: value})]
    with pytest.raises(ArgumentError, match=f"expected {name} as a finite number in i, got"):
        supersets(compare(runs)[0])


def test_bounds_of_any_kind_are_told_apart(run, columns):
    runs = [run(columns("fixed", [0.1]), "f", bound="mine"), run(columns("isotropic", [0.2]), "i", bound=[1])]
    assert "The bound differs ([1] and mine): so do" in supersets(compare(runs)[0]).caption


def test_superset_over_sigmas(run, columns):
    runs = [
        run(columns(method, radius, sigma), f"{method}{sigma}")
        for method, sigma, radius in (
            ("fixed", 0.25, [0.2, 0.0]), ("fixed", 1.0, [0.0, 0.7]), ("anisotropic", 0.25, [0.3, 0.0]),
            ("anisotropic", 1.0, [0.0, 0.5]),
        )
    ]  # fmt: skip
    table = supersets(compare(runs)[0])
    assert {r[0].value: r[4].value for r in table.rows if r[1].value == "oracle"} == {"fixed": 0.5, "anisotropic": 0.5}
    assert {r[0].value: r[4].value for r in table.rows if r[1].value == "1"} == {"fixed": 1.0, "anisotropic": 0.0}
    assert {r[3].value for r in table.rows if r[1].value == "oracle"} == {NOBODY}


def test_memory_effect_by_hand(four):
    table = memory_effect(compare(four)[0])
    assert [c.value for c in table.rows[0]] == [
        "isotropic", "0.25", 2, 1, 0, 1, pytest.approx(1.3 / 4), OWN, pytest.approx(0.5 / 4), OR_ABSTAINS,
    ]  # fmt: skip


def test_what_is_counted_is_of_the_shared_inputs(four, run, columns):
    """Beside a run of inputs 0 and 1."""
    short = run(columns("fixed", [0.1, 0.2]), "short")
    long = run(columns("average", [0.1, 0.2, 0.3], seconds=[1.0, 3.0, 50.0], votes=[100, 300, 9000]), "long")
    group = compare([*four[1:], short, long])[0]
    assert [[c.value for c in row[2:6]] for row in memory_effect(group).rows] == [[2, 0, 0, 0], [2, 0, 0, 0]]
    (line,) = cells(runtime(group), "average")
    assert line[2:6] == [2.0, 2.0, 4.0, 200.0]


def test_runtime(run, columns):
    one = run(columns("fixed", [0.1, 0.2], seconds=[1.0, 3.0], votes=[100, 300]), device="cuda")
    assert [c.value for c in runtime(compare([one])[0]).rows[0]][2:] == [2.0, 2.0, 4.0, 200.0, "cuda"]


@pytest.mark.parametrize("style", FORMATS)
def test_a_log_that_says_little_still_has_tables(run, style):
    rows = {"idx": [0, 5], "label": [1, 2], "prediction": [1, -1], "radius": [0.4, 0.0]}
    nothing = [None, None]
    rows |= {"proxy_radius": nothing, "seconds": nothing, "votes": nothing, "alpha": nothing, "sigma": nothing}
    made = tables_of(compare([run(rows, method="anisotropic", norm="l2")])[0])
    assert len(made) == 1  # no alpha, no rivals, no memory, no times, no paper
    assert "0.4" in render(made[0], style)


@pytest.mark.parametrize("style", FORMATS)
def test_every_table_in_every_format(four, style):
    made = tables_of(compare(four)[0])
    assert len(made) == 5
    for table in made:
        assert "anisotropic" in render(table, style)


@pytest.mark.parametrize(
    ("top", "last"), [(0.8, 0.6), (0.97, 1.2), (1.5, 1.5), (3.1, 3.0), (0.013, 0.012), (250.0, 300.0)]
)
def test_radii_of_a_table_are_round(top, last):
    steps = round_steps(top)
    assert (len(steps), steps[0]) == (7, 0)
    assert steps[-1] == pytest.approx(last)


def test_radii_where_nothing_is_certified():
    assert round_steps(0.0) == (0.0,)
