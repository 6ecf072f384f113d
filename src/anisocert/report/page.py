"""The report: one HTML file that holds everything it shows."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from anisocert import __version__
from anisocert.durable import write_whole
from anisocert.evaluate import Comparison, compare, summary, tables_of
from anisocert.evaluate.beside_paper import RULES
from anisocert.evaluate.protection import MEANING
from anisocert.report.charts import curves, histograms
from anisocert.report.gallery import Card, cards
from anisocert.report.html import table_html, tag, words
from anisocert.report.inputs import Inputs, inputs_of
from anisocert.report.provenance import provenance
from anisocert.report.sampling import chosen
from anisocert.report.verdict import verdict
from anisocert.runs import StoredRun
from anisocert.verify.backing import memory_backing

CURVES = (
    "Share of inputs that are answered correctly with a certificate of at least a size; behind each name, whom such a "
    "certificate protects. Shaded: 95 % confidence of the last curve about inputs not seen. Point at a curve to read "
    "it; click a name to hide it."
)
MADE = f"Made by anisocert {__version__}. Radii are rounded down wherever they are shown."
GLOSSARY = {
    "radius": "Every change of at most this length (l2: square root of the sum of squares; l1: sum of absolute values) "
    "stays inside the certified region. Whose answer does not change in there is said beside every number:",
    **{phrase: f"{meaning[0].upper()}{meaning[1:]}." for phrase, meaning in MEANING.items()},
    "proxy radius": "Radius of the ball with as much volume as the certified region. The region itself is longer in "
    "some directions and never shorter than the radius.",
    "certified accuracy": "Share of inputs that are answered correctly with a certificate of at least a given size.",
    "envelope, oracle": RULES,
    "ACR, ACR~": "Average certified radius, and average proxy radius; inputs that are answered wrongly count 0.",
    "noise θ, σ, λ": "The classifier is asked about many noisy copies of an input. θ is the strength of the noise, for "
    "each value of the input; σ (Gaussian, l2) and λ (uniform, l1) the one strength that the search begins with.",
    "gap r": "How clearly the winning class leads, in units of the noise. The region is all δ with ‖δ/θ‖ < r.",
    "memory": "Where the noise is chosen for each input, two regions of different classes may overlap. A memory of "
    "all answers so far makes them disjoint, so that the system keeps every promise from the moment it is made: under "
    "the policy inherit it gives the promised class, under abstain and worst-case the class or no answer.",
    "α": "Probability that the certificate of one given input is wrong, over noise that was drawn for it alone. Where "
    "the best of several runs is taken, theirs add up.",
}


def write_report(runs: Sequence[StoredRun], out: Path, gallery: int = 24) -> None:
    """Write the report on some runs. gallery: how many inputs of each comparison are shown one by one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    text = page(compare(runs), gallery)
    write_whole(out, lambda part: part.write_text(text, "utf-8"))


