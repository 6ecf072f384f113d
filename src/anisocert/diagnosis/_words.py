"""What a diagnosis says in plain words: what was found, why inputs abstain, and what to do about it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from anisocert.bounds import Plan
from anisocert.diagnosis.looking import of_chance
from anisocert.diagnosis.probing import MOSTLY, Level
from anisocert.evaluate import ADMITTED, EVERYONE, OWN, above, down, percent

if TYPE_CHECKING:
    from anisocert.diagnosis.diagnosing import Diagnosis

LITTLE = 0.15  # noise, for inputs in [0, 1], that a network may tolerate without having been trained on it
IMAGES = (
    ", from the start (anisocert train --recipe cohen) or, if it is of anisocert's architectures, from its own answers "
    "(--recipe distillation), or a denoiser in front of it (--recipe denoiser, then --denoise)"
)
OTHERS = ": train it yourself, with noise of that sigma added to each batch"  # what `anisocert train` does not take
TOO_SURE, BETTER = 0.75, 1.15  # without noise, and with it by this factor less so: a network that expects noise


def findings(d: "Diagnosis", plan: Plan, most: float, scale: float, doubt: str, images: bool) -> Iterator[str]:
    """Sentences, the most important first. most: share of the most frequent label; scale: range of the inputs.

    doubt: what is wrong before any noise; nothing else that was measured then means much. images: whether the inputs
    are.
    """
    p_a, p_b = plan.best_case(round(1 / d.chance))
    if p_a <= p_b:
        yield (
            f"Every input will abstain, whatever the network: {plan.n} votes are too few for alpha {plan.alpha:g}, "
            "even if all agree. Use more votes (--n) or a larger --alpha."
        )
    if doubt:
        yield doubt
        return
    yield from _training(d, scale)
    yield from _abstention(d, most, scale, images)
    yield _reach(d)
    yield from _choice(d)


def trained_on_noise(d: "Diagnosis", scale: float = 1.0) -> bool:
    """Whether the network seems to have been trained on noise. scale: range of the inputs."""
    matched = next((level for level in d.levels if level.sigma == d.matches), d.clean)
    expects = d.clean.sharpness < TOO_SURE and matched.sharpness > BETTER * d.clean.sharpness
    return d.matches > LITTLE * scale or expects


def lost(d: "Diagnosis") -> list[Level]:
    """Levels, of the first norm, of noise that the network does not stand."""
    first = (level for level in d.levels if level.norm == d.levels[0].norm)
    return [level for level in first if level.abstained >= MOSTLY or level.certified < MOSTLY * d.clean.smoothed]


def _share(share: float, upper: bool = False) -> str:
    return f"{percent(share, upper, digits=0)}%"


def _training(d: "Diagnosis", scale: float) -> Iterator[str]:
    words = f"Without noise it answers {_share(d.clean.accuracy)} correctly."
    if trained_on_noise(d, scale):
        words += (
            f" It copes with noise like a network that was trained on it, of about {d.matches:.2g}: up to there its "
            "confidence matches its accuracy."
        )
    else:
        limit = f", or with {d.matches:.2g} at most" if d.matches > 0 else ""
        words += (
            f" It seems to have been trained without noise{limit}: with more noise, its accuracy falls but its "
            "confidence does not."
        )
    if d.trained is not None:
        words += f" Its file says that it was trained with {d.trained:g}."
    yield words


def _abstention(d: "Diagnosis", most: float, scale: float, images: bool) -> Iterator[str]:
    """Why inputs abstain, at the noise that is usual in the field and beyond what the network tolerates."""
    first = [level for level in d.levels if level.norm == d.levels[0].norm]
    too_much = lost(d)
    if too_much:
        level = too_much[0]
        yield (
            f"From noise of {level.sigma:.3g} on, {_fate(level)}: its accuracy on noisy inputs is "
            f"{_share(level.accuracy)} there (chance: {of_chance(d.chance)}). A smoothed classifier is the vote over "
            "noisy inputs, and a vote of wrong answers is wrong, or too close to prove."
        )
    one_class = [level for level in first if level.largest_class > max(2 * most, MOSTLY)]
    if one_class:
        level = one_class[0]
        yield (
            f"From noise of {level.sigma:.3g} on it gives {_share(level.largest_class)} of all noisy inputs the same "
            "answer: certificates there are large and mean nothing."
        )
    if too_much and not trained_on_noise(d, scale):
        yield (
            f"For more than that it needs training on noise{IMAGES if images else OTHERS}; more votes will "
            f"not help.{' The commands are below.' if d.remedies else ''}"
        )


def _fate(level: Level) -> str:
    if level.abstained >= MOSTLY:
        return f"{_share(level.abstained, True)} of the inputs abstain"
    return f"only {_share(level.certified)} of the inputs are certified correctly"


def _reach(d: "Diagnosis") -> str:
    best = _recommended(d)
    return (
        f"At noise {best.sigma:.3g} ({best.norm}) no certificate with fixed noise can exceed a radius of "
        f"{above(best.farthest)}, however clear the votes; the mean over this sample is estimated "
        f"at {down(best.mean_radius)}, with {_share(best.certified)} certified correctly. With fixed noise that would "
        f"be {EVERYONE}."
    )


def _choice(d: "Diagnosis") -> Iterator[str]:
    r, best = d.recommendation, _recommended(d)
    if not r.useful:
        yield f"Nothing here certifies well. The best of what was tried is noise {r.sigma:.3g} in {r.norm}."
        return
    why = {
        "l2": "an l2 certificate also covers l1 changes of the same length, and l1 noise would not reach clearly "
        "farther here",
        "l1": "it reaches farther than l2 does, for changes of few values; against changes of all values take l2",
    }
    how = {
        "anisotropic": "the shape of the noise is chosen for each input",
        "isotropic": "the network gives no gradients, so that only the strength of the noise is chosen for each input",
    }
    both_norms = len({level.norm for level in d.levels}) > 1
    yield (
        f"Recommended: noise {r.sigma:.3g}, in {r.norm} the one with the largest mean radius among those that certify "
        f"nearly as many as any ({_share(best.certified)}); {r.norm}{': ' + why[r.norm] if both_norms else ''}; "
        f"{r.method}: {how[r.method]}, which alone is {OWN}. With a memory it is {ADMITTED}; where none can be kept, "
        f"or answers must be {EVERYONE}: fixed."
    )


def _recommended(d: "Diagnosis") -> Level:
    r = d.recommendation
    return next(level for level in d.levels if (level.sigma, level.norm) == (r.sigma, r.norm))
