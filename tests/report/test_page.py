"""The page as text: whole, self-contained, and safe whatever the runs say about themselves."""

import re
import shlex
import sys
from html import unescape
from html.parser import HTMLParser

import pytest

from anisocert.errors import MissingExtraError
from anisocert.evaluate import compare
from anisocert.report import _html as html
from anisocert.report import page, write_report

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Reader(HTMLParser):
    """Checks that elements are closed in order, and gathers what matters."""

    VOID = ("meta", "img", "line", "rect")

    def __init__(self):
        super().__init__()
        self.open, self.sources, self.tags, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        said = dict(attrs)
        self.sources += [said[name] for name in ("src", "href", "action") if name in said]
        self.ids += [said["id"]] if "id" in said else []
        assert not any(name.startswith("on") for name in said)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(html):
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


@pytest.fixture
def runs(make_run, data):
    return [
        make_run(f"{norm} {method}", data, method, norm=norm, memory=method != "fixed")
        for norm in ("l2", "l1")
        for method in ("fixed", "isotropic", "anisotropic")
    ]


def test_runs_that_lack_the_same_are_told_of_it_once(runs):
    """As in the demo, where every memory ends with the process."""
    said = re.findall(r"([\w, ]+): The numbers after the memory were not derived again", page(compare(runs)))
    assert said == ["isotropic, anisotropic"] * 2  # in l2 and in l1


def test_whole(runs, tmp_path):
    write_report(runs, tmp_path / "deep" / "report.html")
    html = (tmp_path / "deep" / "report.html").read_text("utf-8")
    reader = read(html)
    assert len(set(reader.ids)) == len(reader.ids)
    for link in reader.sources:
        assert link.startswith("data:image/") or link.removeprefix("#") in reader.ids
    assert not re.search(r"https?://(?!openreview|www\.w3\.org)", html)
    assert not list((tmp_path / "deep").glob("*.part"))
    for word in (
        "Verdict",
        "squares.npz, l2",
        "squares.npz, l1",
        "What it cost",
        "How to reproduce",
        *(f"anisocert verify {shlex.quote(str(run.folder))}" for run in runs),
    ):
        assert word in unescape(html)


def test_the_same_runs_give_the_same_page(runs):
    assert page(compare(runs)) == page(compare(runs))


def test_nothing_in_a_run_becomes_markup(make_run, data, tmp_path):
    folder = tmp_path / "a<b>&"
    turned = f"{EVIL}\u202e\x1b"
    run = make_run(folder.name, data, model=turned, note={EVIL: [EVIL]}, device=EVIL, method=turned)
    text = page(compare([run]))
    assert not re.search(r"[\u202e\x1b]|\\u202e|\\u001b", text)  # which would turn around what follows
    reader = read(text)
    assert reader.tags.count("script") == 2  # the numbers and the drawing
    clean = read(page(compare([make_run("clean", data, model="m", note={"n": ["o"]}, device="d", method="e")])))
    assert {tag: reader.tags.count(tag) for tag in set(reader.tags)} == {
        tag: clean.tags.count(tag) for tag in set(clean.tags)
    }


def test_a_data_set_whose_name_is_markup(make_run, data):
    name = EVIL.replace("/", "")
    path = data.rename(data.with_name(f"{name}.npz"))
    text = page(compare([make_run("a", path, memory=True)]))
    assert read(text).tags.count("script") == 2
    assert name in unescape(text)
    assert name not in text


def test_a_value_that_a_template_lacks_is_an_error():
    import jinja2

    with pytest.raises(jinja2.UndefinedError, match="'methods' is undefined"):
        html.fill("report.html", title="a", subtitle="b")


def test_without_jinja2_the_error_names_the_extra(make_run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    html._environment.cache_clear()
    with pytest.raises(MissingExtraError, match=r"jinja2: pip install 'anisocert\[report\]'"):
        write_report([make_run("a", None)], tmp_path / "deep" / "report.html")
    assert not (tmp_path / "deep").exists()


def test_rows_of_a_memory_that_says_markup(make_run, data):
    import pyarrow as pa

    run = make_run("a", data, memory=True)
    for name in ("memory_note", "reason"):
        place = run.table.column_names.index(name)
        object.__setattr__(run, "table", run.table.set_column(place, name, pa.array([EVIL] * len(run))))
    assert read(page(compare([run]))).tags.count("script") == 2


def test_radii_are_rounded_down(make_run, data):
    group = compare([make_run("a", data)])[0]
    group.entries[0].before.radius[:] = 0.29999999
    group.entries[0].before.proxy_radius[:] = 0.39999999
    html = re.sub(r"<small>[^<]*</small>", "", page([group]))  # upper ends of intervals are rounded up
    assert "0.299" in html
    assert "0.399" in html
    assert "0.300" not in html
    assert "0.400" not in html


def test_a_log_that_says_little(tmp_path):
    from anisocert.evaluate.exchange import import_tsv
    from anisocert.runs import read_run

    file = tmp_path / "log.tsv"
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    lines += [
        f"{i}\t{i % 3}\t{i % 3 if i % 5 else -1}\t{0.1 * (i % 5)}\t{int(i % 5 > 0)}\t0:00:01.5" for i in range(20)
    ]
    file.write_text("\n".join(lines) + "\n")
    import_tsv(file, tmp_path / "run", sigma=0.25, norm="l2", method="fixed")
    html = page(compare([read_run(tmp_path / "run")]))
    read(html)
    assert "80.0 %" in html
    assert "does not say" in html


def test_a_sample_is_called_one(make_run):
    html = page(compare([make_run("a", None, count=300)]), 10)
    assert "A sample: 10 of 300 inputs" in html
    assert html.count("<template") == 10


def test_no_gallery(make_run, data):
    assert "<template" not in page(compare([make_run("a", data)]), 0)


def test_what_the_search_was_told_is_beside_the_command(make_run, data):
    told = make_run("told", data, prefer="volume", domain=[0.0, 1.0])
    assert "anisotropic, preferring volume, domain 0 to 1 (12 inputs)" in page(compare([told]))
    assert "anisotropic (12 inputs)" in page(compare([make_run("usual", data)]))
