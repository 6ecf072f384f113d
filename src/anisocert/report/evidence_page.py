"""One input's evidence as an HTML file that holds everything it shows."""

from collections.abc import Iterator

from anisocert.report._html import fill
from anisocert.report._provenance import command, functions
from anisocert.report.assumptions import assumptions
from anisocert.report.evidence import Evidence
from anisocert.report.evidence_tables import implied_table, memory_table, vote_counts, votes_table
from anisocert.report.gallery import NOTES, cards
from anisocert.report.region_words import limit_words, region_sentence
from anisocert.report.sentence import sentence
from anisocert.shell import shell_join


def evidence_page(evidence: Evidence) -> str:
    """The evidence as HTML."""
    e, row = evidence, evidence.row
    noise = f"{row['method']} noise, {e.comparison.symbol} = {row['sigma']:g}, {row['norm']}"
    return fill(
        "evidence.html", title=f"Input {e.id} of {e.comparison.data}: {e.name(e.prediction)}",
        subtitle=f"{e.label} · {noise} · run {e.run.folder.name}",
        evidence=e, sentence=sentence(e), assumptions=assumptions(e),
        pictures=cards(e.comparison, {e.id: []}, e.inputs)[0].pictures,
        region=region_sentence(e), balls=None if e.binding is None else implied_table(e),
        votes=vote_counts(e), facts=votes_table(e), limit=limit_words(e),
        memory=memory_table(e) if e.note else None, memory_note=NOTES.get(e.note, e.note), commands=list(_commands(e)),
    )  # fmt: skip


def _commands(e: Evidence) -> Iterator[str]:
    """How to check the evidence, to try to break it, and to make it again."""
    typed = functions(e.run)
    yield shell_join(("anisocert", "verify", e.run.folder, "--recount", "10", *typed))
    yield shell_join(("anisocert", "attack", e.run.folder, "--ids", str(e.id), *typed))
    if again := command(e.comparison.entries[0]):
        yield again
