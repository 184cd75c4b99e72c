"""Engines that resume a link with a peer that says anything (§2.6.13): no exception leaves, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amqp10.engine import ConnectionTerms, IncomingDelivery, LinkTerms, ReceiverLink, SenderLink, dialect
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, Message, Received, Source, Target
from amqp10.testing import Attach, Disposition, EngineScript, Flow, Transfer
from amqp10.testing.strategies import delivery_states

PAYLOAD = Message(b"0123456789" * 10, subject="s").encode()
TAGS = [bytes([number]) for number in range(4)]

states = st.one_of(st.none(), delivery_states(), st.builds(Received, st.integers(0, 4), st.integers(0, 120)))
no_states = st.one_of(st.integers(0, 3), st.text(max_size=3))
maps = st.one_of(
    st.none(), st.dictionaries(st.sampled_from([*TAGS, b"other"]), st.one_of(states, no_states), max_size=4)
)
booleans = st.booleans()
transfers = st.builds(
    Transfer,
    handle=st.just(0),
    delivery_id=st.one_of(st.none(), st.integers(0, 3)),
    delivery_tag=st.one_of(st.none(), st.sampled_from([*TAGS, b"other"])),
    settled=st.one_of(st.none(), booleans),
    more=booleans,
    state=states,
    resume=booleans,
    aborted=st.one_of(st.just(value=False), booleans),
)
dispositions = st.builds(
    Disposition, role=st.just(value=True), first=st.integers(0, 5), last=st.none(), settled=booleans, state=states
)


def played() -> EngineScript:
    script = EngineScript(dialect("1.0").client(ConnectionTerms("tested"), None, True))
    script.open()
    return script


def attached(script: EngineScript, attach: Callable[..., Any], unsettled: Any, incomplete: bool, resuming: Any) -> Any:
    """A link that resumes, and what the peer says to it."""
    link = attach(LinkTerms("l", Source("q"), Target("q"), receiver_settle_mode="second"), resuming=resuming)
    said = script.expect(Attach)
    answer = Attach(
        name="l",
        handle=0,
        role=not said.role,
        rcv_settle_mode=1,
        source=said.source,
        target=said.target,
        unsettled=unsettled,
        incomplete_unsettled=incomplete,
        initial_delivery_count=0 if said.role else None,
    )
    script.send(answer)
    return link


@given(
    theirs=maps,
    incomplete=booleans,
    more=st.integers(0, len(PAYLOAD)),
    streaming=booleans,
    said=st.lists(st.tuples(transfers, st.binary(max_size=20)), max_size=12),
)
def test_receiver(
    theirs: Any, incomplete: bool, more: int, streaming: bool, said: list[tuple[Transfer, bytes]]
) -> None:
    """A receiver with whole deliveries, and one in part, is resumed by a sender that sends what it likes."""
    script = played()
    before: ReceiverLink = script.receiver(script.session(), credit=9)
    before.streaming = streaming
    for number in range(3):
        script.transfer(number, PAYLOAD, delivery_tag=TAGS[number])
    script.transfer(3, PAYLOAD[:more], delivery_tag=TAGS[3], more=True)
    held = before.suspended()
    script.end_of_stream()
    held[1].state = ACCEPTED
    script = played()
    link: ReceiverLink = attached(script, script.session().attach_receiver, theirs, incomplete, held)
    link.streaming = streaming
    came: list[IncomingDelivery] = []
    for frame, payload in said:
        if link.attached and link.credit < 3:
            link.flow(10)
        script.send(frame, payload)
        while link.incoming:
            came.append(link.incoming.popleft())
        for delivery in came:
            if streaming:
                link.read(delivery)
            try:
                link.settle(delivery, ACCEPTED)
            except LocalProtocolError:
                assert not link.attached
    assert len({id(each) for each in came}) == len(came)
    assert not any(each in came for each in held[:3])
    for tag, each in link.unsettled.items():
        assert each.tag == tag
        assert not each.local_settled
    assert all(each.link is link for each in link.suspended())


@given(theirs=maps, incomplete=booleans, said=st.lists(st.one_of(dispositions, st.just(None)), max_size=12))
def test_sender(theirs: Any, incomplete: bool, said: list[Disposition | None]) -> None:
    """A sender with whole deliveries, one of them streamed, is resumed by a receiver that says what it likes."""
    script = played()
    before: SenderLink = script.sender(script.session(), credit=9)
    for tag in TAGS[:3]:
        before.send(PAYLOAD, tag=tag)
    before.send_more(before.send(PAYLOAD[:9], tag=TAGS[3], more=True), PAYLOAD[9:])
    script.end_of_stream()
    held = before.suspended()
    script = played()
    link: SenderLink = attached(script, script.session().attach_sender, theirs, incomplete, held)
    for number, frame in enumerate(said):
        if frame is not None:
            script.send(frame)
        else:
            script.send(
                Flow(
                    next_incoming_id=0,
                    incoming_window=50,
                    next_outgoing_id=0,
                    outgoing_window=50,
                    handle=0,
                    delivery_count=0,
                    link_credit=number,
                )
            )
        script.read()
    for tag, each in link.unsettled.items():
        assert (each.tag, each.link) == (tag, link)
        assert not each.local_settled
    gone = [each for each in held if each not in link.unsettled.values()]
    assert all(each.local_settled for each in gone)
