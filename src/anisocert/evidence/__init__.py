"""One input's evidence: what was promised about it, why, and the sentence that may be quoted."""

from anisocert.evidence.gathering import Evidence, Implied, evidence_of
from anisocert.evidence.page import evidence_page
from anisocert.evidence.sentence import assumptions, sentence

__all__ = ["Evidence", "Implied", "assumptions", "evidence_of", "evidence_page", "sentence"]
