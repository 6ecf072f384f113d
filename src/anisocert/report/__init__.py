"""Figures, the HTML report, and the page of one input's evidence."""

from anisocert.report.evidence import Evidence, Implied, evidence_of
from anisocert.report.evidence_page import evidence_page
from anisocert.report.page import page, write_report
from anisocert.report.sentence import assumptions, sentence

__all__ = ["Evidence", "Implied", "assumptions", "evidence_of", "evidence_page", "page", "sentence", "write_report"]
