"""One task a peer: negotiate a dialect, make its engine, and pump until the connection is over."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteStream

from ..engine import Engine, Negotiation
from ..messaging import Error
from ..net import Pump, StreamFacts
from ._connection import Peer, PeerTerms
from ._router import Router

if TYPE_CHECKING:
    from ..sasl import Authenticator

_log = logging.getLogger("amqp10.broker")


class Doorkeeper:
    """Serves peers, and knows those that are there.

    Attributes:
        opened: how many have opened and are not over.
    """

    def __init__(
        self,
        router: Router,
        authenticator: Authenticator,
        terms: PeerTerms,
        max_connections: int | None,
    ) -> None:
        self.opened = 0
        self._router = router
        self._authenticator = authenticator
        self._terms = terms
        self._max_connections = max_connections
        self._peers: dict[Peer, None] = {}
        self._closing = False
        self._quiet: anyio.Event | None = None

    async def serve(self, stream: ByteStream, facts: StreamFacts, handshake: anyio.CancelScope) -> None:
        """Serve one peer to its end; the stream is closed then.

        A fault of ours in it is logged and costs this connection, not the broker.

        Args:
            handshake: the scope that this runs in; its deadline is lifted when the peer has opened.

        Cancelling: the peer's links end, the stream is closed.
        """
        try:
            engine = await self._negotiate(stream, facts)
            if engine is not None:
                await self._pump(stream, engine, handshake)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # it went before it had said what it wants
        except Exception:
            _log.exception("serving %s failed", facts.peer)
        finally:
            await anyio.aclose_forcefully(stream)

    async def _negotiate(self, stream: ByteStream, facts: StreamFacts) -> Engine | None:
        """Read until the peer's protocol is known; its engine, with all that was read. None: refused (§2.2)."""
        negotiation = Negotiation()
        while not negotiation.receive_data(await stream.receive()):
            pass
        if negotiation.dialect is None:
            if negotiation.refusal is not None:
                await stream.send(negotiation.refusal)
                await stream.aclose()
            return None
        authenticator = self._authenticator.for_connection(secure=facts.secure, external_identity=facts.identity)
        engine = negotiation.dialect.server(self._terms.connection, authenticator)
        engine.start()
        engine.receive_data(negotiation.received)
        return engine

    async def _pump(self, stream: ByteStream, engine: Engine, handshake: anyio.CancelScope) -> None:
        async with anyio.create_task_group() as tasks:
            waiting = False

            async def wait_for_room() -> None:
                nonlocal waiting
                await pump.drained()
                waiting = False
                peer.resume()

            def blocked() -> bool:
                nonlocal waiting
                if not pump.full:
                    return False
                if not waiting:
                    waiting = True
                    tasks.start_soon(wait_for_room)
                return True

            def opened(peer: Peer) -> bool:
                handshake.deadline = math.inf
                self.opened += 1
                self._peers[peer] = None
                return not self._closing and (self._max_connections is None or self.opened <= self._max_connections)

            peer = Peer(
                engine,
                self._router,
                self._terms,
                wake=lambda: pump.wake(),
                blocked=blocked,
                opened=opened,
                ended=self._ended,
            )
            pump = Pump(stream, engine, peer.handle)
            try:
                await pump.run()
            finally:
                peer.lost()
            tasks.cancel_scope.cancel()

    def _ended(self, peer: Peer) -> None:
        if peer in self._peers:
            del self._peers[peer]
            self.opened -= 1
        if not self._peers and self._quiet is not None:
            self._quiet.set()

    async def close(self) -> None:
        """Close all connections, and wait for their peers to do the same.

        Cancelling: the waiting ends.
        """
        self._closing = True
        self._quiet = anyio.Event()
        for peer in list(self._peers):
            peer.engine.close(Error("amqp:connection:forced", "the broker is shutting down"))
            peer.wake()
        if self._peers:
            await self._quiet.wait()
