"""What people are told of each method: its name in the help, its words in a verdict, its colours in figures and pages.

What the methods do is in `optimize.METHODS`. This table needs nothing, because help must be quick.
"""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Appearance:
    """How a method appears.

    words: the noise that it gives. light: its colour on paper and bright screens; dark: on dark screens. classifier:
    where the noise is chosen from a codebook, which class the smoothed classifier answers.
    """

    words: str
    light: str
    dark: str
    classifier: str = ""


APPEARANCES: Final[dict[str, Appearance]] = {
    "fixed": Appearance("the same noise for every input", "#7a7f87", "#a2a9b3"),
    "isotropic": Appearance("noise whose strength is chosen for each input", "#d98200", "#f2ad43"),
    "anisotropic": Appearance("noise whose shape is chosen for each input", "#0b63a8", "#6cb6f2"),
    "average": Appearance("one shaped noise for every input", "#b0619a", "#dc98c6"),
    "cascade": Appearance(
        "the largest noise under which the input has an answer", "#2c8f7b", "#62c9b3",
        "the class with more than half of the answers under the first noise, from the largest on, under "
        "which there is one, or else with most answers under the last",
    ),
    "selected": Appearance(
        "noise that a selector chooses for each input", "#8a5a2b", "#d3a06b",
        "the class that is answered most often under the noise that a selector names, by most of its own "
        "answers under noise",
    ),
    "two-step": Appearance(
        "noise that a selector chooses for each noisy copy", "#5b5ea6", "#a6a9f0",
        "the class that is answered most often when a selector names, from one noisy copy of the input, "
        "the noise of the copy that is answered",
    ),
}  # fmt: skip
OTHER: Final = Appearance("another noise", "#444444", "#c8c8c8")


def appearance(method: str, label: str) -> Appearance:
    """How a method appears; one that nobody has described here goes by its label, in a colour that says nothing."""
    return APPEARANCES.get(method) or replace(OTHER, words=label)
