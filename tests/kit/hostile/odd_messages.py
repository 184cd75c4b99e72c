"""Messages that nobody expects, in encodings that need not be right."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from amqp10.messaging import (
    Message,
)
from amqp10.types import Decimal32, Decimal64, Decimal128, Symbol

SNAN = Decimal("sNaN")


BODY = b"\x00\x53\x75\xa0\x01x"


def section(code: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + value + BODY


def deaths(*each: object) -> bytes:
    """A message that claims to have died before."""
    return Message(b"x", message_annotations={Symbol("x-death"): list(each)}).encode()


def message(**fields: Any) -> bytes:
    return Message(b"x", **fields).encode()


# A payload and its message-format.
MESSAGES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 0),
    "no message": (b"\xff\xfe\xfd", 0),
    "one octet": (b"\xc1", 0),
    "half a descriptor": (b"\x00", 0),
    "half a wide descriptor": (b"\x00\x80\x00", 0),
    "half a name": (b"\x00\xa3", 0),
    "an unknown section": (b"\x00\x53\x79\x40", 0),
    "cut off": (message(subject="long enough")[:-9], 0),
    "sections twice": (message(subject="a") + message(subject="b"), 0),
    "sections in no order": (BODY + b"\x00\x53\x70\x45", 0),
    "descriptors of another width": (b"\x00\x80" + bytes(7) + b"\x70\x45" + BODY, 0),
    "descriptors by name": (b"\x00\xa3\x10amqp:header:list" + b"\x45" + BODY, 0),
    "a malformed header": (section(0x70, b"\xc0\x03\x01\xa1\x09"), 0),
    "a priority that is none": (section(0x70, b"\xc0\x08\x02\x42\x74\x7c\x00\x00\x00\x00"), 0),
    "malformed delivery annotations": (section(0x71, b"\xc1\x02\x01\xa3"), 0),
    "malformed annotations": (section(0x72, b"\xc1\x02\x01\xa3"), 0),
    "annotations that are none": (section(0x72, b"\x40"), 0),
    "malformed properties": (section(0x73, b"\xc0\x03\x01\xa1\x09"), 0),
    "malformed application-properties": (section(0x74, b"\xc1\x04\x02\xa1\x01x"), 0),
    "application-properties that are none": (section(0x74, b"\x45"), 0),
    "application-properties with numbers for names": (section(0x74, b"\xc1\x03\x02\x43\x40"), 0),
    "NaN32": (message(application_properties={"x": Decimal32(SNAN)}), 0),
    "NaN64": (message(application_properties={"x": Decimal64(SNAN)}), 0),
    "NaN128": (message(application_properties={"x": Decimal128(SNAN)}), 0),
    "NaN for an id": (message(application_properties={"_AMQ_DUPL_ID": Decimal128(SNAN)}), 0),
    "NaN in annotations": (message(message_annotations={Symbol("x-a"): Decimal128(SNAN)}), 0),
    "NaN in a list": (message(message_annotations={Symbol("x-a"): [Decimal128(SNAN)]}), 0),
    "NaN for a key": (section(0x72, b"\xd1\x00\x00\x00\x16\x00\x00\x00\x02\x94\x7e" + bytes(15) + b"\x40"), 0),
    "NaN in a body": (Message({"x": [Decimal128(SNAN)]}).encode(), 0),
    "huge decimal": (message(application_properties={"x": Decimal128(Decimal("9E6144"))}), 0),
    "deaths that are none": (deaths(1, None, [], "x"), 0),
    "deaths with NaN": (deaths(*2 * [{"queue": "q", "reason": "rejected", "count": Decimal128(SNAN)}]), 0),
    "deaths of NaN": (deaths(*2 * [{"queue": Decimal128(SNAN), "reason": Decimal128(SNAN)}]), 0),
    "a count without end": (deaths({"queue": "q", "reason": "rejected", "count": 2**63 - 1}), 0),
    "a claim to be rejected": (deaths({"queue": "other", "reason": "rejected", "count": 1}), 0),
    "an exchange that is none": (
        message(message_annotations={Symbol("x-exchange"): 7, Symbol("x-routing-key"): b"\xff" * 300}),
        0,
    ),
    "a long routing key": (
        message(message_annotations={Symbol("x-exchange"): "e" * 300, Symbol("x-routing-key"): "ö" * 300}),
        0,
    ),
    "odd headers of 0-9-1": (message(message_annotations={Symbol("x-opt-0-9-1"): {"headers": [1], "children": 7}}), 0),
    "odd headers of 0-10": (message(message_annotations={Symbol("x-opt-0-10"): {"rest": 1, "own": []}}), 0),
    "further keys that are none": (message(message_annotations={Symbol("x-cc"): [1]}), 0),
    "no time to live": (message(ttl=timedelta(0)), 0),
    "expired": (section(0x73, b"\xc0\x13\x0a" + 8 * b"\x40" + b"\x83" + bytes(8) + b"\x40"), 0),
    "expires before all time": (section(0x73, b"\xc0\x13\x0a" + 8 * b"\x40" + b"\x83\x80" + bytes(7) + b"\x40"), 0),
    "expires after all time": (section(0x73, b"\xc0\x13\x0a" + 8 * b"\x40" + b"\x83\x7f" + 7 * b"\xff" + b"\x40"), 0),
    "a foreign format": (b"anything", 7),
    "nothing of a foreign format": (b"", 0xFFFFFFFF),
    "a foreign format like ours": (message(priority=9, subject="s", message_annotations={Symbol("x-cc"): ["cc"]}), 1),
}
