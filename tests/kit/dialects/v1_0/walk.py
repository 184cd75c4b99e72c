"""Two engines, two owners, one wire in each direction: what a walk of random steps does to them, and its books.

A step is three numbers that choose among what can be done now, so that any list of steps is a walk, and a part of a
failing one is mostly still failing: Hypothesis makes it small. Nothing in here asks an engine what is right: what
must have arrived, and what must be the same at both ends, is known from what the owners did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amqp10.engine import (
    NO_LINK_OWNER,
    ConnectionEnded,
    ConnectionTerms,
    CreditChanged,
    Event,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Received, Rejected, Source, Target
from amqp10.testing import EnginePair

from .referee import Referee
from .sides import LinkSide, Sent, SessionSide, pick

Step = tuple[int, int, int]

OUTCOMES = (ACCEPTED, RELEASED, Rejected(), Modified(delivery_failed=True), Modified(message_annotations={"x": 1}))
FIRST_IDS = (0, 2**32 - 4, 2**31 - 2)
SIZES = (0, 1, 300, 440, 460, 900, 1400)
LIMIT = 1200
SETTINGS = 4 * 3 * 2 * 3 * 3 * 3
FAULT = Error("amqp:internal-error", "on purpose")
OTHER = {"client": "server", "server": "client"}


class Walk:
    """See the module. `settings` choose windows, first ids and frame sizes."""

    def __init__(self, settings: int = 0) -> None:
        def choose(options: Sequence[Any]) -> Any:
            nonlocal settings
            settings, chosen = divmod(settings, len(options))
            return options[chosen]

        sizes = (512, 700, 131_072)
        self.windows = choose(((1, 2, 3), (1, 1, 1), (3, 100, 2), (100, 100, 100)))
        self.first = choose(FIRST_IDS)
        self.streaming = choose((False, True))
        self.pair = EnginePair(
            client=ConnectionTerms("client", max_frame_size=choose(sizes), channel_max=31),
            server=ConnectionTerms("server", max_frame_size=choose(sizes), channel_max=31),
        )
        self.engines: dict[str, Any] = {"client": self.pair.client, "server": self.pair.server}
        self.pair.open()
        self.wires = {"client": bytearray(), "server": bytearray()}  # by who writes
        self.referee = Referee(self.pair.client.terms.max_frame_size, self.pair.server.terms.max_frame_size)
        self.sessions: list[SessionSide] = []
        self.links: list[LinkSide] = []
        self.pending: list[tuple[str, Event]] = []
        self.labels = 0
        self.uids = 0
        self.excused: set[Any] = set()  # endings that an owner asked for: labels of sessions, keys of links
        self.ended: list[Any] = []
        self.closing = False
        self.counts: dict[str, int] = {}
        self.actions: list[tuple[str, Callable[[int, int], bool]]] = [
            (name, getattr(self, "do_" + name))
            for name, weight in (
                ("begin", 1),
                ("attach", 3),
                ("answer", 4),
                ("send", 8),
                ("send_parts", 3),
                ("send_more", 5),
                ("abort", 1),
                ("settle_sent", 1),
                ("drained", 2),
                ("offer", 1),
                ("flow", 6),
                ("settle", 6),
                ("read", 4 * self.streaming),
                ("emit", 8),
                ("carry", 12),
                ("run", 2),
                ("detach", 1),
                ("end", 1),
            )
            for _ in range(2 * weight if name not in ("detach", "end", "begin") else 1)
        ]

        for number in range(choose((1, 2, 3))):
            self.do_begin(number, number)
            for which in range(4):
                self.do_attach(which, which * 7 + number)
                self.rest()
            for which in range(4):
                self.do_flow(which, which)
        self.do_run(0, 0)
        self.counts.clear()

    # Steps

    def step(self, kind: int, which: int, how: int) -> None:
        name, action = self.actions[kind % len(self.actions)]
        if action(which, how):
            self.counts[name] = self.counts.get(name, 0) + 1
        self.look()
        for one in self.live(SenderLink):
            assert one.link.credit >= 0
        for one in self.live(ReceiverLink):
            assert one.link.credit >= 0

    def live(self, kind: Any) -> list[LinkSide]:
        return [x for x in self.links if isinstance(x.link, kind) and not x.over and not x.detaching and x.link.terms]

    def do_begin(self, which: int, how: int) -> bool:
        side = ("client", "server")[which % 2]
        if len({x.label for x in self.sessions if not x.over}) >= 3:
            return False
        self.labels += 1
        label = f"s{self.labels}"
        self._begun(side, self.engines[side].begin(self._session_terms(label, how)), label)
        return True

    def _session_terms(self, label: str, how: int) -> SessionTerms:
        return SessionTerms(self.windows[how % 3], next_outgoing_id=self.first, properties={"label": label})

    def _begun(self, side: str, session: Any, label: str) -> None:
        session.owner = SessionSide(side, session, label)
        session.next_delivery_id = self.first
        self.sessions.append(session.owner)

    def do_attach(self, which: int, how: int) -> bool:
        on = pick([x for x in self.sessions if not x.over and not x.ending and x.session.terms], which)
        if on is None:
            return False
        number, sends = how % 3, how // 3 % 2 == 0
        name = f"{on.label}.{number}"
        if any(x.on is on and x.link.name == name and x.link.is_sender is sends and not x.over for x in self.links):
            return False
        if any(
            isinstance(e, LinkAttached)
            and e.link.session is on.session
            and e.link.name == name
            and e.link.is_sender is sends
            for _, e in self.pending
        ):
            return False
        terms = self._link_terms(name, number, how // 6)
        link = on.session.attach_sender(terms) if sends else on.session.attach_receiver(terms)
        self._attached(on, link, number, how)
        return True

    def _link_terms(self, name: str, number: int, how: int) -> LinkTerms:
        return LinkTerms(
            name,
            Source("q"),
            Target("q"),
            settle_mode="mixed" if number else "unsettled",
            receiver_settle_mode="second" if number == 1 else "first",
            initial_delivery_count=FIRST_IDS[how % 3],
            max_message_size=LIMIT if number == 2 else None,
        )

    def _attached(self, on: SessionSide, link: Any, number: int, how: int) -> None:
        link.owner = LinkSide(on.side, link, on, number)
        self.links.append(link.owner)
        if link.is_sender:
            link.auto_settle = how % 5 != 0
        else:
            link.streaming = self.streaming and how % 2 == 0
            if how % 4 == 0:
                link.flow(how % 6)

    def do_answer(self, which: int, how: int) -> bool:
        if not self.pending:
            return False
        # In any order among links and sessions, but for a session before its links.
        side, event = self.pending.pop(0 if isinstance(self.pending[0][1], SessionBegun) else which % len(self.pending))
        if isinstance(event, SessionBegun):
            session: Any = event.session
            label = session.remote.properties["label"]
            session.begin(self._session_terms(label, how))
            self._begun(side, session, label)
        elif isinstance(event, LinkAttached):
            link: Any = event.link
            on = link.session.owner
            if not isinstance(on, SessionSide):  # the session is not answered yet
                self.pending.append((side, event))
                return False
            number = int(link.name[-1])
            if link.terms is not None:
                return True  # its end has been answered by the engine
            if how % 9 == 0:
                if not any(link is x for x in self.ended):
                    link.owner = LinkSide(side, link, on, number, detaching=True)
                    self.excused.add(link.owner.key)
                    self.links.append(link.owner)
                link.refuse(FAULT)
            else:
                link.attach(self._link_terms(link.name, number, how // 6))
                if link.attached:
                    self._attached(on, link, number, how)
                else:
                    assert on.ending or any(link is x for x in self.ended)
        return True

    def do_send(self, which: int, how: int, *, more: bool = False) -> bool:
        able = [x for x in self.live(SenderLink) if x.link.attached and x.link.credit > 0 and not x.partial]
        one = pick(able, which)
        if one is None:
            return False
        link = one.link
        self.uids += 1
        size = SIZES[how % 7]
        payload = self.uids.to_bytes(4, "big") + bytes([self.uids % 251]) * size
        settled = how % 4 == 0 and one.number != 0
        tag = (b"a", b"bb", b"")[how % 3] if how % 5 == 0 else None
        if tag in link.unsettled:
            tag = None
        if len(payload) > (link.remote.max_message_size or len(payload)):
            before = link.credit, dict(link.unsettled)
            try:
                link.send(payload, settled=settled, tag=tag, more=more)
            except LocalProtocolError:
                assert before == (link.credit, dict(link.unsettled))
                return False
            raise AssertionError("larger than the peer takes")
        delivery = link.send(
            payload,
            settled=settled,
            tag=tag,
            more=more,
            batchable=how % 11 == 0,
            state=Received(section_number=0, section_offset=0) if how % 13 == 0 else None,
        )
        one.sent.append(Sent(delivery, payload, not more))
        return True

    def do_send_parts(self, which: int, how: int) -> bool:
        return self.do_send(which, how, more=True)

    def do_send_more(self, which: int, how: int) -> bool:
        one = pick([x for x in self.live(SenderLink) if x.partial and x.link.attached], which)
        if one is None:
            return False
        sent = one.partial
        assert sent is not None
        part = bytes([how % 256]) * SIZES[how % 7]
        more = how % 3 == 0
        if len(sent.payload) + len(part) > (one.link.remote.max_message_size or 1 << 30):
            try:
                one.link.send_more(sent.delivery, part, more=more)
            except LocalProtocolError:
                self._abort(one, sent)
                return True
            raise AssertionError("larger than the peer takes")
        one.link.send_more(sent.delivery, part, more=more)
        sent.payload += part
        sent.whole = not more
        return True

    def do_abort(self, which: int, how: int) -> bool:
        one = pick([x for x in self.live(SenderLink) if x.link.attached], which)
        if one is None:
            return False
        sent = pick([x for x in one.sent if not x.delivery.on_wire and not x.aborted], how)
        if sent is None:
            return False
        self._abort(one, sent)
        return True

    def _abort(self, one: LinkSide, sent: Sent) -> None:
        one.link.abort(sent.delivery)
        sent.aborted = True
        credit = one.link.credit
        try:
            one.link.abort(sent.delivery)
        except LocalProtocolError:
            assert one.link.credit == credit
        else:
            raise AssertionError("aborted twice")

    def do_settle_sent(self, which: int, how: int) -> bool:
        one = pick([x for x in self.links if x.link.is_sender and not x.over and x.link.unsettled], which)
        if one is None:
            return False
        one.link.settle(pick(list(one.link.unsettled.values()), how), (None, RELEASED)[how % 2])
        return True

    def do_drained(self, which: int, how: int) -> bool:
        one = pick([x for x in self.live(SenderLink) if x.link.drain and not x.partial], which)
        if one is None:
            return False
        one.link.drained(how % 3)
        return True

    def do_offer(self, which: int, how: int) -> bool:
        one = pick(self.live(SenderLink), which)
        if one is None:
            return False
        one.link.offer(how % 5)
        return True

    def do_flow(self, which: int, how: int) -> bool:
        one = pick(self.live(ReceiverLink), which)
        if one is None:
            return False
        one.link.flow((5, 2, 1, 0)[how % 4], drain=how % 3 == 0, echo=how % 5 == 0)
        return True

    def take(self, one: LinkSide) -> None:
        while one.link.incoming:
            delivery = one.link.incoming.popleft()
            if one.link.streaming:
                one.reading.append((delivery, []))
            else:
                one.got.append((delivery, delivery.payload))

    def do_settle(self, which: int, how: int) -> bool:
        one = pick(self.live(ReceiverLink), which)
        if one is None:
            return False
        self.take(one)
        able = [d for d, _ in one.got if not d.local_settled]
        for delivery in able[how % 3 :: how % 2 + 1][:4]:
            settled = (None, None, None, True, False)[how % 5]
            one.link.settle(delivery, OUTCOMES[how % len(OUTCOMES)], settled=settled)
        return bool(able)

    def do_read(self, which: int, how: int) -> bool:
        one = pick([x for x in self.links if x.reading or (not x.link.is_sender and x.link.streaming)], which)
        if one is None:
            return False
        self.take(one)
        return self._read(one, how % 4 + 1)

    def _read(self, one: LinkSide, count: int) -> bool:
        moved = False
        while one.reading and count:
            count -= 1
            delivery, parts = one.reading[0]
            part = one.link.read(delivery)
            if part is not None:
                moved = True
                parts.append(part)
            elif delivery.stream.whole or delivery.stream.aborted or one.over:
                moved = True
                one.reading.pop(0)
                if delivery.stream.whole:
                    one.got.append((delivery, b"".join(parts)))
            else:
                break
        return moved

    def do_emit(self, which: int, how: int) -> bool:
        side = ("client", "server")[which % 2]
        data = self.engines[side].data_to_send()
        self.wires[side] += data
        self.referee.written(side, data)
        return bool(data)

    def do_carry(self, which: int, how: int) -> bool:
        side = ("client", "server")[which % 2]
        wire = self.wires[side]
        size = (1 << 20, 7, 200, 600, 1500)[how % 5]
        data = bytes(wire[:size])
        if data:
            del wire[:size]
            self.engines[OTHER[side]].receive_data(data)
            self.referee.arrived(side, data)
        return bool(data)

    def do_run(self, which: int, how: int) -> bool:
        moved = self.do_emit(which, how) | self.do_emit(which + 1, how)
        self.look()
        return moved | self.do_carry(which, 0) | self.do_carry(which + 1, 0)

    def do_detach(self, which: int, how: int) -> bool:
        one = pick([x for x in self.links if not x.over and not x.detaching and x.link.terms is not None], which)
        if one is None:
            return False
        one.detaching = True
        self.excused.add(one.key)
        one.link.detach(closed=how % 2 == 0, error=FAULT if how % 3 == 0 else None)
        return True

    def do_end(self, which: int, how: int) -> bool:
        one = pick([x for x in self.sessions if not x.over and not x.ending and x.session.terms], which)
        if one is None:
            return False
        one.ending = True
        self.excused.add(one.label)
        one.session.end(FAULT if how % 3 == 0 else None)
        return True

    # Events

    def look(self) -> None:
        """Take what happened, and hold it to what the owners did."""
        for side, engine in self.engines.items():
            for event in engine.events():
                self._event(side, event)

    def _event(self, side: str, event: Event) -> None:
        if isinstance(event, SessionBegun):
            if event.session.terms is None:
                self.pending.append((side, event))
        elif isinstance(event, LinkAttached):
            if event.link.terms is None or event.link.owner is NO_LINK_OWNER:
                self.pending.append((side, event))
        elif isinstance(event, LinkEnded | SessionUnmapped | ConnectionEnded):
            assert not isinstance(event.error, RemoteProtocolError), event
            assert not any(event is x for x in self.ended)
            self._ended(event)
        elif isinstance(event, CreditChanged):
            assert event.link.credit >= 0

    def _ended(self, event: LinkEnded | SessionUnmapped | ConnectionEnded) -> None:
        if isinstance(event, ConnectionEnded):
            assert self.closing, event
            self.ended.append(event)
            return
        thing: Any = event.link if isinstance(event, LinkEnded) else event.session
        assert not any(thing is x for x in self.ended), event
        self.ended.append(thing)
        one: Any = thing.owner if isinstance(thing.owner, SessionSide | LinkSide) else None
        if one is not None:
            one.over = True
        if isinstance(event, LinkEnded):
            assert not event.link.attached
            if one is not None:
                assert not one.on.over
                assert one.on.label in self.excused or one.key in self.excused or self.closing, event
        else:
            assert one is not None
            assert one.label in self.excused or self.closing, event
            assert all(x.over for x in self.links if x.on is one)

    # Coming to rest

    def rest(self) -> None:
        """Answer and read everything, and carry bytes until none are left."""
        for _ in range(10_000):
            moved = False
            while self.pending:
                self.do_answer(0, 1)
                self.look()
                moved = True
            for one in self.links:
                if one.reading or (not one.link.is_sender and one.link.incoming):
                    self.take(one)
                    moved |= self._read(one, 100)
            moved |= self.do_run(0, 0)
            self.look()
            if not moved and not self.wires["client"] and not self.wires["server"]:
                return
        raise AssertionError("the engines never come to rest")
