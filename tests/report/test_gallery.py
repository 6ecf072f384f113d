from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from anisocert import Region
from anisocert.evaluate import compare
from anisocert.report import gallery, page
from anisocert.report._beyond import Beyond
from anisocert.report._inputs import inputs_of
from anisocert.report._pictures import bars, heat, is_image, photo, shades
from anisocert.report._sampling import chosen
from anisocert.report.gallery import cards


@pytest.fixture
def group(make_run, data):
    runs = [make_run(m, data, m, memory=m != "fixed") for m in ("fixed", "isotropic", "anisotropic")]
    return compare(runs)[0]


def ratio(group):
    run = group.headline.run
    certified = group.headline.before.certified() > 0
    return np.where(certified, run.column("theta_max") / run.column("theta_min"), 0)


def test_a_sample_has_the_ends_and_the_troubled(make_run):
    group = compare([make_run("a", None, count=300, memory=True)])[0]
    found = chosen(group, 20)
    assert len(found) == 20
    assert list(found) == sorted(found)
    one = group.headline.binding
    size = one.certified("proxy_radius")
    assert int(one.ids[size.argmax()]) in found
    assert int(one.ids[np.where(size > 0, size, np.inf).argmin()]) in found
    assert int(group.headline.run.column("idx")[ratio(group).argmax()]) in found
    for tag in ("largest", "smallest", "shaped", "wrong", "abstained", "memory"):
        assert any(tag in tags for tags in found.values())


def test_how_much_farther_an_example_is_never_grows(group, monkeypatch):
    beyond = lambda region, radius, *_, **__: Beyond(region.center, 1.999 * radius, 0.9)  # noqa: E731
    monkeypatch.setattr(gallery, "beyond_ball", beyond)
    made = cards(group, {int(number): [] for number in group.headline.binding.ids}, inputs_of(group, []))
    said = " ".join(line for card in made for line in card.lines)
    assert ", 1.99 times as long as the isotropic ball allows" in said
    assert "2.00 times" not in said


def test_only_what_lies_in_the_ball_is_said_to(group):
    maker = gallery._Maker(group, inputs_of(group, []), group.entries.index(group.headline), [])
    ball = float(group.beside(group.headline, "isotropic").before.radius[0])
    for factor, said in ((1.0, "No point of it lies outside"), (1.01, "It hardly reaches beyond")):
        region = Region(np.zeros((6, 6)), ball * np.linspace(0.99, factor, 36).reshape(6, 6), 2)
        _, line = maker._beyond(0, region)
        assert line.startswith(f"{said} the isotropic ball, of radius ")


@pytest.mark.parametrize("count", [0, 1, 3, 12, 50])
def test_a_sample_is_as_large_as_asked(group, count):
    assert len(chosen(group, count)) == min(count, 12)


def test_a_card(group):
    tags = chosen(group, 12)
    inputs = inputs_of(group, list(tags))
    made = {card.id: card for card in cards(group, tags, inputs)}
    right, wrong, none = made[0], made[7], made[9]
    assert (right.mood, wrong.mood, none.mood) == ("right", "wrong", "abstained")
    assert [p.caption.split(",")[0] for p in right.pictures] == [
        "the input", "noise θ", "input + δ",
    ]  # fmt: skip
    assert any("most tolerant" in line for line in right.lines)
    assert any("shrank" in line for line in right.lines)
    assert any("no class wins" in line for line in none.lines)
    assert none.radius == ""
    assert [row[0].value for row in right.table.rows] == ["fixed", "isotropic", "anisotropic"]
    assert sum("(largest)" in row[2].value for row in right.table.rows) == 1
    assert sum("(smallest)" in row[2].value for row in right.table.rows) == 1


def test_without_labels_no_answer_is_ticked(make_run, data):
    run = make_run("fixed", str(data), "fixed", count=8)
    labels = pa.array([-1] * 8, run.table["label"].type)
    run = replace(run, table=run.table.set_column(run.table.schema.get_field_index("label"), "label", labels))
    (group,) = compare([run])
    tags = {number: [] for number in range(8)}
    assert {card.mood for card in cards(group, tags, inputs_of(group, list(tags)))} == {"answered"}


