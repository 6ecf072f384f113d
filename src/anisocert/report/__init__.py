"""Figures, the HTML report, and the page of one input's evidence. `ac.report(...)` calls `report`."""

from anisocert.report.assumptions import assumptions
from anisocert.report.evidence import Evidence, Implied, evidence_of
from anisocert.report.evidence_page import evidence_page
from anisocert.report.page import page, write_report
from anisocert.report.region_words import limit_words, region_sentence
from anisocert.report.reporting import Source, draw_curves, page_file, report
from anisocert.report.sentence import answer_sentence, sentence
from anisocert.rooms import callable_room

__all__ = [
    "Evidence", "Implied", "Source", "answer_sentence", "assumptions", "draw_curves", "evidence_of", "evidence_page",
    "limit_words", "page", "page_file", "region_sentence", "report", "sentence", "write_report",
]  # fmt: skip

callable_room(__name__, report)
