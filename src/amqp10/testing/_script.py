"""A script against one engine, without I/O, to test an engine's answer to each frame."""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

from .._arguments import checked
from ..dialects.v1_0.wire.frames import AMQP_HEADER
from ..dialects.v1_0.wire.performatives import Attach, Begin, Close, Flow, Open, Transfer
from ..engine import (
    CreditChanged,
    Engine,
    Event,
    LinkAttached,
    LinkTerms,
    ReceiverLink,
    Role,
    SenderLink,
    Session,
    SessionBegun,
    SessionTerms,
)
from ..messaging import Source, Target
from ..types import Composite
from ._transcript import Frame, Transcript

P = TypeVar("P", bound=Composite)
E = TypeVar("E", bound=Event)


@checked
class EngineScript:
    """Plays the peer of one AMQP 1.0 engine: any frames, in any order, however wrong.

        script = EngineScript(engine)
        script.open()                                   # headers and opens
        script.send(Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10))
        script.expect(End, error=lambda e: e.condition == "amqp:...")

    The engine's events gather in `events`; only the test answers them.

    Args:
        engine: a fresh engine of either role, which is started here.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: list[Event] = []
        self.transcript: Transcript = Transcript()
        self.channel: int = 0
        self._channels: dict[int, int] = {}
        self._names = itertools.count(1)
        engine.start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.events)} events>"

    # The script's side

    def send(self, performative: Composite, payload: bytes = b"", channel: int | None = None) -> None:
        """Give the engine a frame on `channel`.

        By default, open and close are on channel 0, other frames on the script's channel of the session heard of last.

        Raises:
            EncodeError: a field of the performative has no encoding.
        """
        frame = Frame(self._channel_of(performative) if channel is None else channel, performative, payload)
        self.transcript.record_action(frame)
        self._give(frame.encode())

    def send_together(self, *performatives: Composite | tuple[Composite, bytes]) -> None:
        """Give the engine several frames in one portion of bytes."""
        data = b""
        for each in performatives:
            performative, payload = each if isinstance(each, tuple) else (each, b"")
            frame = Frame(self._channel_of(performative), performative, payload)
            self.transcript.record_action(frame)
            data += frame.encode()
        self._give(data)

    def send_bytes(self, data: bytes) -> None:
        """Give the engine any bytes."""
        self.transcript.record_action(f"{len(data)} bytes: {data[:32].hex(' ')}{' ...' if len(data) > 32 else ''}")
        self._give(data)

    def send_empty(self) -> None:
        """Give the engine an empty frame, a heartbeat (§2.4.5)."""
        self.send_bytes(Frame(0, None).encode())

    def end_of_stream(self) -> None:
        """End the transport."""
        self.transcript.record_action("(end of stream)")
        self.engine.receive_eof()
        self.events += self.engine.events()

    def _channel_of(self, performative: Composite) -> int:
        return 0 if isinstance(performative, Open | Close) else self._channels.get(self.channel, self.channel)

    def _give(self, data: bytes) -> None:
        self.engine.receive_data(data)
        self.events += self.engine.events()

    # The engine's side

    def read(self) -> Frame | bytes | None:
        """Return the next frame or protocol header of the engine; None if there is no more output."""
        self.transcript.feed(self.engine.data_to_send())
        return self.transcript.take()

    def expect(self, kind: type[P], *, channel: int | None = None, **fields: Any) -> P:
        """Return the engine's next performative, which must be of `kind` with `fields`.

        Args:
            kind: the performative's class.
            fields: for each field the required value, or a function that returns whether a value is right.

        Raises:
            PeerMismatch: the engine wrote another frame, or nothing.
        """
        return self.expect_payload(kind, channel=channel, **fields)[0]

    def expect_payload(self, kind: type[P], *, channel: int | None = None, **fields: Any) -> tuple[P, bytes]:
        """Return the same as `expect`, and the payload after the performative."""
        item = self.read()
        performative = self.transcript.check(item, kind, channel, fields)
        assert isinstance(item, Frame)
        self.channel = item.channel
        return performative, item.payload

    def expect_header(self, header: bytes = AMQP_HEADER) -> None:
        """Check that the engine's next output is the protocol header `header` (§2.2).

        Raises:
            PeerMismatch: they are not.
        """
        self.transcript.expect_header()
        item = self.read()
        if item != header:
            raise self.transcript.unexpected(f"the protocol header {header!r}", item)

    def expect_empty(self) -> None:
        """Check that the engine's next frame is empty, a heartbeat (§2.4.5).

        Raises:
            PeerMismatch: the engine wrote another frame, or nothing.
        """
        item = self.read()
        if not isinstance(item, Frame) or item.performative is not None:
            raise self.transcript.unexpected("an empty frame", item)

    def expect_nothing(self) -> None:
        """Check that the engine has no more output.

        Raises:
            PeerMismatch: it has.
        """
        item = self.read()
        if item is not None:
            raise self.transcript.unexpected("nothing", item)

    def expect_event(self, kind: type[E]) -> E:
        """Return the next event of `kind`; drop the events before it.

        Raises:
            PeerMismatch: there is no such event.
        """
        for number, event in enumerate(self.events):
            if isinstance(event, kind):
                del self.events[: number + 1]
                return event
        raise self.transcript.mismatch(f"expected {kind.__name__}, the events are {self.events}")

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        self.events += self.engine.events()
        events, self.events = self.events, []
        return events

    # The usual beginning

    def open(self, **fields: Any) -> Open:
        """Exchange protocol headers and opens, in the role opposite to the engine's; return the engine's open.

        Args:
            fields: fields of the script's open; its default container-id is "script".
        """
        fields.setdefault("container_id", "script")
        if self.engine.role is Role.CLIENT:
            self.engine.open()
        self.send_bytes(AMQP_HEADER)
        self.expect_header()
        self.send(Open(**fields), channel=0)
        if self.engine.role is Role.SERVER:
            self.engine.open()
        return self.expect(Open)

    def begin(self, channel: int = 0, **fields: Any) -> None:
        """Begin a session from the script; the engine's owner must answer `SessionBegun`."""
        self.send(Begin(**self._begin_fields(fields)), channel=channel)

    def answer_begin(self, channel: int | None = None, **fields: Any) -> Begin:
        """Expect a begin and answer it, on the same channel number or on `channel`."""
        begun = self.expect(Begin)
        if channel is not None:
            self._channels[self.channel] = channel
        self.send(Begin(**({"remote_channel": self.channel} | self._begin_fields(fields))))
        return begun

    @staticmethod
    def _begin_fields(fields: dict[str, Any]) -> dict[str, Any]:
        return {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100} | fields

    def answer_attach(self, handle: int | None = None, **fields: Any) -> Attach:
        """Expect an attach and answer it with the same name, termini and modes, in the other role."""
        attach = self.expect(Attach)
        self.send(answer_to(attach, handle, fields))
        return attach

    def session(self, terms: SessionTerms | None = None, **fields: Any) -> Session:
        """Let the engine begin a session, and answer.

        Args:
            terms: the terms of the engine.
            fields: fields of the script's begin; `channel` is the script's channel.
        """
        session = self.engine.begin(terms)
        self.answer_begin(**fields)
        self.expect_event(SessionBegun)
        return session

    def sender(
        self, session: Session, terms: LinkTerms | None = None, *, credit: int | None = None, **fields: Any
    ) -> SenderLink:
        """Let the engine attach as sender, answer, and grant credit.

        Args:
            session: the engine's end of the session.
            terms: the terms of the engine.
            credit: the credit that the script grants; None for no flow.
            fields: of the script's attach.
        """
        link = session.attach_sender(terms if terms is not None else self._link_terms())
        attach = self.answer_attach(**fields)
        self.expect_event(LinkAttached)
        if credit is not None:
            handle = fields.get("handle", attach.handle)
            self.flow(handle=handle, delivery_count=attach.initial_delivery_count, link_credit=credit)
            self.expect_event(CreditChanged)
        return link

    def receiver(
        self, session: Session, terms: LinkTerms | None = None, *, credit: int | None = None, **fields: Any
    ) -> ReceiverLink:
        """Let the engine attach as receiver, answer, and let the engine grant credit.

        Args:
            session: the engine's end of the session.
            terms: the terms of the engine.
            credit: the credit that the engine grants; None for no flow.
            fields: of the script's attach.
        """
        link = session.attach_receiver(terms if terms is not None else self._link_terms())
        self.answer_attach(**fields)
        self.expect_event(LinkAttached)
        if credit is not None:
            link.flow(credit)
            self.expect(Flow, link_credit=credit)
        return link

    def _link_terms(self) -> LinkTerms:
        return LinkTerms(f"link-{next(self._names)}", Source("queue"), Target("queue"))

    def flow(self, **fields: Any) -> None:
        """Send a flow; by default ids are 0 and windows 100 frames."""
        state = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
        self.send(Flow(**(state | fields)))

    def transfer(self, number: int, payload: bytes = b"\x00\x53\x75\xa0\x01x", **fields: Any) -> None:
        """Send the first transfer of the delivery `number`, with a tag made from the number, by default on handle 0."""
        usual: dict[str, Any] = {"handle": 0, "delivery_id": number, "delivery_tag": number.to_bytes(4, "big")}
        self.send(Transfer(**(usual | fields)), payload)

    def trace(self) -> str:
        """Return the conversation so far as text."""
        return str(self.transcript)


def answer_to(attach: Attach, handle: int | None, fields: dict[str, Any]) -> Attach:
    """Return an attach that accepts `attach` in the opposite role, with `fields` replaced."""
    answer: dict[str, Any] = {
        "name": attach.name,
        "handle": attach.handle if handle is None else handle,
        "role": not attach.role,
        "snd_settle_mode": attach.snd_settle_mode,
        "rcv_settle_mode": attach.rcv_settle_mode,
        "source": attach.source,
        "target": attach.target,
        "initial_delivery_count": 0 if attach.role else None,
    }
    return Attach(**(answer | fields))