def test_the_example_is_what_is_said_of_it(group, monkeypatch):
    """Every example lies in the anisotropic region and outside the isotropic ball of the same input."""
    seen = []

    def spy(region, ball, domain, seed):
        found = real(region, ball, domain, seed)
        seen.append((seed, region, ball, found))
        return found

    from anisocert.report import gallery

    real = gallery.beyond_ball
    monkeypatch.setattr(gallery, "beyond_ball", spy)
    tags = chosen(group, 12)
    cards(group, tags, inputs_of(group, list(tags)))
    isotropic = next(e for e in group.entries if e.before.method == "isotropic").before
    assert len(seen) == 11  # all but the abstention
    for number, region, ball, found in seen:
        assert isinstance(region, Region)
        assert ball == isotropic.radius[number]
        if found is not None:
            assert region.contains(found.point)
            assert found.length > ball
    assert any(found is not None for *_, found in seen)


def test_vectors_are_bars(make_run, tmp_path):
    np.savez(tmp_path / "v.npz", x=np.random.default_rng(0).random((12, 9)).astype(np.float32), y=np.arange(12) % 4)
    group = compare([make_run("a", tmp_path / "v.npz", shape=(9,))])[0]
    tags = chosen(group, 3)
    for card in cards(group, tags, inputs_of(group, list(tags))):
        assert [len(picture.bars) for picture in card.pictures[:2]] == [9, 9]
        assert not any(picture.uri for picture in card.pictures)
    assert page([group], 3).count("<rect") >= 2 * 2 * 3 * 9  # in the gallery and in what opens


def test_colours_have_a_map_each(make_run, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "c.npz", x=rng.integers(0, 255, (12, 3, 7, 7)).astype(np.uint8), y=np.arange(12) % 4)
    group = compare([make_run("a", tmp_path / "c.npz", shape=(3, 7, 7))])[0]
    (card,) = cards(group, {0: []}, inputs_of(group, [0]))
    assert [p.caption.split(";")[0] for p in card.pictures[1:5]] == [
        "noise θ, mean of channels", "θ, red", "θ, green", "θ, blue",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [None, "/nowhere/at/all.npz"])
def test_without_the_data_the_rest_is_shown(make_run, name):
    group = compare([make_run("a", name)])[0]
    inputs = inputs_of(group, [0, 1])
    assert inputs.missing
    (card, _) = cards(group, {0: [], 1: []}, inputs)
    assert [p.caption.split(",")[0] for p in card.pictures] == ["noise θ"]
    assert any("that the region covers" in line for line in card.lines)


def test_other_data_of_the_same_name_is_not_shown(make_run, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((12, 1, 6, 6), np.uint8), y=(np.arange(12) + 1) % 4)
    assert "other labels" in inputs_of(compare([make_run("a", tmp_path / "x.npz")])[0], [0, 1]).missing


def test_small_pictures_are_exact_and_large_ones_small():
    from base64 import b64decode
    from io import BytesIO

    from PIL import Image

    def decoded(uri):
        return np.asarray(Image.open(BytesIO(b64decode(uri.partition(",")[2]))))

    x = np.arange(64).reshape(1, 8, 8) / 63
    assert np.array_equal(decoded(photo(x, 0, 1))[..., 0], np.rint(x[0] * 255))
    assert decoded(heat(np.zeros((4, 4)))).tolist()[0][0] == [68, 1, 84]
    large = photo(np.random.default_rng(0).random((3, 500, 375)), 0, 1)
    assert decoded(large).shape == (160, 120, 3)
    assert large.startswith("data:image/jpeg")


def test_shades_are_logarithmic():
    assert shades(np.array([0.1, 1.0, 10.0, 99.0]), 0.1, 10.0).tolist() == pytest.approx([0, 0.5, 1, 1])
    assert shades(np.array([0.3, 0.3]), 0.3, 0.3).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("shape", "image"),
    [((1, 8, 8), True), ((3, 8, 8), True), ((8, 8), True), ((2, 8, 8), False), ((9,), False), ((1, 9), False)],
)
def test_what_is_an_image(shape, image):
    assert is_image(shape) is image


def test_many_values_are_averaged():
    heights = bars(np.arange(1000.0), 0, 1000)
    assert len(heights) == 128
    assert list(heights) == sorted(heights)
    assert 2 <= heights[0] < heights[-1] <= 98
