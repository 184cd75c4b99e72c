"""A walk at rest: what must be the same at both ends, and that nothing is left over."""

from __future__ import annotations

from typing import Any

from amqp10.engine import (
    ConnectionEnded,
    Link,
    ReceiverLink,
    SenderLink,
)
from amqp10.messaging import ACCEPTED

from .sides import LinkSide, Sent
from .walk import Walk


def check(walk: Walk) -> None:
    """At rest: both ends agree, everything whole has arrived, and nothing is left over."""
    walk.rest()
    _check_links(walk)
    for one in walk.live(SenderLink):
        if one.partial and one.link.attached:
            one.link.send_more(one.partial.delivery, b"")
            one.partial.whole = True
    walk.rest()
    _check_links(walk)
    for one in walk.live(ReceiverLink):
        one.link.flow(0, drain=True)
    walk.rest()
    for one in walk.live(SenderLink):
        one.link.drained()
    walk.rest()
    for one in walk.live(ReceiverLink):
        for delivery, _ in one.got:
            one.link.settle(delivery, ACCEPTED)
    walk.rest()
    for one in walk.live(SenderLink):
        for delivery in list(one.link.unsettled.values()):
            one.link.settle(delivery)
    walk.rest()
    for one in walk.live(Link):
        assert not one.link.unsettled, one
    for one in walk.live(ReceiverLink):
        assert one.link.credit == 0
        one.link.flow(4)
    walk.rest()
    for one in walk.live(SenderLink):
        assert one.link.credit == 4, one
        payload = b"last"
        one.sent.append(Sent(one.link.send(payload, settled=False), payload, True))
    walk.rest()
    _check_links(walk)
    _check_tables(walk)
    _finish(walk)


def _check_links(walk: Walk) -> None:
    ends: dict[Any, list[LinkSide]] = {}
    for one in walk.links:
        whole = [sent.payload for sent in one.sent if sent.whole and not sent.aborted]
        if one.link.is_sender:
            assert len(set(whole)) == len(whole)
        if not one.over:
            ends.setdefault(one.key, []).append(one)
    for key, both in ends.items():
        assert len(both) == 2, (key, both)
        sender, receiver = sorted(both, key=lambda x: not x.link.is_sender)
        assert sender.link.attached
        assert receiver.link.attached
        assert not receiver.reading or sender.partial
        whole = [sent.payload for sent in sender.sent if sent.whole and not sent.aborted]
        assert [payload for _, payload in receiver.got] == whole, (key, sender.link.session.window)
        assert sender.link.credit == receiver.link.credit, (key, sender.link.credit, receiver.link.credit)
        assert sender.link.flow_state.delivery_count == receiver.link.flow_state.delivery_count
        mine, theirs = dict(sender.link.unsettled), dict(receiver.link.unsettled)
        if sender.partial:
            mine.pop(sender.partial.delivery.tag, None)
            theirs.pop(sender.partial.delivery.tag, None)
        assert mine.keys() == theirs.keys(), (key, mine, theirs)
        for tag, out in mine.items():
            assert out.remote_state == theirs[tag].state
            assert out.delivery_id == theirs[tag].delivery_id
    _check_ended(walk)


def _check_ended(walk: Walk) -> None:
    """Check that the deliveries of an ended link are the first ones that were sent on it, whole and in order."""
    logs = [[s.payload for s in x.sent if s.whole and not s.aborted] for x in walk.links if x.link.is_sender]
    for one in walk.links:
        if not one.link.is_sender and one.got:
            got = [payload for _, payload in one.got]
            assert any(log[: len(got)] == got for log in logs), (one, got)


def _check_tables(walk: Walk) -> None:
    labels = {side: {x.label for x in walk.sessions if x.side == side and not x.over} for side in walk.engines}
    assert labels["client"] == labels["server"]
    for side, engine in walk.engines.items():
        connection = engine.connection
        live = [x.session for x in walk.sessions if x.side == side and not x.over]
        for table in (connection._by_local_channel, connection._by_remote_channel):
            assert {id(x) for x in table.values()} == {id(x) for x in live}
        for session in live:
            links = {id(x.link) for x in walk.links if x.link.session is session and not x.over}
            assert {id(x) for x in session._by_handle.values()} == links
            assert {id(x) for x in session._by_remote_handle.values()} == links
            assert not session.pending_parts
            assert not session.dispositions.waiting
            unsettled = [d for x in session._by_handle.values() for d in x.unsettled.values()]
            tables = [*session.outgoing.values(), *session.incoming.values()]
            assert {id(x) for x in tables} == {id(x) for x in unsettled}
            assert session.sendable
        assert engine.output_size == 0
        assert engine._reader.buffered == 0


def _finish(walk: Walk) -> None:
    walk.closing = True
    for one in walk.sessions[::2]:
        one.session.end()
    walk.engines["server"].close()
    walk.engines["client"].close()
    for _ in range(4):
        walk.do_run(0, 0)
        walk.look()
    assert sum(isinstance(x, ConnectionEnded) for x in walk.ended) == 2
    assert all(x.over for x in walk.links)
    assert all(x.over for x in walk.sessions)
    for engine in walk.engines.values():
        connection = engine.connection
        assert not connection.sessions()
