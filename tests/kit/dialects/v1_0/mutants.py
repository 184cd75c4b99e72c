"""Two engines whose frames are changed, lost, repeated or swapped on their way: what each owner sees must make sense.

Both engines are under test, and both are the other's bad peer. The owners do whatever they like, at the wrong moment
too: that is a `LocalProtocolError`, and the only exception that there may be.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from amqp10.dialects.v1_0.wire.frames import FrameReader, encode_frame
from amqp10.engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    Event,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    SessionBegun,
    SessionTerms,
    SessionUnmapped,
)
from amqp10.errors import LocalProtocolError, RemoteProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Received, Rejected, Source, Target
from amqp10.testing import EnginePair

from .scripted_referee import Referee

Step = tuple[int, int, int]

FIRST_IDS = (0, 2**32 - 4, 2**31 - 2)
SIZES = (0, 1, 400, 1500)
STATES = (ACCEPTED, RELEASED, Rejected(), Modified(message_annotations={"x": 1}), Received(1, 2))
NUMBERS = (0, 1, 2, 5, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
OTHERS = (None, True, False, b"", b"t", bytes(32), bytes(33), "x", "l0", *STATES, Error("x:y"), Source(), Target("q"))
SETTINGS = 3 * 3 * 2 * 2 * 2 * 2
CONDITIONS = {
    "link": {
        "amqp:link:transfer-limit-exceeded",
        "amqp:link:message-size-exceeded",
        "amqp:link:stolen",
        "amqp:invalid-field",
        "amqp:not-implemented",
    },
    "session": {
        "amqp:session:window-violation",
        "amqp:session:unattached-handle",
        "amqp:session:handle-in-use",
        "amqp:session:errant-link",
        "amqp:invalid-field",
        "amqp:illegal-state",
        "amqp:not-allowed",
    },
    "connection": {
        "amqp:connection:framing-error",
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:illegal-state",
        "amqp:not-allowed",
    },
}


class Witness:
    """The events of one engine, checked for the order that owners rely on."""

    def __init__(self) -> None:
        self.sessions: list[Any] = []
        self.links: list[Any] = []
        self.over = False
        self._ended: list[Any] = []

    def hear(self, event: Event) -> None:
        """Judge an event."""
        assert not self.over, f"after the end: {event}"
        thing: Any = getattr(event, "link", None) or getattr(event, "session", None)
        assert not any(thing is x for x in self._ended), f"of what has ended: {event}"
        if isinstance(event, SessionBegun) and not any(x is event.session for x in self.sessions):
            self.sessions.append(event.session)
        elif isinstance(event, LinkAttached) and not any(x is event.link for x in self.links):
            self.links.append(event.link)
        elif isinstance(event, LinkEnded):
            self._end(event, event.link, self.links, "link")
            assert not event.link.attached
        elif isinstance(event, SessionUnmapped):
            assert not [x for x in self.links if x.session is event.session], "a link outlives its session"
            self._end(event, event.session, self.sessions, "session")
            assert not event.session.begun
        elif isinstance(event, ConnectionEnded):
            self.over = True
            self._judge(event, "connection")
            assert not self.links
            assert not self.sessions

    def _end(self, event: Any, thing: Any, things: list[Any], level: str) -> None:
        self._ended.append(thing)
        things[:] = [x for x in things if x is not thing]
        self._judge(event, level)

    def _judge(self, event: Any, level: str) -> None:
        """A fault has a condition of its own level, or of one above, which took this with it."""
        if isinstance(event.error, RemoteProtocolError):
            levels = ("link", "session", "connection")
            known = set().union(*(CONDITIONS[x] for x in levels[levels.index(level) :]))
            assert event.error.condition in known, event
        assert not isinstance(event.error, LocalProtocolError), event


class Mutants:
    """See the module. A step is three numbers that choose among what may be done."""

    def __init__(self, settings: int = 0) -> None:
        first, window = FIRST_IDS[settings % 3], (1, 3, 100)[settings // 3 % 3]
        self.terms = SessionTerms(window, next_outgoing_id=first, handle_max=(3, 1)[settings // 9 % 2])
        self.streaming = settings // 18 % 2 == 1
        limits = {"max_frame_size": (512, 131_072)[settings // 36 % 2], "channel_max": 2}
        self.pair = EnginePair(client=ConnectionTerms("client", **limits), server=ConnectionTerms("server", **limits))  # type: ignore[arg-type]
        self.engines: list[Any] = [self.pair.client, self.pair.server]
        self.referees = [Referee(opened=False), Referee(opened=False)]
        self.readers = [FrameReader(1 << 31), FrameReader(1 << 31)]
        self.frames: list[list[bytes]] = [[], []]  # by who wrote them
        self.pipelined = settings // 72 % 2 == 1
        self.pair.client.open()
        for engine in self.engines:  # the headers, which no referee reads
            engine.receive_data(b"AMQP\0\1\0\0")
        self.heads = [8, 8]
        self.witnesses = [Witness(), Witness()]
        self.sent: list[Any] = []
        self.got: list[Any] = []
        self.counts: dict[str, int] = {}
        self._mutation = 0
        if self.pipelined:
            for which in (0, 2, 4, 6):
                with suppress(LocalProtocolError):
                    self.act(1 if which else 0, which, which)
            return
        for kind, count in ((0, 1), (1, 4), (2, 4)):
            for number in range(2 * count):
                with suppress(LocalProtocolError):
                    self.act(kind, number, number + 1)
                self.exchange()

    def step(self, kind: int, which: int, how: int) -> None:
        """One thing that an owner, or the wire, does."""
        kind %= 40
        if kind < 22:
            with suppress(LocalProtocolError):
                self.act(kind, which, how)
        elif kind < 34:
            self.write(which % 2)
            self.carry(which % 2, how % 4)
        elif kind < 38:
            self.write(which % 2)
            self.mutate(which % 2, kind % 4, how)
        else:
            self.exchange()
        self.look()

    def finish(self) -> None:
        """The transport ends: so does everything, once."""
        self.exchange()
        for side, engine in enumerate(self.engines):
            self.write(side)
            assert engine.output_size == 0
            engine.receive_eof()
        self.look()
        for engine, witness in zip(self.engines, self.witnesses, strict=True):
            assert witness.over
            assert not engine.connection.sessions()
            assert engine.data_to_send() == b""

    # The wire

    def exchange(self) -> None:
        """Carry everything that is written, both ways, once."""
        for side in (0, 1):
            self.write(side)
            self.carry(side, 1000)
        self.look()

    def write(self, side: int) -> None:
        """Turn the engine's output into frames under way."""
        reader = self.readers[side]
        data = self.engines[side].data_to_send()
        reader.feed(data[self.heads[side] :])
        self.heads[side] = 0 if data else self.heads[side]
        while (frame := reader.next()) is not None:
            fault = self.referees[side].fault(frame[1], frame[2])
            assert not fault, f"{fault}: {frame}"
            self.frames[side].append(encode_frame(frame[1], frame[2], bytes(frame[3])) if frame[2] is not None else b"")

    def carry(self, side: int, count: int) -> None:
        """The other engine gets some of the frames."""
        frames = self.frames[side]
        engine = self.engines[1 - side]
        engine.receive_data(b"".join(frames[:count]))
        del frames[:count]
        assert engine.over or engine._reader.buffered <= engine.terms.max_frame_size

    def mutate(self, side: int, kind: int, how: int) -> None:
        """Change what is under way: lose, repeat or swap a frame, change one of its fields, or one of its bytes."""
        frames = self.frames[side]
        if not frames:
            return
        at = how % len(frames)
        self._mutation += 1
        name = ("lose", "repeat", "swap", "field")[kind] if how % 7 else "byte"
        self.counts[name] = self.counts.get(name, 0) + 1
        if name == "lose":
            del frames[at]
        elif name == "repeat":
            frames.insert(at, frames[at])
        elif name == "swap":
            frames[at - 1], frames[at] = frames[at], frames[at - 1]
        elif name == "byte" and frames[at]:
            data = bytearray(frames[at])
            data[how % len(data)] ^= 1 << how // 7 % 8
            frames[at] = bytes(data)
        elif name == "field" and frames[at]:
            frames[at] = self._change(frames[at], how // 7)

    def _change(self, data: bytes, how: int) -> bytes:
        reader = FrameReader(1 << 31)
        reader.feed(data)
        with suppress(Exception):  # it was changed before
            _, channel, performative, payload = reader.next()  # type: ignore[misc]
            fields = list(performative.fields)  # type: ignore[union-attr]
            field = fields[how % len(fields)].name
            old = getattr(performative, field)
            how //= len(fields)
            if isinstance(old, int) and not isinstance(old, bool):
                new: Any = (*NUMBERS, old + 1, max(old - 1, 0))[how % 10]
            elif isinstance(old, bool):
                new = not old
            else:
                new = (*NUMBERS, *OTHERS)[how % (len(NUMBERS) + len(OTHERS))]
            if how % 11 == 0:
                channel = how // 11 % 4
            else:
                setattr(performative, field, new)
            return encode_frame(channel, performative, payload)  # type: ignore[arg-type]
        return data

    # The owners

    def act(self, kind: int, which: int, how: int) -> None:
        """One call of the owner's, at whatever moment."""
        side = which % 2
        engine, witness = self.engines[side], self.witnesses[side]
        session = pick(witness.sessions, which // 2)
        link = pick(witness.links, which // 2)
        if kind == 0:
            witness.sessions.append(engine.begin(self.terms))
        elif kind == 1 and session is not None:
            terms = link_terms(how)
            attached = session.attach_sender(terms) if how % 2 else session.attach_receiver(terms)
            self._own(witness, attached, how)
        elif kind in (2, 3, 4, 5) and link is not None and not link.is_sender:
            link.flow(how % 6, drain=how % 4 == 0, echo=how % 5 == 0)
        elif kind in (6, 7, 8, 9, 10) and link is not None and link.is_sender:
            state = STATES[how % 5] if how % 9 == 0 else None
            self.sent.append(link.send(bytes(SIZES[how % 4]), settled=how % 3 == 0, more=how % 5 == 0, state=state))
        elif kind in (11, 12) and self.sent:
            delivery = self.sent[-1 - which // 2 % len(self.sent)]
            if kind == 11:
                delivery.link.send_more(delivery, bytes(SIZES[how % 4]), more=how % 2 == 0)
            else:
                delivery.link.abort(delivery)
        elif kind == 13 and self.sent:
            delivery = self.sent[-1 - which // 2 % len(self.sent)]
            delivery.link.settle(delivery, STATES[how % 5])
        elif kind in (14, 15, 16) and self.got:
            delivery = self.got[-1 - which // 2 % len(self.got)]
            delivery.link.settle(delivery, STATES[how % 5], settled=(None, True, False)[how % 3])
        elif kind == 17 and self.got and getattr(self.got[-1], "stream", None) is not None:
            delivery = self.got[-1 - which // 2 % len(self.got)]
            (delivery.link.discard if how % 5 == 0 else delivery.link.read)(delivery)
        elif kind == 18 and link is not None and link.is_sender:
            (link.drained if how % 2 else link.offer)(how % 3)
        elif kind == 19 and link is not None and how % 2:
            link.detach(closed=how % 3 == 0, error=Error("x:y") if how % 5 == 0 else None)
        elif kind == 20 and session is not None and how % 3 == 0:
            session.end(Error("x:y") if how % 2 else None)
        elif kind == 21 and how % 13 == 0:
            engine.close(Error("x:y") if how % 2 else None)

    def _own(self, witness: Witness, link: Any, how: int) -> None:
        witness.links.append(link)
        if link.is_sender:
            link.auto_settle = how % 3 != 0
        else:
            link.streaming = self.streaming

    def look(self) -> None:
        """Hear what happened, and answer what asks for it."""
        for engine, witness in zip(self.engines, self.witnesses, strict=True):
            for event in engine.events():
                witness.hear(event)
                with suppress(LocalProtocolError):
                    self._answer(witness, event)

    def _answer(self, witness: Witness, event: Event) -> None:
        if isinstance(event, ConnectionOpened):
            for engine in self.engines:
                if engine.remote is not None and not engine._open_asked:
                    engine.open()
        elif isinstance(event, SessionBegun) and event.session.terms is None:
            event.session.begin(self.terms)
        elif isinstance(event, LinkAttached):
            link: Any = event.link
            if not link.is_sender:
                link.streaming = self.streaming
            if link.terms is not None:
                return
            if len(link.name) == 3:
                link.refuse(Error("amqp:not-found"))
            else:
                link.attach(link_terms(int(link.name[1:] or 0) if link.name[1:].isdigit() else 0, link.name))
        elif isinstance(event, CreditChanged) and event.link.drain:
            event.link.drained()
        for link in witness.links:
            if not link.is_sender:
                assert len(link.incoming) < 1000
                self.got.extend(link.incoming)
                link.incoming.clear()
            elif link.attached:
                assert link.credit >= 0


def link_terms(how: int, name: str | None = None) -> LinkTerms:
    return LinkTerms(
        name if name is not None else f"l{how % 12}",
        Source("q"),
        Target("q"),
        receiver_settle_mode="second" if how % 2 else "first",
        initial_delivery_count=FIRST_IDS[how % 3],
        max_message_size=(None, 1000)[how % 2],
    )


def pick(things: list[Any], which: int) -> Any:
    return things[which % len(things)] if things else None
