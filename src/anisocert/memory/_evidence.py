"""What a certificate rests on: whether its numbers follow from its votes, and digests by which it is recognised."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np

from anisocert.bounds import Plan
from anisocert.bounds.schedule import most_share
from anisocert.certificate import ABSTAIN, COUNTING, Certificate
from anisocert.errors import AnisocertError
from anisocert.memory import _kinds as kinds
from anisocert.memory._entry import SCALARS, plain
from anisocert.memory._float_rows import Floats
from anisocert.rounding import TOLERANCE, agrees, portable
from anisocert.smoothing import claimable, impossible, level, named, unnamed, wrong_capture


def digest(certificate: Certificate, point: Floats) -> bytes:
    """A digest of the votes about an input, and of the input and its noise: equal counts of others have another one."""
    c = certificate
    values = [plain(getattr(c, name)) for name in COUNTING]
    if c.noise != unnamed(f"l{c.norm}", c.p_a, c.p_b, c.gap):  # else the rest implies it, as in every earlier memory
        values.append(c.noise)
    if c.codes is not None:
        values += [c.codes, c.selector_top, c.selector_votes, c.selector_alpha, c.selector_sigma]
    hasher = hashlib.sha256(json.dumps(values).encode())
    hasher.update(np.ascontiguousarray(certificate.theta, "<f4").tobytes())
    hasher.update(digest_of_input(point))
    return hasher.digest()


def digest_of_input(point: Floats) -> bytes:
    """A digest of an input. Adding zero merges -0.0 with 0.0."""
    return hashlib.sha256(f"{point.shape}".encode() + (point + 0.0).astype("<f4").tobytes()).digest()


def digest_of_noise(id_: int, seed: int) -> bytes:
    """A digest of the noise that an id and a seed draw, whatever the input is."""
    return hashlib.sha256(f"{int(id_)} {int(seed)}".encode()).digest()


def digest_of_draw(id_: int, seed: int, input_: bytes) -> bytes:
    """A digest of the noise drawn for an input, known before it is drawn."""
    return hashlib.sha256(f"{int(id_)} {int(seed)} ".encode() + input_).digest()


def wrong_with(c: Certificate) -> str | None:
    """What a certificate claims beyond its votes and its noise; None if everything follows from them."""
    for name in SCALARS:  # a row of other types could be stored, but not be read again
        if (fault := kinds.misfit("certificate", name, plain(getattr(c, name)))) is not None:
            return fault
    if not 0 <= c.id < 2**60:
        return f"expected an id in [0, 2**60), got {c.id!r}"
    if not 0 < c.alpha < 1:
        return f"expected alpha in (0, 1), got {c.alpha}"
    if c.prediction == ABSTAIN:
        return None
    return _wrong_counts(c) or _wrong_bounds(c) or _wrong_region(c)


def _wrong_counts(c: Certificate) -> str | None:
    if not 0 <= c.prediction < c.num_classes:
        return f"expected one of {c.num_classes} classes, got {c.prediction}"
    for fault in impossible(vars(c)):
        return f"expected votes that one counting gives, got a certificate that {fault}"
    return None


def _wrong_bounds(c: Certificate) -> str | None:
    try:
        noise, plan = named(c.noise), Plan(bound=c.bound, stop=c.stop)  # type: ignore[arg-type]  # it checks both
        for fault in wrong_capture(vars(c), noise):
            return f"expected what its selector's votes give, got a certificate that {fault}"
        if c.stop is None and c.bound_n != c.votes:
            return f"expected bounds from all {c.votes} votes, as nothing stops them, got those from {c.bound_n}"
        most = most_share(c.bound_n, c.votes) if c.stop == "checkpoints" else 1.0
        p_a, p_b, _ = claimable(noise, plan, vars(c), c.num_classes, most * level(vars(c)))
    except AnisocertError as error:
        return str(error)
    if noise.norm != c.norm:
        return f"expected norm {noise.norm}, which {noise.name} noise has, got norm {c.norm}"
    less = math.inf if c.stop == "checkpoints" else TOLERANCE
    for name, claimed, fresh, better in (("p_a", c.p_a, float(p_a), 1), ("p_b", c.p_b, float(p_b), -1)):
        if not agrees(claimed, fresh, better, less=less, more=portable(fresh)):
            return f"expected {name} = {fresh!r}, which its votes give, got {claimed!r}"
    gap = float(noise.gap(c.p_a, c.p_b))
    if not agrees(c.gap, gap):
        return f"expected the gap that p_a and p_b give under {c.noise} noise, {gap!r}, got {c.gap!r}"
    return None


def _wrong_region(c: Certificate) -> str | None:
    theta = np.asarray(c.theta)
    if theta.dtype != np.float32 or not bool(np.isfinite(theta).all() and (theta > 0).all()):
        return f"expected theta positive and finite, as float32, got {theta.dtype}"
    region = c.region
    assert region is not None
    if region.norm != c.norm or (theta.size > 1 and theta.shape != region.shape):
        return f"expected a region of norm {c.norm} and theta's shape {theta.shape}, got {region}"
    largest = named(c.noise).region(region.center, theta if theta.size > 1 else theta.reshape(()), c.gap, c.cap)
    if not bool((region.axes <= largest.axes).all()):
        excess, most = float((region.axes / largest.axes).max()), "gap x theta" + (" and cap" if c.cap else "")
        return f"expected semi-axes of at most {most}, got {excess:.6g} times that"
    return None
