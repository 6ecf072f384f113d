"""Whoever reads a certified accuracy on a page, or in a table for one, reads whom it protects."""

import re
from pathlib import Path

import pytest

from anisocert.evaluate.protection import ADMITTED, EVERYONE, MEANING

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md"))))
CERTIFIED = re.compile(
    r"\d %[^.|]{0,60}\bat (l[12] )?radius|\bcertif\w+ \d[\d.]* %|\bACR~? (of )?\d?\.\d|\bmedian[^.]{0,20} \d\.\d|"
    r"% certified at|\bACR[:~ ][^.]{0,12}\||% at (l[12] )?radius|accuracy abstain ACR"
)


def sections(text):
    """What stands between two headings of a page, its lines joined and emphasis removed."""
    for part in re.split(r"^#+ ", text, flags=re.MULTILINE):
        yield part.split("\n", 1)[0], " ".join(part.replace("*", "").split())


def test_the_search_finds_accuracies_and_leaves_other_numbers():
    for told in ("41.0 % of the images at radius 0.5", "fixed noise certifies 48 % of 100", "ACR 2.148", "ACR .603"):
        assert CERTIFIED.search(told)
    for other in ("95 % confidence", "at most 0.2 %", "57 % of the measured rate"):
        assert not CERTIFIED.search(other)


@pytest.mark.parametrize("page", PAGES)
def test_every_section_with_a_certified_accuracy_says_whom_it_protects(page):
    text = (ROOT / page).read_text("utf-8")
    silent = [
        heading
        for heading, told in sections(text)
        if CERTIFIED.search(told) and not any(phrase in told.lower() for phrase in MEANING)
    ]
    assert silent == []


def test_the_pages_speak_of_accuracies_at_all():
    counts = {
        page: sum(bool(CERTIFIED.search(told)) for _, told in sections((ROOT / page).read_text())) for page in PAGES
    }
    assert counts["README.md"] >= 2
    assert counts["docs/reproduction.md"] >= 5
    assert counts["docs/how-to-choose.md"] >= 3


def test_the_headline_leads_with_what_is_certified_for_everyone():
    text = (ROOT / "README.md").read_text("utf-8").lower()
    everyone, admitted = text.index(EVERYONE), text.index(ADMITTED)
    assert everyone < admitted < text.index("a stranger who comes first")
    assert text.index("<!-- table protection ") < text.index("<!-- table cohen-headline ")
