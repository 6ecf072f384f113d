"""Figures and the HTML report."""

from anisocert.report.page import page, write_report

__all__ = ["page", "write_report"]
