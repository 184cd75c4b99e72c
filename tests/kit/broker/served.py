"""A server engine and the broker behind it, fed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from amqp10.engine import ConnectionTerms, SessionTerms, dialect
from amqp10.messaging import Error
from amqp10.sasl import Authenticator

from ..inside.broker import LinkService, Peer, PeerConnection, PeerTerms, PeerTokens, PeerTransport, VirtualHostCore


class Served(PeerTransport):
    """See the module.

    Args:
        name: of the dialect.

    Attributes:
        over: the connection is.
    """

    def __init__(
        self,
        name: str,
        vhost: VirtualHostCore,
        *,
        offered: ConnectionTerms | None = None,
        session: SessionTerms | None = None,
        max_message_size: int = 1_000_000,
        virtual_hosts: Mapping[str, VirtualHostCore] | None = None,
        service: Callable[[Peer], LinkService] | None = None,
        tokens: PeerTokens | None = None,
    ) -> None:
        offered = offered or ConnectionTerms("broker")
        self.vhost = vhost
        self.engine = dialect(name).server(offered, Authenticator(None, anonymous=True))
        terms = PeerTerms(
            replace(offered, max_message_size=max_message_size),
            session or SessionTerms(),
            virtual_hosts=virtual_hosts,
            service=service,
        )
        self.peer = PeerConnection(self.engine, vhost, terms, self, tokens)
        self.over = False
        self.engine.start()

    def wake(self) -> None:
        """What there is to say is asked for."""

    def blocked(self) -> bool:
        return False

    def opened(self) -> Error | None:
        return None

    def ended(self) -> None:
        self.over = True

    def take(self, data: bytes) -> bytes:
        """Feed octets; what is answered."""
        self.engine.receive_data(data)
        self.settle_down()
        return self.engine.data_to_send()

    def settle_down(self) -> None:
        """Act on what happened, and on what that leads to."""
        while events := self.engine.events():
            self.peer.handle(events)
