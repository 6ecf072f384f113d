"""Figures, the HTML report, and the page of one input's evidence."""

from anisocert.report.evidence import Evidence, Implied, evidence_of
from anisocert.report.evidence_page import evidence_page
from anisocert.report.page import page, write_report
from anisocert.report.sentence import assumptions, limit_words, region_sentence, sentence

__all__ = [
    "Evidence",
    "Implied",
    "assumptions",
    "evidence_of",
    "evidence_page",
    "limit_words",
    "page",
    "region_sentence",
    "sentence",
    "write_report",
]
