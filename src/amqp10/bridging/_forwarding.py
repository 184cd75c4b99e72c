"""The changes of a bridge, as an intermediary, to a message: as few as the specification allows (§3.2).

The bare message is passed on unchanged, and so is the header, except that the ttl is reduced by the time that the
message spent here (§3.2.1). Delivery-annotations end with this hop (§3.2.2).

RabbitMQ's further routing keys of a message (the annotation `x-cc`, in 0-9-1 the header CC) have already made their
copies at the source, and would make them again at the target, besides the address given to the bridge. So they are
renamed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ..errors import DecodeError, EncodeError
from ..messaging import patch_header, read_annotations, read_header
from ..types import Symbol

REFUSED: Final = Symbol("x-opt-bridge-refused")
"""The message-annotation with the reason why the target refused a message that was sent to `refused_to`."""

COPIED: Final = Symbol("x-opt-bridge-cc")
"""The message-annotation with the further routing keys that a message had at the source."""

# The further routing keys: the annotation, and dialect 0-9-1's annotation for its header.
_CC: Final = Symbol("x-cc")
_NATIVE, _HEADERS, _CC_HEADER = Symbol("x-opt-0-9-1"), "headers", "CC"

# The usual descriptors of the first two sections (§3.2.1, §3.2.2).
_HEADER: Final = b"\0\x53\x70"
_DELIVERY_ANNOTATIONS: Final = b"\0\x53\x71"
# The number of fields in a header with a time-to-live.
_WITH_TTL: Final = 3
_MESSAGE_ANNOTATIONS: Final = b"\0\x53\x72"
_SHORT_MAP: Final = b"\xc1"
_EMPTY_LIST: Final = 0x45
_SHORT_LIST: Final = 0xC0


def for_next_hop(payload: bytes, waited: float) -> bytes:
    """Return the payload to send on, in nearly every case the same object.

    Args:
        payload: an encoded message; a malformed one is passed on unchanged.
        waited: seconds that the message spent here.
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
    """Return whether the message annotations may have further routing keys, by a cheap search of their octets."""
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
        # Never 0: the target decides whether the message has expired.
        left = timedelta(milliseconds=max(1, ttl - passed))
        return patch_header(payload, delivery_annotations=None, ttl=left)
    except DecodeError:
        return payload


def with_refusal(payload: bytes, why: str) -> bytes:
    """Return the payload with an annotation of the reason `why` the target refused it, unless it is malformed."""
    try:
        return patch_header(payload, message_annotations={REFUSED: why})
    except DecodeError:
        return payload
