"""The peer of a client's tests: a server engine at the other end of a memory stream, doing what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from amqp10.broker.internals import memory_streams
from amqp10.client import Connection
from amqp10.engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    DeliveriesReceived,
    Event,
    Link,
    LinkAttached,
    LinkEnded,
    OutcomesReceived,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    SessionBegun,
    SessionTerms,
    dialect,
)
from amqp10.messaging import ACCEPTED, Error, Message
from amqp10.net import Pump
from amqp10.sasl import Authenticator


class Valve(ByteStream):
    """A stream that can be made to swallow what is sent into it: a peer that has fallen silent."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.shut = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        if self.shut:
            await anyio.lowlevel.checkpoint()
        else:
            await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Peer:
    """A server that a test drives.

    Attributes:
        credit: what it grants to each sender of the client at once.
        outcome: what it answers each message with; None for nothing.
        refusal: the error with which it refuses links; None to take them.
        answers: it answers what the client opens; False for a peer that leaves it open.
        dynamic: the address of nodes that it makes.
        filters: it says that it applies what filters it is asked for.
        source: what it says of the client's sources in place of what it was asked for.
        stream: its end of the stream; `stream.shut = True` for a peer that has fallen silent.
        received: payloads of all messages that came, in order.
        links: links that are attached, by the name of the terminus here.
        outcomes: deliveries sent to the client of which the client told a state.
        ended: links that ended, with the error.
    """

    def __init__(
        self, stream: Valve, session: SessionTerms, terms: ConnectionTerms, authenticator: Authenticator
    ) -> None:
        self.engine = dialect("1.0").server(terms, authenticator.for_connection(secure=True))
        self.stream = stream
        self.pump = Pump(stream, self.engine, self.handle)
        self.session_terms = session
        self.credit = 100
        self.outcome: Any = ACCEPTED
        self.refusal: Error | None = None
        self.answers = True
        self.dynamic = "dynamic-1"
        self.filters = True
        self.source: dict[str, Any] = {}
        self.received: list[bytes] = []
        self.links: dict[str, Any] = {}
        self.outcomes: list[OutgoingDelivery] = []
        self.ended: list[LinkEnded] = []
        self.over = False
        self.error: Exception | None = None
        self.sessions: list[Any] = []
        self.on_event: Callable[[Event], bool] = lambda event: False
        self._waiting: list[Event] = []

    def handle(self, events: Iterable[Event]) -> None:
        for event in events:
            if self.on_event(event):
                continue
            if not self.answers:
                self._waiting.append(event)
            else:
                self.act(event)

    def answer(self) -> None:
        """Go on after a silence, with what came meanwhile first."""
        self.answers = True
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.act(event)
        self.pump.wake()

    def act(self, event: Event) -> None:
        if isinstance(event, ConnectionOpened):
            self.engine.open()
        elif isinstance(event, SessionBegun):
            self.sessions.append(event.session)
            if event.session.terms is None:
                event.session.begin(self.session_terms)
        elif isinstance(event, LinkAttached):
            self.attach(event.link)
        elif isinstance(event, DeliveriesReceived):
            self.take(event.link)
        elif isinstance(event, CreditChanged):
            if event.link.drain:
                event.link.drained()
        elif isinstance(event, OutcomesReceived):
            self.outcomes.extend(event.deliveries)
        elif isinstance(event, LinkEnded):
            self.ended.append(event)
        elif isinstance(event, ConnectionEnded):
            self.over = True
            self.error = event.error

    def attach(self, link: Link) -> None:
        remote = link.remote
        assert remote is not None
        if self.refusal is not None:
            link.refuse(self.refusal)
            return
        terminus: Any = remote.source if link.is_sender else remote.target
        if terminus.dynamic:
            terminus = replace_terminus(terminus, address=self.dynamic)
            remote = replace(remote, **{"source" if link.is_sender else "target": terminus})
        if remote.source is not None and not self.filters:
            remote = replace(remote, source=replace_terminus(remote.source, filter=None))
        if remote.source is not None and self.source:
            remote = replace(remote, source=replace_terminus(remote.source, **self.source))
        link.attach(replace(remote, unsettled=None, initial_delivery_count=0))
        self.links[str(terminus.address)] = link
        if isinstance(link, ReceiverLink) and link.attached and self.credit:
            link.flow(self.credit)

    def take(self, link: ReceiverLink) -> None:
        while link.incoming:
            delivery = link.incoming.popleft()
            self.received.append(delivery.payload)
            if self.outcome is not None and not delivery.local_settled:
                link.settle(delivery, self.outcome)
            if (
                self.credit and link.attached and link.credit <= self.credit // 2
            ):  # detached in the same breath, perhaps
                link.flow(self.credit)

    def send(self, address: str, *bodies: Any, settled: bool = False) -> list[OutgoingDelivery]:
        """Send messages to the client's receiver; as many as there is credit for."""
        link: SenderLink = self.links[address]
        sent = []
        for body in bodies[: link.credit]:
            payload = body if isinstance(body, bytes) else Message(body).encode()
            sent.append(link.send(payload, settled=settled))
        self.pump.wake()
        return sent

    def bodies(self) -> list[Any]:
        return [Message.decode(payload).body for payload in self.received]


def replace_terminus(terminus: Any, **changes: Any) -> Any:
    fields = {name: getattr(terminus, name) for name in type(terminus).__slots__ if not name.startswith("_")}
    return type(terminus)(**{**fields, **changes})


Serve = Callable[..., AbstractAsyncContextManager[tuple[Peer, Connection]]]


@asynccontextmanager
async def serving(
    *,
    session: SessionTerms | None = None,
    terms: ConnectionTerms | None = None,
    authenticator: Authenticator | None = None,
    streams: Callable[[], tuple[ByteStream, ByteStream]] = memory_streams,
    **settings: Any,
) -> AsyncIterator[tuple[Peer, Connection]]:
    """A peer that runs, and a connection to it that is still to be opened."""
    here, there = streams()
    authenticator = authenticator or Authenticator(anonymous=True)
    peer = Peer(Valve(there), session or SessionTerms(), terms or ConnectionTerms("peer"), authenticator)
    async with anyio.create_task_group() as tasks:
        peer.engine.start()
        tasks.start_soon(peer.pump.run)
        yield peer, Connection.over(here, **{"close_timeout": 1.0, **settings})
        tasks.cancel_scope.cancel()


def answering(
    peer: Peer, properties: dict[Any, Any] | None = None, offered: tuple[str, ...] = (), **source: Any
) -> list[Event]:
    """Let the peer answer attaches with these fields of the source; what happens there is in the list."""
    happened: list[Event] = []

    def on_event(event: Event) -> bool:
        happened.append(event)
        if not isinstance(event, LinkAttached):
            return False
        remote = event.link.remote
        assert remote is not None
        answer = replace(
            remote,
            source=replace_terminus(remote.source, **source),
            initial_delivery_count=0,
            offered_capabilities=offered,
            properties=properties or {},
        )
        event.link.attach(answer)
        return True

    peer.on_event = on_event
    return happened
