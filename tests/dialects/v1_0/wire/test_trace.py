"""Frames as lines: what is in them, and what never is."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, HEARTBEAT, SASL_HEADER, encode_frame, encode_sasl_frame
from amqp10.dialects.v1_0.wire.performatives import Attach, Begin, SaslInit, SaslResponse, Transfer
from amqp10.dialects.v1_0.wire.trace import FrameDirection, FrameTracer
from amqp10.messaging import Message, Source, Target

from ....kit.inside.engines import SHOWN_BODY


def attach(handle: int, address: str, role: bool = False) -> bytes:
    """An attach frame of a link to or from the address, on channel 1."""
    source, target = (Source(address), Target("me")) if role else (Source("me"), Target(address))
    return encode_frame(1, Attach(name="l", handle=handle, role=role, source=source, target=target))


def transfer(handle: int, payload: bytes) -> bytes:
    """A transfer frame on channel 1."""
    return encode_frame(1, Transfer(handle=handle, delivery_id=0, delivery_tag=b"t"), payload)


def test_lines() -> None:
    """A header, a frame with its channel and size, an empty frame: one line each, with the direction."""
    tracer = FrameTracer()
    begin = encode_frame(3, Begin(next_outgoing_id=7, incoming_window=8, outgoing_window=9))
    assert tracer.sent(AMQP_HEADER + begin) == [
        "> header AMQP 1.0",
        "> [3] Begin(next_outgoing_id=7, incoming_window=8, outgoing_window=9)",
    ]
    assert tracer.received(AMQP_HEADER + HEARTBEAT + transfer(2, b"12345")) == [
        "< header AMQP 1.0",
        "< [0] empty",
        "< [1] Transfer(handle=2, delivery_id=0, delivery_tag=b't') + 5 bytes",
    ]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_chunks(size: int) -> None:
    """Bytes come in any portions; the lines are the same."""
    data = SASL_HEADER + AMQP_HEADER + attach(0, "orders") + transfer(0, b"x" * 50) + HEARTBEAT
    tracer = FrameTracer()
    lines = [line for at in range(0, len(data), size) for line in tracer.sent(data[at : at + size])]
    assert lines == FrameTracer().sent(data)
    assert len(lines) == 5


def test_31_sasl_is_redacted() -> None:
    """Pitfall 31: what SASL frames carry is never shown, whatever the level."""
    tracer = FrameTracer(True)
    lines = tracer.sent(
        SASL_HEADER
        + encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0user\0hunter2", hostname="h"))
        + encode_sasl_frame(SaslResponse(response=b"hunter2"))
    )
    assert lines[1] == "> [0] SaslInit(mechanism=Symbol('PLAIN'), initial_response=<secret>, hostname='h')"
    assert "hunter2" not in "".join(lines)


def test_bodies_only_when_asked() -> None:
    """The beginning of a payload is shown when asked for, and not by default."""
    frame = transfer(0, b"attack at dawn" + b"." * SHOWN_BODY)
    assert "dawn" not in FrameTracer().sent(frame)[0]
    (line,) = FrameTracer(True).sent(frame)
    assert "attack at dawn" in line
    assert line.endswith("...")
    assert len(line) < SHOWN_BODY + 120


@pytest.mark.parametrize("role", [False, True])
def test_31_tokens_are_redacted(role: bool) -> None:
    """Pitfall 31: what goes to and from `$cbs` is never shown, until another link has the handle."""
    tracer = FrameTracer(True)
    lines = tracer.sent(attach(5, "$cbs", role) + transfer(5, b"SharedAccessSignature") + transfer(6, b"harmless"))
    assert lines[1].endswith("+ 21 bytes <secret>")
    assert "harmless" in lines[2]
    assert "SharedAccess" in tracer.sent(attach(5, "orders", role) + transfer(5, b"SharedAccess"))[1]


def anonymous(handle: int) -> bytes:
    """An attach frame of a link to the anonymous terminus, on channel 1."""
    return encode_frame(1, Attach(name="a", handle=handle, role=False, source=Source("me"), target=Target()))


def parts(payload: bytes, *cuts: int, resume: bool = False, aborted: bool = False) -> list[bytes]:
    """The frames of one delivery on handle 7, cut there."""
    ends = [*cuts, len(payload)]
    frames = []
    for number, (start, end) in enumerate(zip([0, *cuts], ends, strict=True)):
        more = end < len(payload)
        first: dict[str, Any] = {"delivery_id": 0, "delivery_tag": b"t"} if number == 0 else {}
        last = aborted and not more
        performative = Transfer(handle=7, more=more, aborted=last, resume=resume and number == 0, **first)
        frames.append(encode_frame(1, performative, payload[start:end]))
    return frames


TOKEN = Message(b"SharedAccessSignature" * 20, to="$cbs", application_properties={"operation": "put-token"}).encode()
OTHER = Message(b"harmless" * 20, to="q").encode()


@pytest.mark.parametrize("cuts", [(), (3,), (15,), (60,), (40, 200)])
@pytest.mark.parametrize("resume", [False, True])
def test_tokens_by_the_anonymous_terminus(cuts: tuple[int, ...], resume: bool) -> None:
    """L9: who says `$cbs` in the message itself is not shown either, in one transfer or many, resumed or not."""
    tracer = FrameTracer(True)
    tracer.sent(anonymous(7))
    lines = [line for each in parts(TOKEN, *cuts, resume=resume) for line in tracer.sent(each)]
    assert len(lines) == len(cuts) + 1
    assert "Shared" not in "".join(lines)
    assert all(line.endswith("<secret>") for line in lines)
    assert "harmless" in "".join(tracer.sent(parts(OTHER)[0]))


def test_what_is_not_to_be_told() -> None:
    """By the anonymous terminus, what may be a token is not shown: the address is not there, or cannot be read."""
    tracer = FrameTracer(True)
    tracer.sent(anonymous(7))
    body_first = Message(b"Shared").encode()  # the address may follow: RabbitMQ takes sections in any order
    whole = Message(b"Shared", to="amqp://h/%24cbs").encode()
    for payload in (b"Shared", b"\0\x53\x73\xc0\x90Shared", body_first, whole):
        assert tracer.sent(parts(payload)[0])[0].endswith("<secret>")
    assert "harmless" in tracer.sent(parts(OTHER)[0])[0]
    begun, aborted = parts(TOKEN, 20, aborted=True)
    tracer.sent(begun + aborted)
    assert "harmless" in tracer.sent(parts(OTHER)[0])[0]  # of another delivery


def test_garbage() -> None:
    """Bytes that are not frames are reported once and counted from there on; nothing raises, nothing is kept."""
    tracer = FrameTracer()
    lines = tracer.received(b"\x00\x00\x00\x09\x01\x00\x00\x00\xff")
    assert lines[0].startswith("< no frames from here on: ")
    assert tracer.received(b"xyz") == ["< 3 bytes"]
    assert isinstance(tracer._received, FrameDirection)
    assert tracer._received._rest == b""
