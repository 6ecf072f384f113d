"""What is said of a run is what its system does: each claim beside an attack on the claim that would be too strong."""

import html
import itertools
import re
import shutil

import numpy as np
import pytest

import anisocert as ac
from anisocert.certificate import ABSTAIN
from anisocert.evaluate import ADMITTED, EVERYONE, OR_ABSTAINS, OWN, compare, summary, tables_of
from anisocert.report import assumptions, evidence_of, evidence_page, page, sentence
from anisocert.report._verdict import telling_radius, verdict
from anisocert.runs import read_run

WHOM = {
    "fixed": EVERYONE, "own": OWN, "inherit": ADMITTED, "abstain": OR_ABSTAINS, "worst-case": OR_ABSTAINS,
}  # fmt: skip
POLICIES = ("inherit", "abstain", "worst-case")


def text_of(page):
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def said_of(run):
    """Everything that the report and the evidence say of a run in sentences."""
    found = verdict(compare([run])[0])
    e = evidence_of(run, 0)
    return [found.lead, *found.points, *found.cautions, sentence(e), *assumptions(e)]


def answers_inside(systems, stripes, policy, tmp_path):
    """(promised, given) at two points of every region, from a copy of the memory that the run went through."""
    copy = shutil.copy(systems / f"{policy}.sqlite", tmp_path / "memory.sqlite")
    with ac.Memory.open(copy) as memory:
        promised = [c for c in memory.entries() for _ in range(2)]
        x = np.stack([c.region.center.astype(np.float32) for c in promised])
        x[:, 0] += [side * 0.98 * c.region.radius for c, side in zip(promised, itertools.cycle((-1, 1)), strict=False)]
        proposed = ac.certify(
            stripes, x, ids=range(1000, 1000 + len(x)), num_classes=2, smoothing=ac.Gaussian(0.12),
            method=ac.Isotropic(), plan=ac.Plan(n0=50, n=500),
        )  # fmt: skip
        return [(c.prediction, memory.admit(new).prediction) for c, new in zip(promised, proposed, strict=True)]


@pytest.mark.parametrize("policy", POLICIES)
def test_only_a_memory_that_inherits_is_said_to_give_the_same_answer(systems, stripes, policy, tmp_path):
    given = answers_inside(systems, stripes, policy, tmp_path)
    assert {answer for promised, answer in given if answer != promised} <= {ABSTAIN}
    abstains = any(answer == ABSTAIN for _, answer in given)
    assert abstains == (policy != "inherit")  # else this test tells nothing
    run = read_run(systems / policy)
    lead, quoted = verdict(compare([run])[0]).lead, sentence(evidence_of(run, 0))
    assert ("the same answer or none" in lead) == abstains
    assert ("gives the same answer, or abstains, after every change" in quoted) == abstains
    assert any("lets the system abstain" in one for one in said_of(run)) == abstains
    assert f"This is {WHOM[policy]}." in quoted
    assert f": {WHOM[policy]}." in lead


def test_a_memory_of_an_unknown_policy_gets_the_weaker_sentence(systems):
    run = read_run(systems / "inherit")
    run.description["memory"] = run.description["memory"] | {"policy": "later"}
    assert OR_ABSTAINS in verdict(compare([run])[0]).lead
    assert "or abstains" in sentence(evidence_of(run, 0))


def test_noise_of_its_own_is_no_claim_about_a_system(systems):
    run = read_run(systems / "own")
    found = verdict(compare([run])[0])
    assert found.lead.endswith(f"This is {OWN}, and not a claim that a system is robust.")
    assert "promise nothing about one system" in found.cautions[0]
    assert sentence(evidence_of(run, 0)).endswith(
        f"This is {OWN}: a changed input is answered with another noise, so it is not a claim about a system."
    )


def test_one_noise_for_all_is_certified_for_everyone(systems):
    run = read_run(systems / "fixed")
    found = verdict(compare([run])[0])
    assert found.lead.endswith(f": {EVERYONE}.")
    assert found.cautions == ()
    assert sentence(evidence_of(run, 0)).endswith(f"This is {EVERYONE}.")


@pytest.mark.parametrize("name", WHOM)
def test_whom_it_protects_is_said_wherever_a_certified_accuracy_is(systems, name, numbers):
    run = read_run(systems / name)
    group = compare([run])[0]
    stage = group.entries[0].binding.stage
    whole = page([group])
    assert WHOM[name] in verdict(group).lead
    assert any(WHOM[name] in tile.name for tile in verdict(group).tiles)
    (line,) = (row for row in summary(group).rows if row[2].value == stage)
    assert line[3].value == WHOM[name]
    assert f"“{WHOM[name]}”: " in summary(group).caption
    series = [one for drawn in numbers(whole) for level in drawn["levels"] for one in level["series"]]
    assert WHOM[name] in [one["protects"] for one in series]  # of the curves
    assert f"is {WHOM[name]}." in text_of(whole)  # of the gallery's inputs
    assert WHOM[name] in text_of(evidence_page(evidence_of(run, 0)))


