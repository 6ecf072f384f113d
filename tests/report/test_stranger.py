"""What the report says and draws of a stranger whose input comes before the clean one."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from anisocert.data.dataset import UNLABELLED
from anisocert.evaluate import ADMITTED, EVERYONE, LEFT, OWN, compare, percent
from anisocert.report import page, write_report
from anisocert.report._charts import curves
from anisocert.report._verdict import telling_radius, verdict
from anisocert.report.canvas import styled
from anisocert.report.figures import accuracy
from anisocert.runs import read_run
from anisocert.runs.attacked import AttackedFirst
from anisocert.runs.attacked_file import rows_hash, write_attacked

RADII = np.array([0.0, 0.1, 0.2, 0.3])
LONG = RADII + 9e-7 * (RADII > 0)  # in six digits they would be longer


@pytest.fixture
def attacked(make_run, data):
    """attacked(name, method, reach) -> a run that keeps its answers up to `reach` times what it certifies.

    inside: what to change among the answers inside regions.
    """

    def made(name, method="anisotropic", reach=0.6, radii=RADII, inside=None, **options):
        run = make_run(name, data, method, model_hash="toy", **options)
        prefix = "memory_" if run.has_memory else ""
        radius, given, label = (run.column(f"{c}") for c in (f"{prefix}radius", f"{prefix}prediction", "label"))
        held = np.where(given == label, reach * radius, -1.0)[:, None] >= radii
        answers = np.where(held, label[:, None], (label[:, None] + 1) % 4)
        inside = given if inside is None else np.where(given >= 0, inside(given), -1)
        found = AttackedFirst(
            radii, run.column("idx"), label, answers, given, inside, 100, 0.001, 99,
            *((20, 0.02) if run.for_everyone else (0, None)), 0, 1, 1, 1, "toy",
            rows_hash(run.description),
        )  # fmt: skip
        write_attacked(run.folder, found)
        return read_run(run.folder)

    return made


def test_the_verdict_says_what_was_measured_first(attacked):
    run = attacked("a", memory=True)
    group = compare([run])[0]
    found, one = verdict(group), group.headline.binding
    at = min(RADII[:0:-1], key=lambda radius: round(abs(radius - telling_radius(one)), 9))
    promised, left = one.certified() >= at, 0.6 * one.certified() >= at
    said = found.points[0]
    assert said.startswith(
        f"A stranger whose input comes before the clean one: right on {percent((left & one.correct).mean())} % ["
    )
    assert f"] at radius {at:g}, where {percent(promised.mean())} % are {ADMITTED}; " in said
    assert f"; {(promised & ~left).sum()} of {promised.sum()} certified inputs were answered otherwise." in said
    regions = f" Searched in their whole regions instead of the ball: 0 of {(one.prediction >= 0).sum()}."
    effort = "1 starts of 1 steps with 1 noisy copies, n = 100 votes per question, 99 questions, all 12 inputs"
    assert said.endswith(f"{regions} The attack: {effort}.")
    assert f"The attack: {effort}." in page([group])  # the table's caption
    assert (promised & ~left).any()  # else this test tells nothing
    assert not re.search(r"radius 0\.\d*1\b", str(verdict(compare([attacked("b", memory=True, radii=LONG)])[0])))
    tile = found.tiles[-1]
    assert (tile.value, tile.name) == (f"{percent(left.mean())} %", f"at radius {at:g}, {LEFT}")
    assert tile.note.startswith("of 12 inputs; 95 % confidence ")
    assert tile.note.endswith(" % about inputs not seen, under this attack")
    run.description["trained_on"] = True
    tile = verdict(compare([run])[0]).tiles[-1]
    assert tile.note.endswith(" % about other inputs that the network was trained on, under this attack")
    low, high = map(float, re.search(r"\[(.*) to (.*)\]", said).groups())
    assert low < 100 * left.mean() < high
    assert not any("Nothing here measures" in caution for caution in found.cautions)


def test_before_a_memory_each_is_about_its_own_classifier(attacked):
    assert f"% are certified, each {OWN}; " in verdict(compare([attacked("a")])[0]).points[0]


def test_fixed_noise_is_certified_for_everyone_and_keeps_at_least_that(attacked):
    run = attacked("first", "fixed", reach=1.2)
    at = telling_radius(compare([run])[0].headline.binding)
    found = verdict(compare([attacked("f", "fixed", reach=1.2, radii=np.array([0.0, at]))])[0])
    assert found.alarms == ()
    said = found.points[0]
    assert re.search(rf"% are {EVERYONE}; 0 of \d+ certified inputs were answered otherwise\.", said)


@pytest.mark.parametrize("memory", [True, False])
def test_what_was_not_measured_is_said_with_the_command_that_measures_it(make_run, data, memory):
    run = make_run("my run", data, memory=memory)
    (said,) = (one for one in verdict(compare([run])[0]).cautions if "stranger" in one)
    assert said.endswith(
        "Nothing here measures what a stranger achieves whose input comes before the clean one: anisocert attack "
        f"'{run.folder}' --first does."
    )
    assert said.startswith("The promise begins with admission. ") == memory
    assert said in page(compare([run])).replace("&#39;", "'")


def test_the_command_that_measures_it_runs_as_it_is(make_run, data):
    """A function of the user's own must be typed; without labels nothing can be measured."""
    run = make_run("own", data, memory=True, model="nets:make", denoise="nets:clean.safetensors")
    (said,) = (one for one in verdict(compare([run])[0]).cautions if "stranger" in one)
    assert said.endswith(f": anisocert attack {run.folder} --first --model nets:make does.")
    labels = pa.array([UNLABELLED] * 12, run.table["label"].type)
    bare = replace(run, table=run.table.set_column(run.table.column_names.index("label"), "label", labels))
    (said,) = (one for one in verdict(compare([bare])[0]).cautions if "stranger" in one)
    assert said.endswith("whose input comes before the clean one.")


