"""From certificates in Python to numbers: the same as those of a run on disk, and no more than was promised."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import anisocert as ac
from anisocert.errors import ArgumentError
from anisocert.evaluate import ADMITTED, EVERYONE, OR_ABSTAINS, OWN, Evaluation, compare, render, summary
from anisocert.runs import read_run

SIGMA = 0.12


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).uniform(0.2, 3, (24, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def labels(stripes, x):
    wrong = np.arange(len(x)) % 7 == 3
    return stripes(torch.from_numpy(x)).argmax(1).numpy() ^ wrong


@pytest.fixture(scope="module")
def certified(stripes, x):
    def certify(method, sigma=SIGMA, plan=ac.Plan(n0=50, n=500), at=x, **options):  # noqa: B008
        return ac.certify(stripes, at, num_classes=2, smoothing=ac.Gaussian(sigma), method=method, plan=plan, **options)

    return certify


@pytest.fixture(scope="module")
def fixed(certified):
    return certified(ac.Fixed())


@pytest.fixture(scope="module")
def scaled(certified):
    return certified(ac.Isotropic())


def test_numbers_are_those_of_the_certificates(fixed, labels):
    (found,) = ac.evaluate(fixed, labels).results
    right = np.array([c.prediction == y for c, y in zip(fixed, labels, strict=True)])
    radius = np.array([c.radius for c in fixed])
    assert 0 < right.mean() < 1
    for at in (0.0, 0.1, 0.2, float(radius.max())):
        assert found.accuracy(at)[0] == np.mean(right & (radius >= at))
    assert found.mean() == pytest.approx(np.mean(radius * right))
    assert found.protects == EVERYONE


def test_the_curve_is_exact_where_it_falls_and_between(fixed, labels):
    (found,) = ac.evaluate(fixed, labels).results
    at, share = found.curve()
    assert at[0] == 0
    assert share[0] == found.correct.mean()
    assert (np.diff(share[1:]) < 0).all()
    np.testing.assert_array_equal(found.accuracy(np.nextafter(at, np.inf))[:-1], share[1:])


def test_it_says_what_a_run_on_disk_says(fixed, scaled, labels, write_run, tmp_path):
    for name, certificates in (("fixed", fixed), ("isotropic", scaled)):
        write_run(tmp_path / name, certificates, labels, data="inputs", sigma=SIGMA)
    stored = compare([read_run(tmp_path / name) for name in ("fixed", "isotropic")])
    held = ac.evaluate({"fixed": fixed, "isotropic": scaled}, labels, sigma=SIGMA)
    assert held.table("csv") == render(summary(stored[0]), "csv")
    assert [table.title for table in held.tables] == [
        "inputs, l2: 24 inputs", "What may be claimed of the 24 inputs together", "Whose certificate is the largest",
        "What it cost",
    ]  # fmt: skip


def test_lists_of_other_inputs_are_not_compared(fixed, certified, labels, x):
    others = certified(ac.Fixed(), at=x[::-1].copy())
    with pytest.raises(ArgumentError, match="got another input at place 0 of turned than of fixed: evaluate each"):
        ac.evaluate({"fixed": fixed, "turned": others}, labels)


def test_lists_under_a_name_of_several_are_refused(fixed, scaled, labels):
    with pytest.raises(ArgumentError, match="expected a list of certificates as 'l2', got a dict: name each"):
        ac.evaluate({"l2": {"fixed": fixed, "isotropic": scaled}}, labels)


def test_names_that_are_one_text_are_refused(fixed, scaled, labels):
    with pytest.raises(ArgumentError, match=r"expected lists with names that differ as text, got \[1, '1'\]"):
        ac.evaluate({1: fixed, "1": scaled}, labels)


def test_a_sigma_that_fixed_noise_did_not_have_is_refused(fixed, scaled, labels):
    with pytest.raises(ArgumentError, match=rf"expected the sigma of .*, {SIGMA:g}, got {2 * SIGMA:g}: leave it out"):
        ac.evaluate(fixed, labels, sigma=2 * SIGMA)
    assert ac.evaluate(scaled, labels, sigma=2 * SIGMA).results[0].sigma == 2 * SIGMA  # where a search may have begun


@pytest.mark.parametrize(("policy", "protects"), [("inherit", ADMITTED), ("abstain", OR_ABSTAINS)])
def test_a_memorys_answers_are_what_its_policy_promises(certified, labels, policy, protects):
    line = np.stack([np.linspace(0.2, 3, 24), np.zeros(24)], 1).astype(np.float32)
    # An alpha so large that some of these neighbours contradict others.
    scaled = certified(ac.Isotropic(), 0.3, ac.Plan(n0=10, n=40, alpha=0.45), line)
    memory = ac.Memory(policy)
    answers = memory.admit_all(scaled)
    found = ac.evaluate({"before": scaled, "after": answers}, labels, sigma=SIGMA, memory=memory)
    after, before = sorted(found.results, key=lambda one: one.stage)
    assert (before.stage, before.protects) == ("before", OWN)
    assert (after.stage, after.protects) == ("after", protects)
    np.testing.assert_array_equal(after.radius, [c.radius for c in answers])
    assert (after.radius < before.radius).any()  # else nothing of this was put to the test
    run = next(entry.run for entry in found.comparisons[0].entries if entry.before is after)
    for c in answers:  # what a report shows as the region is what was promised, not what votes and theta gave
        assert run.region(c.id, np.zeros(2)) is c.region
    with pytest.raises(ArgumentError, match="expected results before any memory"):
        after.claim(0.1)
    assert f"“{protects}”: " in " ".join(str(found).split())


def test_a_runs_folder_has_its_own_labels(systems):
    (found,) = ac.evaluate(systems / "fixed").results
    assert found.protects == EVERYONE
    assert str(ac.evaluate(str(systems / "fixed"))) == str(ac.evaluate(systems / "fixed"))


def test_answers_of_a_system_may_be_promises_to_others(stripes, x, labels):
    system = ac.System(stripes, num_classes=2, smoothing=ac.Gaussian(SIGMA), secret=bytes(16), plan=ac.Plan(n=200))
    answers = [*system.answers(x), *system.answers(x)]  # the second time as promises of others' ids
    assert len({c.id for c in answers}) < len(answers)
    (found,) = ac.evaluate(answers, [*labels, *labels], memory=system.memory).results
    assert len(found) == 48
    assert found.protects == ADMITTED
    with pytest.raises(ArgumentError, match=r"expected memory=\.\.\., the one that answered.*system\.memory"):
        ac.evaluate(answers, [*labels, *labels])


def test_answers_that_the_memory_did_not_give_are_refused(scaled, labels):
    memory = ac.Memory()
    answers = memory.admit_all(scaled)
    sure = next(i for i, c in enumerate(answers) if c.region is not None)
    larger = [*answers]
    larger[sure] = replace(larger[sure], region=larger[sure].region.scaled(1.01))
    for given in (larger, [replace(c, note="kept") for c in scaled if c.region is not None]):
        with pytest.raises(ArgumentError, match="expected answers of Memory"):
            ac.evaluate(given, labels[: len(given)], memory=memory if given is larger else ac.Memory())
    with pytest.raises(ArgumentError, match="before a memory, or the answers of one, got both"):
        ac.evaluate([answers[0], *scaled[1:]], labels, memory=memory)


def test_fixed_noise_of_two_levels_is_not_one_classifier(certified, fixed, labels):
    other = certified(ac.Fixed(), 0.15, ids=range(24, 48))
    with pytest.raises(ArgumentError, match=r"expected one theta in certificates.*evaluate each noise level by itself"):
        ac.evaluate([*fixed, *other], [*labels, *labels])


def test_certificates_from_the_same_noise_are_not_independent(fixed, labels):
    with pytest.raises(ArgumentError, match=r"expected certificates from different noise.*ids of their own"):
        ac.evaluate([*fixed, *fixed], [*labels, *labels])


def test_certificates_of_two_networks_are_not_one_run(fixed, labels):
    with pytest.raises(ArgumentError, match="expected certificates of one model_hash in certificates"):
        ac.evaluate([replace(fixed[0], model_hash="other"), *fixed[1:]], labels)


def test_inputs_keep_their_ids_whatever_order_they_come_in(certified, labels):
    ids = np.random.default_rng(1).permutation(100)[:24].tolist()
    found = certified(ac.Fixed(), ids=ids)
    (one,) = ac.evaluate(found, labels).results
    assert one.ids.tolist() == sorted(ids)
    for c, y in zip(found, labels, strict=True):
        place = one.ids.tolist().index(c.id)
        assert (one.labels[place], one.prediction[place], one.radius[place]) == (y, c.prediction, c.radius)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"certificates": "runs/a"}, "expected no labels beside the folder of a run, which has its own, got an nd"),
        ({"certificates": "runs/a", "labels": None}, "expected a finished run, a folder with run.json, got runs/a"),
        ({"certificates": {"a": "runs/a"}}, "expected certificates as ac.certify returns them, got 'runs/a'"),
        ({"certificates": []}, "expected at least one certificate, got none"),
        ({"certificates": {}}, "expected at least one certificate, got none"),
        ({"certificates": [1]}, "expected certificates as ac.certify returns them, got 1 among them"),
        ({"certificates": 5}, "expected certificates as ac.certify returns them, got 5"),
        ({"labels": [0]}, "expected one label per certificate, got 1 for 24 of certificates"),
        ({"labels": np.zeros(24)}, "got float64 of shape (24,): pass numpy.asarray(labels, int)"),
        ({"labels": np.full(24, 0.5)}, "one per certificate, got float64 of shape (24,)"),
        ({"labels": np.eye(24)}, "got float64 of shape (24, 24): of one-hot rows, pass numpy.argmax(labels, 1)"),
        ({"labels": np.zeros((24, 1), int)}, "got int64 of shape (24, 1): pass numpy.ravel(labels)"),
        ({"labels": ["cat"] * 24}, "got <U3 of shape (24,): pass the number of each name, its place among"),
        ({"labels": [[1, 2], [3]]}, "one per certificate, got a list"),
        ({"labels": None}, "expected labels, the true class of each input, got none: ac.evaluate(cert"),
        ({"labels": np.arange(24) % 2 + 1}, "as the network gives 2 scores, got labels up to 2: do labels start at 1?"),
        ({"labels": np.full(24, -1)}, "expected labels from 0 to 1 of certificates, got -1"),
        ({"memory": "m.sqlite"}, "expected memory as in memory=system.memory, got 'm.sqlite'"),
        ({"data": 5}, "expected data as the name of the inputs, got 5"),
        ({"sigma": "0.25"}, "expected sigma, a number > 0, got '0.25'"),
    ],
)
def test_wrong_types_get_one_sentence(fixed, labels, change, said):
    with pytest.raises(ArgumentError) as error:
        ac.evaluate(**{"certificates": fixed, "labels": labels} | change)
    assert said in str(error.value)


def test_one_certificate_is_not_several(fixed):
    with pytest.raises(ArgumentError, match=r"got one: pass \[certificate\] and \[label\]"):
        ac.evaluate(fixed[0], 1)


def test_labels_may_be_a_tensor_and_notebooks_show_a_table(fixed, labels):
    found = ac.evaluate(fixed, torch.from_numpy(labels), data="stripes")
    assert isinstance(found, Evaluation)
    assert found._repr_markdown_().startswith("**stripes, l2: 24 inputs**")


def test_the_room_is_the_function_and_the_room():
    import anisocert.evaluate as room

    assert room is ac.evaluate
    assert callable(room)
    assert room.compare is compare
