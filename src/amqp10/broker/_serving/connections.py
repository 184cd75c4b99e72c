"""One task for each peer: negotiate a dialect, make its engine, and pump until the connection ends."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from ...engine import Authenticated, ConnectionEnded, ConnectionTerms, Dialect, Engine, Event, Negotiation
from ...errors import AmqpError, ConnectionClosed
from ...messaging import Error
from ...net import Pump, StreamFacts, keep_from_children, traced
from ...types import Symbol
from .._errors import Refused
from .._limits import BrokerLimits, check_name
from .._log import attempt, notice
from .._peer import PeerTerms
from .._tokens.grants import PeerTokens
from .._virtual_host_core import Journal, VirtualHostCore
from .failed_logins import FailedLogins, Login
from .handshakes import Handshakes, most_handshakes, most_sockets
from .peer_connection import PeerConnection
from .transport import PeerTransport

if TYPE_CHECKING:
    from ...sasl import Authenticator

_log = logging.getLogger("amqp10.broker")


MAX_OUTPUT = 16_777_216
"""Bytes, besides one message, that may wait for a peer that does not read before it is cut off."""


PORTION = 2000
"""How many messages that came together, or a twentieth as many attaches and the like, are worked off in one go."""


IN_MEMORY = StreamFacts(secure=True, peer="this process")
"""The facts of a connection in memory, which the application itself makes."""


_SHARE_OF_USER = 0.9
"""The part of all connections that one user may have by default."""


MAX_NAME = 80
"""The most characters in the log of a name that a peer claimed."""


class ConnectionManager:
    """Serves peers, and knows the open connections.

    Attributes:
        handshakes: the connections that have not opened yet.
        max_output: bytes that may wait for one peer.
        refused_logins: the number of refused logins.
    """

    def __init__(
        self,
        vhost: VirtualHostCore,
        authenticator: Authenticator,
        terms: PeerTerms,
        max_connections: int | None,
        dialects: Sequence[Dialect],
        limits: BrokerLimits,
    ) -> None:
        self.handshakes = Handshakes(most_handshakes(limits.handshakes), limits.handshakes_by_address)
        self._limits = limits
        self.max_output = MAX_OUTPUT + (terms.connection.max_message_size or 0)
        self._vhost = vhost
        self._authenticator = authenticator
        self._terms = terms
        self._max_connections = max_connections
        self.refused_logins = 0
        self._most_sockets = most_sockets() if max_connections is None else None
        self._sockets = 0  # open connections that have a socket
        self._of_users: Counter[str | None] = Counter()  # those of each user
        self._most_of_user = limits.connections_by_user
        most = max_connections if max_connections is not None else self._most_sockets
        if self._most_of_user is None and most is not None:
            self._most_of_user = math.ceil(most * _SHARE_OF_USER)
        self._dialects = dialects
        self._failed_logins = FailedLogins(anyio.current_time)
        self._opened: dict[Connection, None] = {}
        self._closing = False
        self._all_ended: anyio.Event | None = None

    @property
    def opened(self) -> int:
        """The number of open connections."""
        return len(self._opened)

    async def serve(
        self, stream: ByteStream, facts: StreamFacts, scope: anyio.CancelScope, received: bytes = b""
    ) -> None:
        """Serve one peer to its end, and close the stream.

        An exception is a fault of the broker; it is logged, and ends only this connection.

        Args:
            scope: the scope that this runs in; its deadline is lifted when the peer is admitted.
            received: what was already read from the stream.

        Cancelling: the peer's links end, the stream is closed.
        """
        try:
            wait = self._failed_logins.wait(facts.peer)
            if wait:
                scope.deadline += wait
                await anyio.sleep(wait)
            negotiation = await self._negotiate(stream, received)
            if negotiation.dialect is not None:
                login = Login(self._failed_logins, facts.peer)
                rules = self._terms.tokens
                tokens = PeerTokens(rules) if rules is not None else None
                engine = self._make_engine(negotiation.dialect, negotiation.received, facts, login, tokens)
                shown = traced(stream, negotiation.dialect.tracer, f"broker {facts.peer}", negotiation.received)
                await Connection(self, shown, engine, facts, scope, login, tokens).run()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # the peer left before its protocol was known
        except Exception:
            _log.exception("serving %s failed", facts.peer)
        finally:
            await anyio.aclose_forcefully(stream)

    async def _negotiate(self, stream: ByteStream, received: bytes) -> Negotiation:
        """Read until the protocol of the peer is known; refuse it if it is not offered (§2.2)."""
        negotiation = Negotiation(self._dialects)
        while not negotiation.receive_data(received or await stream.receive()):
            received = b""
        if negotiation.refusal is not None:
            await stream.send(negotiation.refusal)
            await stream.aclose()
        return negotiation

    def _make_engine(
        self, dialect: Dialect, received: bytes, facts: StreamFacts, login: Login, tokens: PeerTokens | None
    ) -> Engine:
        """Return the engine of a new peer, which has read the bytes received so far."""

        def failed(mechanism: str, claimed: str | None, reason: str | None) -> None:
            name = "without a name" if claimed is None else f"as {claimed[:MAX_NAME]!a}"
            why = "" if reason is None else f": {reason}"
            text = f"{facts.peer} could not log in {name} by {mechanism}{why}"
            notice("login_refused", logging.WARNING, text, peer=str(facts.peer), mechanism=mechanism)
            self.refused_logins += 1
            login.failed(claimed)

        authenticator = self._authenticator.for_connection(
            secure=facts.secure,
            external_identity=facts.identity,
            end_point=facts.end_point,
            failed=failed,
            tokens=tokens.log_in if tokens is not None and tokens.takes_logins else None,
            keys=tokens.log_in_by_key if tokens is not None and tokens.takes_keys else None,
            renew=tokens.renew if tokens is not None else None,
        )
        engine = dialect.server(self._terms.connection, authenticator)
        engine.portion = PORTION
        engine.start()
        engine.receive_data(received)
        return engine

    def make_peer(self, engine: Engine, transport: PeerTransport, tokens: PeerTokens | None) -> PeerConnection:
        """Return the broker's view of a connection."""
        return PeerConnection(engine, self._vhost, self._terms, transport, tokens)

    def admit(self, connection: Connection, remote: ConnectionTerms | None) -> Error | None:
        """Admit a peer that has opened; return the error that refuses it, or None."""
        if connection.store is not None and connection.store.failure is not None:
            return _no_resources(f"the store takes no changes: {connection.store.failure}")
        refusal = self._refusal(remote)
        if refusal is not None:
            return refusal
        full = _no_resources("the broker takes no more connections")
        if self._max_connections is not None and self.opened >= self._max_connections:
            return full
        if not connection.in_memory:
            if self._most_sockets is not None and self._sockets >= self._most_sockets:
                return full
            user, most = connection.user, self._most_of_user
            if user is not None and most is not None and self._of_users[user] >= most:
                return _no_resources(f"the broker takes no more connections of user {user!r:.80}: the limit is {most}")
            self._sockets += 1
            self._of_users[user] += 1
        self._opened[connection] = None
        return full if self._closing else None

    def _refusal(self, remote: ConnectionTerms | None) -> Error | None:
        """Return the error in the terms that a peer opened with, or None."""
        if remote is None:
            return None
        try:
            check_name("a container id", remote.container_id, self._limits.name)
        except Refused as error:
            return error.error
        least, theirs = self._limits.idle_timeout, remote.idle_timeout
        # §2.4.5: close if the peer asks for a shorter idle time-out than supported
        if theirs is not None and theirs < least:
            reason = f"an idle-time-out of {theirs * 1000:g} ms, and {least * 1000:g} ms is the least"
            return Error("amqp:not-allowed", reason)
        return None

    def blocked_or_not(self) -> None:
        """Tell all peers that the broker is blocked, or takes messages again."""
        for connection in list(self._opened):
            attempt("telling a connection whether messages are taken", connection.blocked_or_not)

    def replace_users(self, authenticator: Authenticator, may_stay: Callable[[str | None], bool]) -> int:
        """Authenticate new connections by `authenticator` from now on; return how many connections are closed.

        Args:
            may_stay: returns whether the connections of a user may stay.
        """
        self._authenticator = authenticator
        over = [connection for connection in self._opened if not connection.in_memory and not may_stay(connection.user)]
        error = Error(
            Symbol("amqp:connection:forced"), "the user was removed, or its permissions have changed: log in again"
        )
        for connection in over:
            attempt("closing a connection", connection.close, error)
        return len(over)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that ended."""
        if connection in self._opened:
            del self._opened[connection]
            if not connection.in_memory:
                self._sockets -= 1
                self._of_users[connection.user] -= 1
                if not self._of_users[connection.user]:
                    del self._of_users[connection.user]
        if not self._opened and self._all_ended is not None:
            self._all_ended.set()

    def cut(self, store: Journal) -> None:
        """Cut all connections to a virtual host whose store failed: what they wait for was not written."""
        for connection in list(self._opened):
            if connection.store is store:
                connection.cut()

    async def close(self) -> None:
        """Close all connections, and wait for their peers to do the same.

        Cancelling: the waiting ends.
        """
        self._closing = True
        self._all_ended = anyio.Event()
        for connection in list(self._opened):
            attempt(
                "closing a connection", connection.close, Error("amqp:connection:forced", "the broker is shutting down")
            )
        if self._opened:
            await self._all_ended.wait()


class Connection:
    """One connection from the start of its engine to its end: the pump, and the peer that handles the pump's events.

    Args:
        scope: cancelling it cuts the connection; its deadline is lifted when the peer is admitted.
        login: delays the answer to the peer's login.
        tokens: the tokens that the peer has put; None: no token is valid.

    Attributes:
        in_memory: whether the connection has no socket, and so no file descriptor.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        stream: ByteStream,
        engine: Engine,
        facts: StreamFacts,
        scope: anyio.CancelScope,
        login: Login,
        tokens: PeerTokens | None,
    ) -> None:
        self._manager = manager
        self._engine = engine
        self._facts = facts
        self.in_memory = facts is IN_MEMORY
        self._scope = scope
        self._login = login
        self._pump = Pump(stream, engine, self._handle, self._before_write)
        self._tokens = tokens
        self._peer = manager.make_peer(engine, self, tokens)
        self._tasks = anyio.create_task_group()
        self._waiting = False
        self._admitted = False
        self._going_on = False
        keep_from_children(self, stream)

    async def run(self) -> None:
        """Serve until the connection ends.

        Cancelling: the peer's links end, the stream is closed.
        """
        async with self._tasks:
            try:
                await self._pump.run()
                while self._peer.behind:  # messages that the peer sent before the end
                    await anyio.lowlevel.checkpoint()
                    self._peer.go_on()
            finally:
                if self._peer.is_on(self):
                    self._peer.lost()
                else:
                    self.ended()
            self._tasks.cancel_scope.cancel()

    @property
    def user(self) -> str | None:
        """The user who logged in; None: the peer has no name."""
        return self._engine.identity

    @property
    def store(self) -> Journal | None:
        """The store of the peer's virtual host; None: it has none."""
        return self._peer.store

    def _handle(self, events: list[Event]) -> None:
        if not self._admitted and any(isinstance(event, Authenticated) for event in events):
            self._login.succeeded(self.user)
        if self._peer.is_on(self):
            self._peer.handle(events)
            if self._peer.behind and not self._going_on:
                self._going_on = True
                self._tasks.start_soon(self._go_on)
        last = events[-1] if events else None
        if self._admitted and isinstance(last, ConnectionEnded) and _is_fault(last.error):
            user = "" if self.user is None else f" of {self.user!r:.80}"
            text = f"the connection from {self._facts.peer}{user} was lost: {last.error}"
            fields = {"peer": str(self._facts.peer), "error": type(last.error).__name__}
            notice("connection_lost", logging.INFO, text, **fields)
        if self._engine.output_size > self._manager.max_output:
            # Messages wait in queues while the output is full, so this output is answers to requests.
            _log.warning("%s asks and does not read; cut off", self._facts.peer)
            self._scope.cancel()

    async def _go_on(self) -> None:
        """Handle what full passes have left, also while nothing is read: credit may have let messages come."""
        while self._peer.behind:
            await anyio.lowlevel.checkpoint()
            self._peer.go_on()
            self.wake()
        self._going_on = False

    def wake(self) -> None:
        self._pump.wake()

    def blocked(self) -> bool:
        if not self._pump.full:
            return False
        if not self._waiting:
            self._waiting = True
            self._tasks.start_soon(self._wait_for_room)
        return True

    async def _wait_for_room(self) -> None:
        await self._pump.drained()
        self._waiting = False
        self._peer.resume()

    async def _before_write(self) -> None:
        await self._login.answer(self._scope)
        # What a peer is told before it is admitted does not depend on the store.
        if self._admitted and (store := self.store) is not None:
            await store.wait_durable()

    async def _watch_tokens(self, tokens: PeerTokens) -> None:
        """Expire the peer's tokens in time, with the links or the connection that they allow."""
        changed = anyio.Event()
        tokens.changed = changed.set
        while True:
            left = tokens.seconds_left
            with anyio.move_on_after(math.inf if left is None else max(0.0, left)):
                await changed.wait()
            if not self._peer.is_on(self):
                return  # the connection is ending
            changed = anyio.Event()  # made before links are checked: another token may come meanwhile
            tokens.changed = changed.set
            reason = tokens.expire()
            if reason is not None:
                _log.warning("%s is closed: %s", self._facts.peer, reason.description)
                self.close(reason)
                return
            for _ in self._peer.check_rights():
                await anyio.lowlevel.checkpoint()

    def opened(self) -> Error | None:
        refusal = self._manager.admit(self, self._engine.remote)
        if refusal is None:
            self._admitted = True
            self._manager.handshakes.end(self._scope)
            self._scope.deadline = math.inf
            if self._tokens is not None:
                self._tasks.start_soon(self._watch_tokens, self._tokens)
        return refusal

    def ended(self) -> None:
        self._manager.remove(self)

    def blocked_or_not(self) -> None:
        """Tell the peer that the broker is blocked, or takes messages again."""
        if self._peer.is_on(self):
            self._peer.blocked_or_not()

    def cut(self) -> None:
        """End the connection without a close."""
        self._scope.cancel()

    def close(self, error: Error) -> None:
        """Close the connection from this side."""
        self._engine.close(error)
        self._pump.wake()


def _is_fault(error: AmqpError | None) -> bool:
    """Return whether the error is a fault, and not an orderly close."""
    return error is not None and not (isinstance(error, ConnectionClosed) and error.condition is None)


def _no_resources(description: str) -> Error:
    return Error("amqp:resource-limit-exceeded", description)