@pytest.mark.parametrize("name", WHOM)
def test_nobody_is_told_that_anything_is_proven_or_kept_for_sure(systems, name):
    run = read_run(systems / name)
    everything = " ".join([text_of(page(compare([run]))), *said_of(run)]).lower()
    for word in ("provabl", "guarantee", "keep that answer", "keeps its answer", "leaves the answer"):
        assert word not in everything


@pytest.mark.parametrize("policy", POLICIES)
def test_a_memory_s_promise_has_no_probability_and_no_line_among_the_claims(systems, policy):
    """One wrong entry may be inherited by many inputs, so that no binomial count of wrong answers holds after it."""
    group = compare([read_run(systems / policy)])[0]
    (certain,) = (point for point in verdict(group).points if "probability" in point)
    assert certain.startswith("The memory keeps its promises with no probability involved.")
    assert certain.endswith("is wrong with probability at most 0.001.")
    (claims,) = (table for table in tables_of(group) if table.title.startswith("What may be claimed"))
    assert [row[2].value for row in claims.rows] == [OWN]
    with pytest.raises(ac.errors.ArgumentError, match="before any memory"):
        group.entries[0].after.claim(0.1)


def test_the_best_of_several_says_so_and_adds_up_their_alphas(systems):
    one, both = (compare([read_run(systems / name) for name in names])[0] for names in (["own"], ["own", "own-wide"]))
    assert one.headline_alpha == pytest.approx(0.001, rel=1e-6)
    assert both.headline_alpha == pytest.approx(0.002, rel=1e-6)
    alone, best = verdict(one), verdict(both)
    assert "best of" not in alone.title
    assert best.title.endswith(", best of 2 runs")
    assert "wrong with probability at most 0.001. " in alone.points[0]
    assert "at most 0.002 (the α of 2 runs together, of which the best is shown)" in best.points[0]
    assert any(
        caution.startswith("Of 2 runs compared (isotropic σ=0.12, isotropic σ=0.15)") for caution in best.cautions
    )
    assert not any("runs compared" in caution for caution in alone.cautions)
    assert "Whoever picks the best of several must add up their α" in summary(both).caption


def test_the_same_certificates_through_several_memories_count_once(systems):
    group = compare([read_run(systems / policy) for policy in POLICIES])[0]
    assert group.headline_alpha == pytest.approx(0.001, rel=1e-6)
    assert verdict(group).title.endswith(", best of 3 runs")


def test_the_interval_of_the_best_is_wider(systems):
    runs = [read_run(systems / name) for name in ("own", "own-wide")]
    group = compare(runs)[0]
    alone = compare([group.headline.run])[0]
    assert telling_radius(alone.headline.binding) == telling_radius(group.headline.binding)
    (low, high), (lower, higher) = (
        map(float, re.findall(r"[\d.]+(?= to| %)", verdict(one).tiles[1].note)[-2:]) for one in (alone, group)
    )
    assert lower < low
    assert higher > high


def test_envelope_and_oracle_are_called_what_they_are(systems):
    from anisocert.report._charts import curves

    told = curves(compare([read_run(systems / name) for name in ("fixed", "own", "own-wide")])[0])
    *levels, envelope, oracle = told["levels"]
    assert told["levels"][told["first"]] in levels
    assert all(level["note"] == "" for level in levels)
    assert "chosen on these very inputs with their labels" in envelope["note"]
    assert "chosen with its true label. No system can achieve this." in oracle["note"]
    for level in (envelope, oracle):
        assert "the best of up to 2 noise levels" in level["note"]
        assert "up to the sum of the levels' α (0.002 here)" in level["note"]
    assert [one["protects"] for one in envelope["series"]] == [f"{OWN}, one radius at a time"]
    assert [one["protects"] for one in oracle["series"]] == ["no system's: chosen with the label"]


def test_an_imported_log_says_that_nothing_can_be_recomputed(tmp_path):
    from anisocert.evaluate.exchange import import_tsv

    log = tmp_path / "log.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    import_tsv(log, tmp_path / "run", sigma=0.25, norm="l2", method="fixed")
    group = compare([read_run(tmp_path / "run")])[0]
    assert verdict(group).cautions[-1].startswith("This run was imported from a log.")
    assert text_of(page([group])).count("This run was imported from a log.") == 2  # in the verdict, and beside the run
