"""One input's evidence as an HTML file that holds everything it shows."""

import shlex
from collections.abc import Iterator
from html import escape
from importlib.resources import files

import numpy as np

from anisocert import __version__
from anisocert.certificate import ABSTAIN
from anisocert.evaluate import Cell, Column, Table, down
from anisocert.memory.policy import INHERITED
from anisocert.models.loading import is_function
from anisocert.report.evidence import Evidence
from anisocert.report.gallery import NOTES, cards
from anisocert.report.html import table_html, tag, words
from anisocert.report.provenance import command
from anisocert.report.sentence import FINE, PIXEL, assumptions, limit_words, region_words, sentence

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
MORE = """
.votes { display: grid; grid-template-columns: max-content 1fr max-content; gap: .25rem .8rem; max-width: 40rem; }
.votes i { background: var(--accent); border-radius: .2rem; min-width: 1px; height: 1.1em; align-self: center; }
blockquote { margin: 1rem 0; padding: .2rem 0 .2rem 1rem; border-left: 3px solid var(--accent); font-size: 1.08rem; }
"""


def evidence_page(evidence: Evidence) -> str:
    """The evidence as HTML."""
    e = evidence
    title = f"Input {e.id} of {e.comparison.data}: {e.name(e.prediction)}"
    label = f"its label is {e.name(int(e.row['label']))}"
    body = [
        tag("header", words("h1", title), words("p", f"{label} · {_run(e)}", class_="soft"), class_="top"),
        tag("main", *_parts(e)),
        tag("footer", words("p", f"Made by anisocert {__version__}. Lengths are rounded down.", class_="small soft")),
    ]
    style = files("anisocert.report").joinpath("page.css").read_text("utf-8") + MORE
    return "\n".join(
        [
            "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
            f'<meta name="generator" content="anisocert {__version__}">',  # by which --out knows its own files
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">', words("title", title),
            f"<style>{style}</style>", "</head>", "<body>", *body, "</body>", "</html>", "",
        ]
    )  # fmt: skip


def _run(e: Evidence) -> str:
    sign = "σ" if e.row["norm"] == "l2" else "λ"
    return f"{e.row['method']} noise, {sign} = {e.row['sigma']:g}, {e.row['norm']} · run {e.run.folder.name}"


def _parts(e: Evidence) -> Iterator[str]:
    yield words("h2", "What may be quoted")
    yield tag("blockquote", words("p", sentence(e)))
    yield tag("ul", *(words("li", one) for one in assumptions(e)))
    card = cards(e.comparison, {e.id: []}, e.inputs)[0]
    if card.pictures:
        yield words("h2", "Pictures")
        figures = [tag("figure", _picture(p.content, p.caption), words("figcaption", p.caption)) for p in card.pictures]
        yield tag("div", *figures, class_="pictures")
    if e.inputs.missing:
        yield words("p", f"The input itself is not shown: {e.inputs.missing}.", class_="small soft")
    yield words("h2", "The region")
    yield from _regions(e)
    yield words("h2", "Votes and bounds")
    yield from _votes(e)
    yield table_html(votes_table(e))
    if limited := limit_words(e):
        yield words("p", limited)
    if e.note:
        yield words("h2", "The memory")
        yield words("p", NOTES.get(e.note, e.note))
        yield table_html(memory_table(e))
    yield words("h2", "How to check it")
    again = command(e.run.description, e.comparison.entries[0])
    folder = shlex.quote(str(e.run.folder))
    said = {option: str(e.run.description.get(option) or "") for option in ("model", "denoise")}
    typed = "".join(f" --{option} {text}" for option, text in said.items() if is_function(text))  # a run may name none
    lines = [f"anisocert verify {folder} --recount 10{typed}", f"anisocert attack {folder} --ids {e.id}{typed}"]
    yield words("pre", "\n".join([*lines, *([again] if again else [])]))


def _regions(e: Evidence) -> Iterator[str]:
    if e.binding is None:
        yield words("p", "There is none.")
        return
    yield words("p", f"It is {region_words(e.binding, str(e.row['norm']))}, around the input.")
    yield table_html(implied_table(e))


