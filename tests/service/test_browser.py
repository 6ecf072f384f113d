"""The page at / in a real browser: a dropped image, an example, what the memory did, the operator's view."""

from pathlib import Path

import numpy as np
import pytest

import anisocert as ac


@pytest.fixture
def page(browser):
    """page(url) -> the page, loaded; what it complains of is in `.complaints`."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})

    def opened(url: str):
        one = context.new_page()
        one.complaints = []
        one.on("console", lambda message: one.complaints.append(message.text))
        one.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.on("request", lambda asked: asked.url.startswith((url, "data:")) or one.complaints.append(asked.url))
        one.goto(url)
        return one

    yield opened
    context.close()


@pytest.fixture
def served(serving, system, image):
    from anisocert.service._telling import Names
    from anisocert.service.service import Examples

    x = np.stack([np.clip(image(6.0), 0, 1), np.clip(image(0.5), 0, 1)])
    theta = np.linspace(0.2, 0.3, 64, dtype=np.float32).reshape(1, 8, 8)
    deployed = system(smoothing=ac.Gaussian(theta))
    return serving(
        deployed,
        examples=Examples(x, (0, 1)),
        names=Names(("bright", "dark<b>"), True),
        name="light",
        domain=(0.0, 1.0),
    )


def png(path: Path, brightness: int) -> Path:
    pil = pytest.importorskip("PIL.Image", reason="needs pillow: pip install '.[cli]'")
    pil.fromarray(np.full((20, 20, 3), brightness, np.uint8)).save(path)
    return path


def test_the_page(served, page, tmp_path):
    opened = page(served.url)
    expect = opened.wait_for_selector
    opened.click("#load")
    expect("#problem:not([hidden])")
    assert "401: expected the header Authorization" in opened.text_content("#problem")
    assert [text for text in opened.complaints if "401" not in text] == []
    opened.complaints.clear()

    opened.fill("#key", served.tokens["all"])
    opened.click("#load")
    expect("#examples button >> nth=1")
    opened.click("#examples button >> nth=0")
    expect("#answer:not([hidden])")
    assert "0 (bright), within l2 radius 0." in opened.text_content("#said")
    assert "kept the region" in opened.text_content("#memory")
    (promise,) = served.service.system.memory.entries()
    sentence = opened.text_content("#sentence")
    assert "answers this input with 0 (bright), and from its admission on gives the same answer" in sentence
    assert "This is promised from admission on." in sentence
    assert str(promise.id) in opened.text_content("#evidence")
    captions = opened.locator("#pictures figcaption").all_text_contents()
    assert captions[0] == "the input"
    assert any(text.startswith("noise θ") for text in captions)
    assert any(text.startswith("the smallest change that could matter: one value, by 0.") for text in captions)
    assert "a change of all values that does not matter" in captions

    covered = opened.evaluate(
        """() => { const x = new Float32Array(64).fill(0.75), axes = Array.from({length: 64}, (_, i) => 0.1 + i / 100);
                   return [Array.from(coveredChange(x, axes)), Array.from(smallestChange(x, axes)), axes]; }"""
    )
    inside, border, axes = map(np.array, covered)
    assert 0.97 < np.linalg.norm((inside - 0.75) / axes) < 0.99  # of the region, and near its border
    assert np.linalg.norm((border - 0.75) / axes) == pytest.approx(1)
    assert np.linalg.norm(border - 0.75) == pytest.approx(axes.min())

    assert opened.evaluate("least(new Float64Array(3 * 224 * 224).fill(2))") == 2
    opened.set_input_files("#file", png(tmp_path / "a.png", 191))
    opened.locator("#memory", has_text="promised earlier").wait_for()
    assert "0 (bright)" in opened.text_content("#said")
    assert served.service.system.memory.submissions == 1

    opened.click("#operate")
    expect("#state:not([hidden])")
    assert "entries1" in opened.text_content("#facts").replace(" ", "")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 1100
    assert opened.complaints == []


def test_a_dropped_file_and_one_that_is_no_image(served, page, tmp_path):
    opened = page(served.url)
    opened.fill("#key", served.tokens["client"])
    opened.evaluate(
        """(bytes) => { const given = new DataTransfer();
             given.items.add(new File([new Uint8Array(bytes)], 'a.png', {type: 'image/png'}));
             const dropped = new DragEvent('drop', {dataTransfer: given, bubbles: true});
             document.getElementById('drop').dispatchEvent(dropped); }""",
        list(png(tmp_path / "a.png", 230).read_bytes()),
    )
    opened.wait_for_selector("#answer:not([hidden])")
    assert "0 (bright)" in opened.text_content("#said")
    (tmp_path / "b.png").write_text("no image")
    opened.set_input_files("#file", tmp_path / "b.png")
    opened.wait_for_selector("#problem:not([hidden])")
    opened.check("#lookup")
    opened.set_input_files("#file", png(tmp_path / "c.png", 2))
    opened.locator("#memory", has_text="No promise covers").wait_for()
    assert opened.text_content("#said") == "no answer"
    assert opened.complaints == []


def test_the_description_of_the_protocol(served, page):
    opened = page(served.url + "/docs")
    assert "POST /v2/models/{name}/infer" in opened.text_content("main")
    assert opened.complaints == []
