"""Whether a certificate can be admitted to a memory at all, and what to do if it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from anisocert.certificate import ABSTAIN, Certificate
from anisocert.errors import ArgumentError
from anisocert.inputs import exact_float32, told
from anisocert.memory._evidence import wrong_with
from anisocert.memory._float_rows import Floats
from anisocert.memory._head import Head
from anisocert.memory.errors import ShapeError
from anisocert.shell import shell_quote


def checked_point(x: Any, name: str = "x") -> Floats:
    """An array, or a tensor on any device, as float64; an error unless float32 holds it, as what was certified."""
    return exact_float32(name, x).astype(np.float64)


def input_of(certificate: Certificate) -> Floats:
    """The input that a certificate is about; an error if it claims more than its votes and its noise give."""
    region = certificate.region
    if (region is None) != (certificate.prediction == ABSTAIN):
        raise ArgumentError(
            f"certificate {certificate.id}: expected a class with a region, or -1 without one, got class "
            f"{certificate.prediction} {'without' if region is None else 'with'} a region"
        )
    if (fault := wrong_with(certificate)) is not None:
        raise ArgumentError(f"certificate {certificate.id}: {fault}")
    if region is not None:
        return checked_point(region.center, f"the centre of certificate {certificate.id}")
    if certificate.x is None:
        # Without it the answer could be "abstain" inside a promised region.
        raise ArgumentError(f"certificate {certificate.id}: expected its input in x, as it abstains, got None")
    return checked_point(certificate.x)


def checked_certificates(given: Any) -> list[Certificate]:
    """What is to be admitted, in order; an error unless each is a certificate."""
    if isinstance(given, Certificate):
        raise ArgumentError("expected several certificates, got one: memory.admit(certificate)")
    if not isinstance(given, Iterable):
        raise ArgumentError(f"expected certificates as ac.certify returns them, got {told(given)}")
    for value in (certificates := list(given)):
        if isinstance(value, list | tuple):
            raise ArgumentError(f"expected one certificate, got {told(value)}: memory.admit_all(certificates)")
        if not isinstance(value, Certificate):
            raise ArgumentError(
                f"expected a certificate, got {told(value)}: certify the input first, or ask memory.lookup(x) about it"
            )
    return certificates


def way_out(place: str | None) -> str:
    """What to do with a memory that belongs to something else. place: where it is, None if in this process alone."""
    if not place:
        return "use a new Memory()"
    return f"use a new file, or empty this one: anisocert memory reset {shell_quote(place)}"


def check_belongs(certificate: Certificate, point: Floats, head: Head, place: str | None) -> None:
    """An error unless model, norm and shape are those of the memory."""
    if head.model_hash is None:
        return
    if certificate.model_hash != head.model_hash:
        raise ArgumentError(
            f"certificate {certificate.id}: expected one of model {head.model_hash}, to which this memory belongs, got "
            f"one of {certificate.model_hash}. Promises hold for one model: {way_out(place)}"
        )
    if certificate.norm != head.norm:
        raise ArgumentError(
            f"certificate {certificate.id}: expected norm l{head.norm}, got l{certificate.norm}. A memory has "
            f"regions of one norm: {way_out(place)}"
        )
    check_shape(point, head)


def check_shape(point: Floats, head: Head) -> None:
    """An error unless a point is of the memory's shape, if it has one yet."""
    if head.shape not in (None, point.shape):
        raise ShapeError(f"x: expected an input of shape {head.shape}, as all in this memory, got {point.shape}")


def check_same_input(stored: Certificate, point: Floats) -> None:
    """An error if an id stands for two inputs: the stored answer would not be an answer to this one."""
    assert stored.region is not None
    if not np.array_equal(stored.region.center, point):
        raise ArgumentError(
            f"certificate {stored.id}: expected the input that is stored with this id, got a different one; give every "
            "input an id of its own (ids=... in certify, or an array ids beside x in an .npz), or use another memory"
        )
