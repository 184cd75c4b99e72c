"""Frames as lines: what cannot be read hides no frame behind it, and shows no secret."""

from __future__ import annotations

import struct

import pytest

from amqp10.dialects.v0_9.wire.framing import BODY, HEADER, METHOD
from amqp10.dialects.v0_9.wire.methods import BasicAck, BasicPublish
from amqp10.dialects.v0_9.wire.trace import FrameTracer
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant

VARIANTS = pytest.mark.parametrize("variant", [V0_9_1, V0_9, V0_9_DRAFT], ids=lambda each: each.name)


@VARIANTS
def test_a_content_header_that_cannot_be_read(variant: Variant) -> None:
    """It is said so, and the frames behind it are shown: the client goes on, too."""
    header = variant.framing.frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 3, 0x8000) + b"\x09text")
    ack = variant.framing.frame(METHOD, 1, variant.methods.encode(BasicAck(7)))
    lines = FrameTracer(variant, bodies=True).received(header + variant.framing.frame(BODY, 1, b"abc") + ack)
    assert lines[0].startswith("< [1] not to be read: ")
    assert lines[1:] == ["< [1] body of 3 bytes b'abc'", "< [1] basic.ack(delivery_tag=7)"]


@VARIANTS
def test_a_method_that_cannot_be_read(variant: Variant) -> None:
    """Where it goes is not known: its content is not shown, that of the next one is."""
    method = variant.methods.encode(BasicPublish(exchange="", routing_key="$cbs"))
    body = variant.framing.frame(BODY, 1, b"secret")
    sound = variant.framing.frame(METHOD, 1, variant.methods.encode(BasicPublish(routing_key="q")))
    data = variant.framing.frame(METHOD, 1, method + b"more") + body + sound + body
    lines = FrameTracer(variant, bodies=True).sent(data)
    assert lines[1] == "> [1] body of 6 bytes <secret>"
    assert lines[3] == "> [1] body of 6 bytes b'secret'"