@pytest.mark.parametrize(("factor", "measured"), [(0.01, False), (0.79, False), (0.81, True), (1.24, True), (3, False)])
def test_a_far_radius_does_not_stand_in_for_the_one_that_is_told(attacked, factor, measured):
    at = telling_radius(compare([attacked("first", memory=True)])[0].headline.binding)
    run = attacked("a", memory=True, radii=np.array([0.0, factor * at]))
    found = verdict(compare([run])[0])
    assert (LEFT in found.tiles[-1].name) == found.points[0].startswith("A stranger") == measured
    (*said,) = (one for one in found.cautions if "Nothing here measures" in one)
    assert bool(said) != measured
    if said:
        both = " ".join(f"--radius {radius:g}" for radius in sorted([at, factor * at]))
        assert said[0].endswith(f", at radius {at:g}: anisocert attack {run.folder} --first {both} does.")


def test_abstentions_inside_regions_are_told(attacked):
    run = attacked("a", memory=True, inside=lambda given: np.full_like(given, -1))
    regions = int(run.attacked.has_region.sum())
    assert f"0 of {regions}, and {regions} not answered at all." in verdict(compare([run])[0]).points[0]


def test_a_contradicted_run_is_told_before_everything_else(attacked, make_run, data):
    run = attacked("f", "fixed", inside=lambda given: (given + 1) % 4)
    group = compare([run, make_run("a", data, memory=True)])[0]  # even if the verdict is about another
    (alarm,) = verdict(group).alarms
    count = int(run.attacked.has_region.sum())
    assert alarm.startswith(f"Do not rely on fixed ({run.folder}): in {count} of its {count} regions an attack was")
    assert "expect 0.02. " in alarm
    whole = page([group])
    assert whole.index("Do not rely on fixed") < whole.index('class="lead"')
    # the same of noise chosen per input contradicts nothing
    own = attacked("own", inside=lambda given: (given + 1) % 4)
    assert verdict(compare([own])[0]).alarms == ()


def test_fixed_noise_needs_no_such_caution(make_run, data):
    assert verdict(compare([make_run("f", data, "fixed")])[0]).cautions == ()


def test_the_curve_stands_beside_the_promise(attacked, numbers):
    group = compare([attacked("a", memory=True), attacked("f", "fixed", reach=1.2)])[0]
    series = {(one["label"], one["stage"]): one["attacked"] for one in curves(group)["levels"][0]["series"]}
    assert series["anisotropic", "before"] is None
    one = group.headline.binding
    drawn = series["anisotropic", "after"]
    assert drawn["radii"] == tuple(RADII)
    assert drawn["shares"] == pytest.approx([(one.correct & (0.6 * one.certified() >= r)).mean() for r in RADII])
    assert all(a <= b <= c for a, b, c in zip(drawn["low"], drawn["shares"], drawn["high"], strict=True))
    fixed = next(entry.before for entry in group.entries if entry.before.method == "fixed")
    assert np.all(series["fixed", "not needed"]["shares"] >= fixed.accuracy(RADII))
    whole = page([group])
    assert numbers(whole)[0]["left"] == LEFT
    assert f"Circles: what is {LEFT}" in whole
    assert f"What is {LEFT}" in whole  # the table


def test_without_a_measurement_nothing_is_drawn(make_run, data):
    whole = page(compare([make_run("a", data, memory=True)]))
    assert "Circles:" not in whole
    assert f"What is {LEFT}" not in whole


def test_the_figure_has_it_too(attacked):
    with styled():
        figure = accuracy(compare([attacked("a", memory=True), attacked("f", "fixed")])[0])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-2:] == [f"fixed: {LEFT}", f"anisotropic: {LEFT}"]
    assert f"anisotropic: {ADMITTED}" in names


def test_in_a_browser(attacked, open_page, tmp_path):
    runs = [attacked("a", memory=True), attacked("f", "fixed")]
    write_report(runs, tmp_path / "report.html", gallery=0)
    drawn = open_page(tmp_path / "report.html")
    first = drawn.locator("#curves-0 figure").first
    assert first.locator("circle.left").count() == 2 * len(RADII)
    assert drawn.locator("#curves-0 figure").nth(1).locator("circle.left").count() == 0
    assert drawn.locator("#curves-0 .legend span.left").all_inner_texts() == [
        f"fixed: {LEFT}", f"anisotropic: {LEFT}",
    ]  # fmt: skip
    places = [(float(c.get_attribute("cx")), float(c.get_attribute("cy"))) for c in first.locator("circle.left").all()]
    assert len(set(places)) == len(places)
    heights = [y for _, y in places[len(RADII) :]]
    assert heights == sorted(heights)  # downwards
    drawn.locator("#curves-0 .legend button").first.click()
    assert first.locator("circle.left").count() == len(RADII)
    assert drawn.complaints == []
