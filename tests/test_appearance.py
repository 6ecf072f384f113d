"""That every method that ships is described to people, and none like another."""

import re

from anisocert.appearance import APPEARANCES, OTHER, appearance
from anisocert.optimize import CODED, METHODS


def test_every_method_is_described_and_nothing_else():
    assert list(APPEARANCES) == list(METHODS)
    assert all(re.fullmatch(r"[a-z][a-z-]*", method) for method in APPEARANCES)  # the page names its colours so


def test_no_two_look_or_sound_alike():
    every = [*APPEARANCES.values(), OTHER]
    for part in ("words", "light", "dark"):
        assert len({getattr(one, part) for one in every}) == len(every)
    assert all(re.fullmatch("#[0-9a-f]{6}", shade) for one in every for shade in (one.light, one.dark))


def test_which_classifier_is_said_where_a_codebook_makes_it():
    assert tuple(method for method, one in APPEARANCES.items() if one.classifier) == CODED


def test_a_strangers_method_goes_by_its_label():
    one = appearance("theirs", "theirs, run b")
    assert (one.words, one.light, one.dark) == ("theirs, run b", OTHER.light, OTHER.dark)
