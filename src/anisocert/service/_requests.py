"""The key and the body of a request. The body is limited while it is read, and whole before it is parsed."""

import asyncio
import logging
from collections.abc import Callable

from starlette.requests import Request

from anisocert.errors import AnisocertError
from anisocert.service._logging import log
from anisocert.service.errors import RefusedError
from anisocert.service.keys import Key, KeyFile
from anisocert.service.limits import Limits


def key_of(request: Request, keys: KeyFile, right: str | None = None) -> Key:
    """The key that came with a request; refused if there is none, or if it lacks a right."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        key = keys.holder(token.strip()) if kind.lower() == "bearer" else None
    except AnisocertError as error:  # a file that cannot be read gives nobody a right
        log("keys cannot be read", logging.ERROR, error)
        raise RefusedError(503, "the keys of this service cannot be read", 5) from error
    if key is None:
        got = "another" if token.strip() and kind.lower() == "bearer" else "none"
        raise RefusedError(401, f"expected the header Authorization: Bearer KEY with a key of this service, got {got}")
    request.state.key = key.name
    if right is not None and not key.may(right):
        raise RefusedError(403, f"expected a key with the right {right}, got one without")
    return key


async def body_of(request: Request, key: Key, limits: Limits, take: Callable[[int], None]) -> bytes:
    """The body, as long as it is short enough and comes in time. take: called with the size of all that arrives."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "expected a body that is not compressed, got a compressed one")
    most = min(key.most_bytes, limits.body_bytes)
    too_long = RefusedError(413, f"expected a body of at most {most} bytes for this key, got a longer one")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 15 or int(length) > most:
        raise too_long
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_long
                take(len(part))
                parts.append(part)
    except TimeoutError as error:
        raise RefusedError(408, "expected the whole body in time, got a part of it") from error
    return b"".join(parts)