def page(comparisons: Sequence[Comparison], gallery: int = 24) -> str:
    """The report as HTML."""
    tags = [chosen(comparison, gallery) for comparison in comparisons]
    inputs = [inputs_of(comparison, list(ids)) for comparison, ids in zip(comparisons, tags, strict=True)]
    numbers = [curves(comparison) | {"histograms": histograms(comparison)} for comparison in comparisons]
    body = [
        _top(comparisons),
        tag(
            "main", _verdicts(comparisons, inputs), *_sections(comparisons, tags, inputs, numbers),
            provenance(comparisons),
        ),
        _foot(),
        _dialog(),
    ]  # fmt: skip
    style, script = (files("anisocert.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    return "\n".join(
        [
            "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
            f'<meta name="generator" content="anisocert {__version__}">',  # by which --out knows its own files
            '<meta name="viewport" content="width=device-width, initial-scale=1">', _policy(style, script),
            words("title", _title(comparisons)), f"<style>{style}</style>", "</head>", "<body>", *body,
            f'<script type="application/json" id="numbers">{_json(numbers)}</script>', f"<script>{script}</script>",
            "</body>", "</html>", "",
        ]
    )  # fmt: skip


def _policy(style: str, script: str) -> str:
    """Nothing is loaded from anywhere, and no script runs but the report's own."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    content = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest(script)}'"
    return f'<meta http-equiv="Content-Security-Policy" content="{content}">'


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _title(comparisons: Sequence[Comparison]) -> str:
    return f"Robustness certificates: {', '.join(dict.fromkeys(c.data for c in comparisons))}"


def _top(comparisons: Sequence[Comparison]) -> str:
    count = sum(len(comparison.entries) for comparison in comparisons)
    methods = dict.fromkeys(entry.before.method for c in comparisons for entry in c.entries)
    inputs = " and ".join(dict.fromkeys(f"{len(c):,}" for c in comparisons))
    said = f"{inputs} inputs · {count} run{'s' if count > 1 else ''} · {', '.join(methods)} noise"
    links = [("verdict", "Verdict")]
    links += [(f"part-{i}", f"{c.data}, {c.norm}") for i, c in enumerate(comparisons)]
    links += [("reproduce", "How to reproduce"), ("words", "Words")]
    return tag(
        "header", words("h1", _title(comparisons)), words("p", said, class_="soft"),
        tag("nav", *(words("a", text, href=f"#{place}") for place, text in links)), class_="top",
    )  # fmt: skip


def _verdicts(comparisons: Sequence[Comparison], inputs: Sequence[Inputs]) -> str:
    made = []
    for comparison, known in zip(comparisons, inputs, strict=True):
        found = verdict(comparison, known.dim, known.unit_range)
        tiles = [
            tag("div", words("b", t.value), words("span", t.name), words("small", t.note), class_="tile")
            for t in found.tiles
        ]
        made.append(
            tag(
                "article", words("p", f"{comparison.data}, {found.title}", class_="kind"),
                words("p", found.lead, class_="lead"), tag("div", *tiles, class_="tiles"),
                tag("ul", *(words("li", point) for point in found.points)) if found.points else "",
                *(words("p", line, class_="caution") for line in (*found.cautions, *_unbacked(comparison))),
                class_="card verdict",
            )
        )  # fmt: skip
    return tag("section", words("h2", "Verdict"), *made, id="verdict")


def _unbacked(comparison: Comparison) -> list[str]:
    """What could not be derived again from the memories that the runs name."""
    told = {entry.label: memory_backing(entry.run) for entry in comparison.entries}
    return [f"{label}: {line}" for label, line in told.items() if line is not None]


def _sections(
    comparisons: Sequence[Comparison],
    tags: Sequence[dict[int, list[str]]],
    inputs: Sequence[Inputs],
    numbers: Sequence[dict[str, Any]],
) -> list[str]:
    made = []
    for i, (comparison, ids, known) in enumerate(zip(comparisons, tags, inputs, strict=True)):
        parts = [words("h2", f"{comparison.data}, {comparison.norm}"), _curves(i)]
        first, *others = tables_of(comparison)
        by_volume = table_html(summary(comparison, size="proxy_radius"))
        parts += [words("h3", "Tables"), table_html(first)]
        parts.append(tag("details", words("summary", "The same at proxy radii"), by_volume))
        parts += [table_html(table) for table in others]
        parts.append(_noise(i, numbers[i]["histograms"]))
        parts.append(_gallery(i, comparison, cards(comparison, ids, known), known))
        made.append(tag("section", *parts, id=f"part-{i}"))
    return made


def _curves(i: int) -> str:
    figures = [
        tag("figure", data_size=size, data_title=f"certified accuracy by {size.replace('_', ' ')}")
        for size in ("radius", "proxy_radius")
    ]
    return tag(
        "div", words("h3", "Certified accuracy"),
        words("p", CURVES, class_="small soft"),
        "<noscript><p>The curves need JavaScript; the tables below hold the same numbers.</p></noscript>",
        tag("div", class_="controls"), tag("div", class_="legend"), tag("div", *figures, class_="charts"),
        tag("p", class_="note small soft"), class_="curves", id=f"curves-{i}",
    )  # fmt: skip


def _noise(i: int, found: Sequence[dict[str, Any]]) -> str:
    if not found:
        return ""
    figures = [tag("figure", data_title=one["title"]) for one in found]
    return tag(
        "div", words("h3", "Where the size comes from"), tag("div", *figures, class_="charts four"), id=f"noise-{i}"
    )


def _gallery(i: int, comparison: Comparison, shown: Sequence[Card], inputs: Inputs) -> str:
    if not shown:
        return ""
    said = f"All {len(comparison):,} inputs."
    if len(shown) < len(comparison):
        said = (
            f"A sample: {len(shown)} of {len(comparison):,} inputs: those with the largest, the smallest and the least "
            "round certificates, some answered wrongly or not at all or changed by the memory, the rest evenly spaced."
        )
    said += f" Pictures and sentences are of the run {comparison.headline.label}. Select one to see more."
    if inputs.missing:
        said += f" The inputs themselves are not shown: {inputs.missing}."
    content = [_card(i, card) for card in shown]
    return tag(
        "div", words("h3", "Input by input"), words("p", said, class_="small soft"), tag("div", class_="controls"),
        tag("div", *(button for button, _ in content), class_="gallery"), *(detail for _, detail in content),
    )  # fmt: skip


def _card(i: int, card: Card) -> tuple[str, str]:
    """(what is seen in the gallery, what opens)."""
    place = f"input-{i}-{card.id}"
    size = f"radius {card.radius}" if card.radius else "no certificate"
    pair = (
        tag("div", *(_picture(p.content, p.caption) for p in card.pictures[:2]), class_="pair") if card.pictures else ""
    )
    button = tag(
        "button", pair, words("b", card.title, class_=card.mood), words("small", f"input {card.id}, {size}"),
        type="button", data_detail=place, data_title=f"Input {card.id}: {card.title}", data_tags=" ".join(card.tags),
    )  # fmt: skip
    pictures = [tag("figure", _picture(p.content, p.caption), words("figcaption", p.caption)) for p in card.pictures]
    detail = tag(
        "template", tag("div", *pictures, class_="pictures"), *(words("p", line) for line in card.lines),
        table_html(card.table), id=place,
    )  # fmt: skip
    return button, detail


def _picture(content: str, caption: str) -> str:
    if content.startswith("<svg"):
        return content
    smooth = " smooth" if content.startswith("data:image/jpeg") else ""
    return f'<img class="picture{smooth}" src="{content}" alt="{escape(caption)}">'


def _dialog() -> str:
    buttons = tag(
        "div", words("button", "←", type="button", aria_label="previous"),
        words("button", "→", type="button", aria_label="next"), words("button", "close", type="button"),
    )  # fmt: skip
    return tag("dialog", tag("header", tag("h3"), buttons), tag("div", class_="content"), aria_label="one input")


def _foot() -> str:
    meanings = "".join(words("dt", word) + words("dd", meaning) for word, meaning in GLOSSARY.items())
    return tag(
        "footer", words("h3", "Words"), tag("dl", meanings),
        words("p", MADE, class_="small soft"),
        id="words",
    )  # fmt: skip
