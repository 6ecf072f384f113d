import pytest

from anisocert.evaluate import compare
from claims import claim_table

MANY = 50


@pytest.fixture
def counted(run, columns):
    """counted({name: radii by sigma}) -> the table's lines by claim, of two networks."""

    def made(sizes):
        runs = []
        for name, by_sigma in sizes.items():
            for sigma, radii in by_sigma.items():
                method = "anisotropic" if name in ("ours", "published") else name
                rows = columns(method, radii, sigma, radii if method == "anisotropic" else None)
                runs.append(
                    run(rows, f"{name}{sigma}", paper=name == "published", recipe="cohen", num_classes=10, n=100_000)
                )
        table = claim_table(compare(runs))
        return {row[0].value: [cell.value for cell in row[1:]] for row in table.rows}

    return made


def test_networks_are_counted_and_the_least_is_named(counted):
    told = counted(
        {"ours": {0.25: [0.3] * MANY, 0.5: [0.6] * MANY}, "published": {0.25: [0.1] * MANY, 0.5: [0.8] * MANY}}
    )
    median = told["ours / published: median above 1"]
    assert median[:4] == ["1 of 2", "0.750 (cohen σ 0.5)"] * 2  # before a memory, and after one that keeps volume
    assert median[4:] == [None, None]  # no memory that keeps the ball
    assert told["ours − published: % at every radius, not below 0"][:2] == ["1 of 2", "-100.0 % (cohen σ 0.5)"]


def test_a_tie_is_no_gain_and_no_loss(counted):
    told = counted({"ours": {0.25: [0.3] * MANY}, "fixed": {0.25: [0.3] * MANY}, "published": {0.25: [0.3] * MANY}})
    assert told["ours / published: ACR above 1"][0] == "0 of 1"
    assert told["ours − fixed: % at every radius, not below 0"][:2] == ["1 of 1", "0.0 % (cohen σ 0.25)"]


def test_curves_are_compared_where_the_other_is_largest(counted):
    """At 0.4 half of the other's inputs are left and none of ours; its giant lies beyond what fixed noise reaches."""
    other = [0.1] * (MANY // 2) + [0.4] * (MANY // 2 - 1) + [50.0]
    told = counted({"ours": {0.25: [0.3] * MANY}, "published": {0.25: other}})
    assert told["ours − published: % at every radius, not below 0"][:2] == ["0 of 1", "-50.0 % (cohen σ 0.25)"]
    assert told["ours / published: ACR above 1"][0] == "0 of 1"
    assert told["ours / published: ACR, cut, above 1"][0] == "1 of 1"


def test_curves_are_compared_to_their_ends_and_where_a_tenth_is_left(counted):
    """Beyond 0.3, where ours ends, the other has two giants, and a tenth only in the second case."""
    for giants, least in ((2, "0.0 %"), (5, "-10.0 %")):
        told = counted({"ours": {0.25: [0.3] * MANY}, "published": {0.25: [0.3] * (MANY - giants) + [50.0] * giants}})
        whole = f"-{100 * giants / MANY:.1f} % (cohen σ 0.25)"
        assert told["ours − published: % at every radius, not below 0"][:2] == ["0 of 1", whole]
        assert (
            told["ours − published: % at every radius that a tenth reaches, not below 0"][1]
            == f"{least} (cohen σ 0.25)"
        )


def test_nothing_certified_by_the_other_is_a_gain(counted):
    told = counted({"ours": {0.25: [0.3] * MANY}, "published": {0.25: [0.0] * MANY}})
    assert told["ours / published: median above 1"][0] == "1 of 1"


def test_networks_that_certify_too_little_are_not_compared(counted):
    few = [0.3] * 4 + [0.0] * (MANY - 4)  # not a tenth, after the memory, which abstains where the size is 0
    told = counted({"ours": {0.25: few}, "published": {0.25: few}})
    assert told["ours − published: % at every radius, not below 0"][:2] == ["1 of 1", "0.0 % (cohen σ 0.25)"]
    tenth = told["ours − published: % at every radius that a tenth reaches, not below 0"]
    assert tenth[:4] == ["1 of 1", "0.0 % (cohen σ 0.25)", None, None]


def test_a_share_of_the_inputs_is_counted_with_a_tolerance(counted):
    fixed = [0.3] * (MANY - 1) + [0.4]
    told = counted({"ours": {0.25: [0.298] * MANY}, "fixed": {0.25: fixed}, "isotropic": {0.25: [0.2] * MANY}})
    assert told["ours no smaller than fixed and isotropic: 99 % of the balls"][:2] == [
        "0 of 1",
        "98.0 % (cohen σ 0.25)",
    ]


def test_methods_that_were_not_run_make_no_claim(run, columns):
    assert claim_table(compare([run(columns("fixed", [0.5]))])) is None
