"""The report in a real browser, on wide and narrow screens, in light and dark, and printed."""

import pytest

from anisocert.appearance import APPEARANCES, OTHER, Appearance
from anisocert.evaluate import ADMITTED, OWN
from anisocert.report import write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory, run_writer, data_writer):
    """Two norms, three methods, two noise levels in l2, a memory where one is needed."""
    root = tmp_path_factory.mktemp("report")
    data = data_writer(root / "squares.npz", 12)
    runs = [
        run_writer(root / f"{norm}-{method}-{sigma}", data, method, norm=norm, sigma=sigma, memory=method != "fixed")
        for norm, sigmas in (("l2", (0.25, 0.5)), ("l1", (0.5,)))
        for sigma in sigmas
        for method in ("fixed", "isotropic", "anisotropic")
    ]
    write_report(runs, root / "report.html", gallery=8)
    return root / "report.html"


SCREENS = [(1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"), (360, 640, "dark")]


@pytest.mark.parametrize(("width", "height", "scheme"), SCREENS)
def test_opens_without_complaint_and_fits(report, open_page, width, height, scheme):
    page = open_page(report, width, height, scheme)
    assert page.locator("svg.chart path.line").count() == 12  # 2 norms, 2 sizes, 3 methods
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for chart in page.locator("svg.chart").all():
        box = chart.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 100
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_table_is_wider_than_a_page_of_1200_pixels(report, open_page, scheme):
    page = open_page(report, 1200, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tables = page.evaluate("[...document.querySelectorAll('.scroll')].map((one) => [one.scrollWidth, one.clientWidth])")
    assert len(tables) >= 8
    assert all(needed <= there for needed, there in tables)


def test_dark_is_dark(report, open_page):
    light, dark = (
        open_page(report, scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    )
    assert sum(map(int, light[4:-1].split(","))) > 700
    assert sum(map(int, dark[4:-1].split(","))) < 120


@pytest.mark.parametrize(("scheme", "place"), [("light", 0), ("dark", 1)])
def test_curves_have_the_colours_of_their_methods(make_run, data, tmp_path, open_page, monkeypatch, scheme, place):
    """Those of a new one too; a stranger's have the neutral one, whatever they are called."""
    monkeypatch.setitem(APPEARANCES, "contrast", Appearance("less noise where it is dark", "#123456", "#fedcba"))
    expected = {"fixed": APPEARANCES["fixed"], "two-step": APPEARANCES["two-step"], "contrast": APPEARANCES["contrast"]}
    expected |= dict.fromkeys(("theirs", "paper", "red);color:red"), OTHER)
    write_report([make_run(f"r{i}", data, name) for i, name in enumerate(expected)], tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", scheme=scheme)
    found = page.evaluate(
        """[...document.querySelectorAll(".legend button")].map(
            (one) => [one.textContent.split(": ")[0], getComputedStyle(one.querySelector("i")).color])"""
    )
    shades = {name: (one.light, one.dark)[place] for name, one in expected.items()}
    rgb = {name: tuple(int(shade[i : i + 2], 16) for i in (1, 3, 5)) for name, shade in shades.items()}
    assert dict(found) == {name: f"rgb({r}, {g}, {b})" for name, (r, g, b) in rgb.items()}
    assert page.complaints == []


def test_curves_are_the_numbers(report, open_page, numbers):
    """The height of the line at a radius is the certified accuracy there."""
    page = open_page(report)
    group = numbers(report.read_text("utf-8"))[1]  # l1: one noise level
    grid = group["sizes"]["radius"]
    (fixed,) = (one for one in group["levels"][0]["series"] if one["label"] == "fixed")
    heights = page.evaluate(
        """() => {
            const path = document.querySelector('#curves-1 figure path.line');
            const box = path.getBBox(), found = [];
            const length = path.getTotalLength();
            for (let i = 0; i <= 2000; i++) {
                const p = path.getPointAtLength(length * i / 2000);
                found.push([p.x, p.y]);
            }
            return {box: [box.x, box.width], found};
        }"""
    )
    left, width = heights["box"]
    counts = fixed["radius"]
    bottom, top = 260.0, 10.0  # of the frame: 300 high, margins 40 and 10
    for i in range(1, grid["points"] - 1, 37):
        x = left + width * (i - 0.5) / (grid["points"] - 1)
        y = min(heights["found"], key=lambda p: abs(p[0] - x))[1]
        share = (bottom - y) / (bottom - top)
        assert min(abs(share - counts[j] / group["n"]) for j in (i - 1, i, i + 1)) < 0.01


def test_pointing_at_a_curve_reads_it(report, open_page):
    page = open_page(report)
    chart = page.locator("#curves-1 svg.chart").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    tip = page.locator("#curves-1 .tip").first
    assert tip.is_visible()
    assert tip.inner_text().startswith("radius 0.")
    assert tip.inner_text().count("%") == 3
    inside = tip.bounding_box()
    assert box["y"] <= inside["y"] < box["y"] + box["height"]
    page.mouse.move(0, 0)
    assert not tip.is_visible()


def test_memory_and_noise_can_be_chosen(report, open_page):
    page = open_page(report)
    part = page.locator("#curves-0")
    lines = lambda: [p.get_attribute("d") for p in part.locator("path.line").all()]  # noqa: E731
    first = lines()
    part.get_by_role("button", name="before").click()
    assert lines() != first
    assert OWN in part.locator(".legend").inner_text()
    assert OWN in part.locator("figure h4").first.inner_text()
    part.get_by_role("button", name="after").click()
    assert lines() == first
    assert ADMITTED in part.locator(".legend").inner_text()
    part.get_by_role("button", name="envelope").click()
    assert lines() != first
    assert part.locator("path.band").count() == 0
    assert "chosen on these very inputs with their labels" in part.locator(".note").inner_text()
    part.get_by_role("button", name="oracle").click()
    assert part.locator("path.band").count() == 2
    assert "No system can achieve this" in part.locator(".note").inner_text()
    assert part.locator(".legend").inner_text().count("no system's: chosen with the label") == 3
    part.locator(".legend button").first.click()
    assert part.locator("path.line").count() == 4
    assert page.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_gallery_opens_inputs(report, open_page, width):
    page = open_page(report, width)
    gallery = page.locator(".gallery").first
    assert gallery.locator("button").count() == 8
    gallery.locator("button").first.click()
    dialog = page.locator("dialog")
    assert dialog.is_visible()
    assert dialog.locator("img").count() >= 3
    assert dialog.locator("tbody tr").count() == 6
    assert "the region covers" in dialog.inner_text()
    assert all(page.evaluate("[...document.querySelectorAll('dialog img')].map(i => i.complete && i.naturalWidth > 0)"))
    title = dialog.locator("h3").inner_text()
    page.keyboard.press("ArrowRight")
    assert dialog.locator("h3").inner_text() != title
    assert dialog.bounding_box()["width"] <= width
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.complaints == []


def test_the_gallery_can_be_narrowed(report, open_page):
    page = open_page(report)
    gallery = page.locator(".gallery").first
    page.locator(".controls", has=page.get_by_role("button", name="no answer")).first.get_by_role(
        "button", name="no answer"
    ).click()
    assert gallery.locator("button:visible").count() == 1


def test_prints_on_paper(report, open_page):
    page = open_page(report, scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.locator("svg.chart").first.is_visible()
    assert len(page.pdf(format="A4")) > 20_000


def test_without_scripts_the_tables_are_there(report, open_page):
    page = open_page(report, java_script_enabled=False)
    assert page.locator("table").first.is_visible()
    assert "The curves need JavaScript" in page.locator("main").inner_text()


def test_ten_thousand_inputs(tmp_path, open_page, run_writer, data_writer):
    data = data_writer(tmp_path / "many.npz", 10_000, (3, 8, 8))
    runs = [
        run_writer(tmp_path / method, data, method, 10_000, (3, 8, 8), memory=method != "fixed")
        for method in ("fixed", "isotropic", "anisotropic")
    ]
    write_report(runs, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 15e6 / 10
    page = open_page(tmp_path / "report.html")
    assert page.locator("path.line").count() == 6
    assert page.evaluate("document.querySelectorAll('*').length") < 6000  # nothing that grows with the inputs
    assert "A sample: 24 of 10,000 inputs" in page.locator("main").inner_text()
    assert page.complaints == []
