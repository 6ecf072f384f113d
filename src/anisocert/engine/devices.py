"""Devices as a user names them."""

from collections.abc import Sequence

import torch

from anisocert.errors import ArgumentError


def devices_of(text: str) -> list[str]:
    """The devices in "auto", "cpu", "cuda" or "cuda:0,cuda:1"; all of one kind, because kinds round differently."""
    if text == "auto":
        return ["cuda" if torch.cuda.is_available() else "cpu"]
    devices = [part.strip() for part in text.split(",")]
    try:
        kinds = {torch.device(device).type for device in devices}
    except RuntimeError:
        kinds = set()
    if not kinds or not kinds <= {"cpu", "cuda"}:
        raise ArgumentError(f"expected auto, cpu, cuda or cuda:0,cuda:1 as device, got {text!r}")
    if len(kinds) > 1:
        raise ArgumentError(f"expected devices of one kind, got {text!r}: they round differently")
    return devices


def device_kind(devices: Sequence[str]) -> str:
    """cpu or cuda."""
    return torch.device(devices[0]).type
