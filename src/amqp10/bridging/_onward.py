"""What the bridge, as an intermediary, changes in a message: as little as the specification lets it (§3.2).

The bare message is passed on octet by octet, and so is the header, but for the time-to-live: "the transmitted message's
header SHOULD contain a ttl that is computed as the difference between the current time and the formerly computed
message expiration time" (§3.2.1). Delivery-annotations are for this hop only (§3.2.2), and end with it.

Carbon copies are at the source already: RabbitMQ's further routing keys of a message (the annotation `x-cc`, in 0-9-1
the header CC) would have the target make them once more, beside the address that the bridge was given. They go on by
another name.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ..errors import DecodeError, EncodeError
from ..messaging import patch_header, read_annotations, read_header
from ..types import Symbol

REFUSED: Final = Symbol("x-opt-bridge-refused")
"""The message-annotation that says why the target refused a message that was sent aside."""

COPIED: Final = Symbol("x-opt-bridge-cc")
"""The message-annotation that has the further routing keys that a message had at the source."""

# How they are said: the annotation, and the header that dialect 0-9-1 keeps in one of its own.
_CC: Final = Symbol("x-cc")
_NATIVE, _HEADERS, _CC_HEADER = Symbol("x-opt-0-9-1"), "headers", "CC"

# The descriptors of the first two sections, as nearly everyone writes them (§3.2.1, §3.2.2).
_HEADER: Final = b"\0\x53\x70"
_DELIVERY_ANNOTATIONS: Final = b"\0\x53\x71"
# Fields of the header up to the time-to-live.
_WITH_TTL: Final = 3
_MESSAGE_ANNOTATIONS: Final = b"\0\x53\x72"
_SHORT_MAP: Final = b"\xc1"
_EMPTY_LIST: Final = 0x45
_SHORT_LIST: Final = 0xC0


def onward(payload: bytes, waited: float) -> bytes:
    """Return the payload as it is sent on; in nearly every case the same object.

    Args:
        payload: an encoded message. One that cannot be read is passed on as it is.
        waited: seconds that it was here.
    """
    passed = _hop(payload, waited)
    return _without_copies(passed) if _may_have_copies(passed) else passed


def _hop(payload: bytes, waited: float) -> bytes:
    if payload[:3] == _HEADER and len(payload) > 6:
        kind = payload[3]
        if kind == _EMPTY_LIST:
            end, count = 4, 0
        elif kind == _SHORT_LIST:
            end, count = 5 + payload[4], payload[5]
        else:
            return _patched(payload, waited)
        if count < _WITH_TTL and payload[end : end + 3] != _DELIVERY_ANNOTATIONS:
            return payload
    elif payload[:2] == b"\0\x53" and payload[:3] != _DELIVERY_ANNOTATIONS:
        return payload
    return _patched(payload, waited)


def _may_have_copies(payload: bytes) -> bool:
    """Return whether the message annotations may name further routing keys; a cheap look at their octets."""
    at = 0
    if payload[:3] == _HEADER and len(payload) > 6:
        at = 4 if payload[3] == _EMPTY_LIST else 5 + payload[4]
    if payload[at : at + 3] != _MESSAGE_ANNOTATIONS:
        return False
    if payload[at + 3 : at + 4] == _SHORT_MAP:
        end = at + 5 + payload[at + 4] if len(payload) > at + 4 else at
    else:
        end = at + 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
    return payload.find(b"x-cc", at, end) >= 0 or payload.find(b"CC", at, end) >= 0


def _without_copies(payload: bytes) -> bytes:
    try:
        annotations = read_annotations(payload)
        keys = annotations.pop(_CC, None)
        native = annotations.get(_NATIVE, {})
        headers = native.get(_HEADERS) if isinstance(native, dict) else None
        if isinstance(headers, dict) and _CC_HEADER in headers:
            left = {name: value for name, value in headers.items() if name != _CC_HEADER}
            annotations[_NATIVE] = {**native, _HEADERS: left}
            keys = headers[_CC_HEADER]
        if keys is None:
            return payload
        bare = patch_header(payload, message_annotations=None)
        return patch_header(bare, message_annotations={**annotations, COPIED: keys})
    except (DecodeError, EncodeError):
        return payload


def _patched(payload: bytes, waited: float) -> bytes:
    passed = int(waited * 1000)
    try:
        ttl = read_header(payload).ttl
        if ttl is None or not passed:
            return patch_header(payload, delivery_annotations=None)
        # Never 0: whether it has expired is for the target to say.
        left = timedelta(milliseconds=max(1, ttl - passed))
        return patch_header(payload, delivery_annotations=None, ttl=left)
    except DecodeError:
        return payload


def marked(payload: bytes, why: str) -> bytes:
    """Return the payload with an annotation that says why the target refused it, if it can be given one."""
    try:
        return patch_header(payload, message_annotations={REFUSED: why})
    except DecodeError:
        return payload
