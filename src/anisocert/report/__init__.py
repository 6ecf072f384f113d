"""Figures, the HTML report, and the page of one input's evidence. `ac.report(...)` calls `report`."""

import sys
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from anisocert.report.evidence import Evidence, Implied, evidence_of
from anisocert.report.evidence_page import evidence_page
from anisocert.report.page import page, write_report
from anisocert.report.reporting import Source, draw_curves, report
from anisocert.report.sentence import answer_sentence, assumptions, limit_words, region_sentence, sentence

__all__ = [
    "Evidence",
    "Implied",
    "Source",
    "answer_sentence",
    "assumptions",
    "draw_curves",
    "evidence_of",
    "evidence_page",
    "limit_words",
    "page",
    "region_sentence",
    "report",
    "sentence",
    "write_report",
]


class _Room(ModuleType):
    """The room as a function, so that `ac.report(...)` works although a room has that name."""

    __signature__ = signature(report)

    def __call__(self, *given: Any, **options: Any) -> Path:
        return report(*given, **options)


sys.modules[__name__].__class__ = _Room
