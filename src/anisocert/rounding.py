"""How far numbers that were rounded may be from each other, and on which side."""

TOLERANCE = 1e-9
"""Relative; what recomputed numbers may differ by."""
PORTABLE = 1e-13
"""Relative; what a claim may exceed the recomputed one by, because two machines' libraries differ in the last digits.
Gaps are rounded down by ten times as much, so that it stays a true claim. Radii follow from gap and theta by products
alone, which are the same everywhere: they get nothing."""
