"""A server whose node `$cbs` answers as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import ByteStream

from amqp10.engine import (
    ConnectionOpened,
    ConnectionTerms,
    LinkAttached,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    SessionBegun,
    SessionTerms,
    dialect,
)
from amqp10.messaging import ACCEPTED, Error, Message, Rejected
from amqp10.sasl import Authenticator
from amqp10.types import Symbol

Answers = Callable[[Message], list[Message | bytes]]


class Server:
    """One connection of a server that attaches all links, and answers at `$cbs` as the test says."""

    def __init__(
        self,
        answers: Answers | None,
        terms: ConnectionTerms | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._terms = terms or ConnectionTerms("hostile")
        self._engine = dialect("1.0").server(self._terms, authenticator or Authenticator(None, anonymous=True))
        self._answers = answers
        self._out: list[SenderLink] = []
        self._engine.start()

    async def serve(self, stream: ByteStream) -> None:
        engine = self._engine
        async with stream:
            try:
                while True:
                    engine.receive_data(await stream.receive())
                    for event in engine.events():
                        self._act(event)
                    if data := engine.data_to_send():
                        await stream.send(data)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    def _act(self, event: Any) -> None:
        if isinstance(event, ConnectionOpened):
            self._engine.open(self._terms)
        elif isinstance(event, SessionBegun):
            event.session.begin(SessionTerms())
        elif isinstance(event, LinkAttached) and event.link.remote is not None:
            link, remote = event.link, event.link.remote
            link.attach(LinkTerms(link.name, source=remote.source, target=remote.target))
            if isinstance(link, ReceiverLink):
                link.flow(100)
            elif isinstance(link, SenderLink):
                self._out.insert(0, link)
        elif isinstance(requests := getattr(event, "link", None), ReceiverLink):
            while requests.incoming:
                delivery = requests.incoming.popleft()
                if self._answers is None:
                    reason = f"not this one: {Message.decode(delivery.payload).body}"
                    requests.settle(delivery, Rejected(Error(Symbol("x"), reason)))
                    continue
                requests.settle(delivery, ACCEPTED)
                for answer in self._answers(Message.decode(delivery.payload)):
                    payload = answer if isinstance(answer, bytes) else answer.encode()
                    self._out[0].send(payload, settled=True)