def implied_table(e: Evidence) -> Table:
    """The balls inside the region that is promised in the end."""
    assert e.binding is not None
    balls = e.implied(e.binding)
    columns = [Column("ball inside the region"), Column("radius")]
    pixels = [Column("in pixel units, 0 to 255")] if balls[0].pixels is not None else []
    rows = []
    for one in balls:
        row = [Cell(one.norm.replace("_inf", "∞")), Cell(down(one.radius, FINE))]
        rows.append((*row, *([Cell(down(one.pixels, PIXEL))] if one.pixels is not None else [])))
    return Table("", tuple(columns + pixels), tuple(rows))


def votes_table(e: Evidence) -> Table:
    """The numbers that the certificate follows from."""
    row = e.row
    facts = {
        "votes": f"{row['votes']:,}", f"for {_top(e)}": f"{row['top_votes']:,}",
        "for the next class": f"{row['runner_up_votes']:,}", "bound": str(row["bound"]),
        "taken after": f"{row['bound_n']:,} votes ({row['bound_k']:,} for the class)", "alpha": f"{row['alpha']:g}",
        "lower bound of its share, p_A": f"{row['p_a']:.6f}", "upper bound of any other, p_B": f"{row['p_b']:.6f}",
        "gap r": down(row["gap"], FINE), "noise θ": _theta(e),
    }  # fmt: skip
    if row["reason"]:
        facts["why it abstains"] = str(row["reason"])
    if e.note == INHERITED:
        facts["note"] = "these are the votes on this input itself; the answer rests on those of the promise"
    return _facts(facts)


def memory_table(e: Evidence) -> Table:
    """What was proposed to the memory, and what it made of it."""
    row, facts = e.row, dict[str, str]()
    facts["proposed"] = e.name(int(row["prediction"]))
    if e.region is not None:
        facts["proposed region"] = region_words(e.region, str(row["norm"]))
    facts["what it did"] = e.note
    facts["answer"] = e.name(e.prediction)
    if e.binding is not None:
        kept = region_words(e.binding, str(row["norm"]))
        facts["promised region"] = kept if e.whole else f"at least {kept}"
    if e.promise is not None and e.note == INHERITED:
        facts["promised to"] = f"input {e.promise.id}"
    return _facts(facts)


def _facts(facts: dict[str, str]) -> Table:
    rows = tuple((Cell(name), Cell(value)) for name, value in facts.items())
    return Table("", (Column(""), Column("")), rows)


def _top(e: Evidence) -> str:
    """The class that the votes are of: an abstention does not say which."""
    return "the leading class" if e.row["prediction"] == ABSTAIN else e.name(int(e.row["prediction"]))


def _theta(e: Evidence) -> str:
    low, high = float(e.theta.min()), float(e.theta.max())
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, geometric mean {e.row['theta_geomean']:.4g}"


def _votes(e: Evidence) -> Iterator[str]:
    """Bars, one a class that has votes; without a recount, of the two that the run keeps."""
    bars = []
    for name, count in vote_counts(e):
        share = count / e.row["votes"]
        bars += [
            words("span", name), tag("span", tag("i", style=f"display:block;width:{share * 100:.2f}%")),
            words("span", f"{count:,} ({share:.2%})"),
        ]  # fmt: skip
    yield tag("div", *bars, class_="votes")


def vote_counts(e: Evidence) -> list[tuple[str, int]]:
    """(class, votes), most first."""
    if e.counts is not None:
        order = np.argsort(-e.counts, kind="stable")
        return [(e.name(int(label)), int(e.counts[label])) for label in order if e.counts[label]]
    rest = e.row["votes"] - e.row["top_votes"]
    # The runner-up's votes are those among the first bound_n; where all were counted by then, the rest is known too.
    if e.row["bound_n"] == e.row["votes"]:
        second = e.row["runner_up_votes"]
        found = [(_top(e), e.row["top_votes"]), ("the next class", second), ("all others", rest - second)]
        return [one for one in found if one[1]]
    return [(_top(e), e.row["top_votes"]), ("all other classes", rest)]


def _picture(content: str, caption: str) -> str:
    return content if content.startswith("<svg") else f'<img class="picture" src="{content}" alt="{escape(caption)}">'
