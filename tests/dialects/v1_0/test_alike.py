"""Runs of transfers that look alike are received many at a time, and it makes no difference (§2.6.12, §2.5.6)."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.dialects.v1_0._frames import AMQP_HEADER, TransferTemplate, encode_frame
from amqp10.dialects.v1_0._performatives import Attach, Begin, Flow, Open
from amqp10.engine import ConnectionTerms, Engine, LinkTerms, ReceiverLink, SessionTerms, dialect
from amqp10.messaging import Source, Target

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
    client.receive_data(AMQP_HEADER + b"".join(encode_frame(3, frame) for frame in said))
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
        seen.append((window.next_incoming_id, window.incoming_window, window.remote_outgoing_window))
        seen.append(list(state.session.incoming))
        for each in link.incoming:
            facts = (each.delivery_id, each.tag, each.payload, each.message_format)
            seen.append((*facts, each.local_settled, each.remote_settled, each.remote_state))
    return seen


def transfer(offset: int, handle: int, tag: bytes, settled: bool, message_format: int, size: int, more: bool) -> bytes:
    number = FIRST + offset & 0xFFFF_FFFF
    return TransferTemplate(3, handle).head(number, tag, settled, size, more, message_format) + b"p" * size


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Transfers that mostly follow one another as they should, and here and there something else."""
    frames = []
    offset = 0
    for length in draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)):
        handle, settled = draw(st.integers(0, 1)), draw(st.booleans())
        message_format, size = draw(st.sampled_from([0, 0, 0, 9])), draw(st.sampled_from([0, 5, 300]))
        for _ in range(length):
            frames.append(transfer(offset, handle, offset.to_bytes(4, "big"), settled, message_format, size, False))
            offset += 1
        oddity = draw(st.sampled_from(["", "", "more", "tag", "number", "flow", "octet"]))
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
        elif oddity == "octet":
            frame = bytearray(frames[-1])
            frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
            frames[-1] = bytes(frame)
    return b"".join(frames)


MANY = b"".join(transfer(n, 0, n.to_bytes(4, "big"), False, 0, 5, False) for n in range(40))


@settings(deadline=None, max_examples=300)
@given(
    streams(),
    st.sampled_from([1, 2, 7, 30, 1000]),
    st.tuples(st.sampled_from([0, 3, 20, 100]), st.sampled_from([0, 20])),
    st.sampled_from([0, 0, 100]),
    st.booleans(),
)
@example(MANY, 30, (100, 0), 0, False)
@example(MANY, 1000, (20, 0), 0, False)
def test_many_at_a_time_or_octet_by_octet(
    data: bytes, window: int, credit: tuple[int, int], limit: int, drain: bool
) -> None:
    """What is read in one piece, and what is read octet by octet, so that no two transfers are here at once."""
    terms = (window, credit, limit, drain)
    assert became(data, len(data), *terms) == became(data, 1, *terms)


def test_they_are_received_together() -> None:
    """Forty transfers in one piece: the first two are looked at one by one, the others are not."""
    client, links = engine(1000, (100, 0), 0, False)
    link: Any = links[0]
    one_by_one = []
    receive = link.receive_transfer

    def watched(frame: Any, payload: bytes) -> None:
        one_by_one.append(frame.delivery_id)
        receive(frame, payload)

    link.receive_transfer = watched
    client.receive_data(MANY)
    assert [each.delivery_id for each in link.incoming] == [FIRST + n & 0xFFFF_FFFF for n in range(40)]
    assert len(one_by_one) <= 3
    assert link.credit == 60
