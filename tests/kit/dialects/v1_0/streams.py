"""Bytes of a peer that sends, and what becomes of them."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, TransferTemplate, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Attach, Begin, Flow, Open, Transfer
from amqp10.engine import ConnectionTerms, Engine, LinkTerms, ReceiverLink, SessionTerms, dialect
from amqp10.messaging import ACCEPTED, Source, Target

FIRST = 0xFFFF_FFF0  # of the delivery-ids: they soon pass the end of their numbers


def engine(window: int, credit: tuple[int, int], limit: int, drain: bool) -> tuple[Engine, list[ReceiverLink]]:
    """A client with two receivers, and the peer's half of the attaching taken in."""
    client = dialect("1.0").client(ConnectionTerms("client", max_frame_size=600), None, True)
    client.start()
    client.open()
    session = client.begin(SessionTerms(incoming_window=window))
    links = [
        session.attach_receiver(LinkTerms(str(handle), Source("q"), Target(), max_message_size=limit))
        for handle in range(2)
    ]
    attaches = [Attach(str(handle), handle, False, initial_delivery_count=0xFFFF_FFFE) for handle in range(2)]
    for attach in attaches:
        attach.source, attach.target = Source("q"), Target()
    said = [Open("server"), Begin(0, FIRST, 100, 5), *attaches]
    frames = [encode_frame(0 if isinstance(frame, Open) else 3, frame) for frame in said]
    client.receive_data(AMQP_HEADER + b"".join(frames))
    assert all(link.attached for link in links)
    for link, granted in zip(links, credit, strict=True):
        link.flow(granted, drain=drain)
    client.events()
    client.data_to_send()
    return client, links


def became(data: bytes, portion: int, *terms: Any) -> list[Any]:
    """All that is to be seen of an engine that was fed this, in portions of this size."""
    client, links = engine(*terms)
    for at in range(0, len(data), portion):
        client.receive_data(data[at : at + portion])
    seen: list[Any] = [client.data_to_send(), [re.sub(r" at 0x\w+", "", str(event)) for event in client.events()]]
    for link in links:
        state: Any = link
        seen.append((link.credit, link.attached, link.available, state.flow_state.delivery_count, list(link.unsettled)))
        window = state.session.window
        seen.append((window.next_incoming_id, window.incoming_window))
        seen.append(list(state.session.incoming))
        for each in link.incoming:
            facts = (each.delivery_id, each.tag, each.payload, each.message_format)
            seen.append((*facts, each.local_settled, each.remote_settled, each.remote_state))
    return seen


def transfer(
    offset: int, handle: int, tag: bytes, settled: bool, message_format: int, size: int, more: bool, said: bool = False
) -> bytes:
    """With the state that Broker-J gives its settled transfers, if so much is said."""
    number = FIRST + offset & 0xFFFF_FFFF
    if said:
        return encode_frame(3, Transfer(handle, number, tag, message_format, settled, state=ACCEPTED), b"p" * size)
    return TransferTemplate(3, handle).head(number, tag, settled, size, more, message_format) + b"p" * size


Form = tuple[bool, bool, bool]
"""Whether the fields are a list32, as go-amqp writes them, whether the handle is a uint of four octets, and whether a
delivery-id below 256 has one octet, as most peers write it.
"""


forms = st.tuples(st.booleans(), st.booleans(), st.booleans())


def in_form(frame: bytes, form: Form) -> bytes:
    """Write a transfer's frame as others do."""
    wide_list, wide_handle, small_id = form
    size, count = frame[12:14]
    fields, payload = frame[14 : 13 + size], frame[13 + size :]
    if wide_handle:
        handle, rest = (0, fields[1:]) if fields[0] == 0x43 else (fields[1], fields[2:])
        fields = b"\x70" + handle.to_bytes(4, "big") + rest
    number = 1 + {0x43: 0, 0x52: 1, 0x70: 4}[fields[0]]  # where the delivery-id is
    if small_id and fields[number : number + 4] == b"\x70\0\0\0":
        fields = fields[:number] + b"\x52" + fields[number + 4 :]
    width = 4 if wide_list else 1
    head = (len(fields) + width).to_bytes(width, "big") + count.to_bytes(width, "big")
    body = frame[8:11] + (b"\xd0" if wide_list else b"\xc0") + head + fields + payload
    return (8 + len(body)).to_bytes(4, "big") + frame[4:8] + body


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Transfers that mostly follow one another as they should, and here and there something else."""
    frames = []
    offset = 0
    for length in draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)):
        handle, settled = draw(st.integers(0, 1)), draw(st.booleans())
        message_format, size = draw(st.sampled_from([0, 0, 0, 9])), draw(st.sampled_from([0, 5, 300]))
        said, turns = draw(st.booleans()), draw(st.booleans())
        by_turns = draw(st.lists(forms, min_size=1, max_size=3))
        for _ in range(length):
            tag = offset.to_bytes(4, "big")
            handle = 1 - handle if turns else handle
            usual = transfer(offset, handle, tag, settled, message_format, size, False, said)
            frames.append(in_form(usual, by_turns[offset % len(by_turns)]))
            offset += 1
        oddity = draw(st.sampled_from(["", "", "more", "tag", "number", "flow", "octet", "large"]))
        if oddity == "more":
            frames.append(transfer(offset, handle, b"more", settled, message_format, 4, True))
            offset += 1
        elif oddity == "tag":
            frames.append(transfer(offset, handle, b"\0\0\0\0", settled, message_format, 4, False))
            offset += 1
        elif oddity == "number":
            frames.append(transfer(offset + 1, handle, b"numb", settled, message_format, 4, False))
        elif oddity == "flow":
            frames.append(encode_frame(3, Flow(None, 7, 0, 9, handle, 5, 3, echo=True)))
        elif oddity == "large":
            frames.append(transfer(offset, handle, b"larg", settled, message_format, 700, False, said))
        elif oddity == "octet":
            frame = bytearray(frames[-1])
            frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
            frames[-1] = bytes(frame)
    return b"".join(frames)


def by_turns(count: int, links: int) -> bytes:
    """Transfers of a few links, one after the other."""
    return b"".join(transfer(n, n % links, n.to_bytes(4, "big"), False, 0, 5, False) for n in range(count))
