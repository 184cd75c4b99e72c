"""One peer of the broker: its connection and sessions, by the events of its engine. It has no I/O and no queues."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ...engine import (
    Acquire,
    BeginBranch,
    CompleteBranch,
    ConnectionEnded,
    ConnectionOpened,
    DeliveriesReceived,
    Engine,
    EngineOwner,
    Event,
    LimitBranch,
    Link,
    LinkAttached,
    LinkEnded,
    LinkSession,
    OutcomesMissed,
    PrepareBranch,
    QueryBranches,
    Request,
    RequestReceived,
    Session,
    SessionBegun,
    SessionResumed,
    SessionUnmapped,
    WindowOpened,
)
from ...messaging import Error, TransactionalState
from .._errors import Refused
from .._held_up import HeldUp
from .._links.links import PeerLinks
from .._links.producer import ProducerLink
from .._links.user_id import check_user_id
from .._log import attempt
from .._management.requests import Requests
from .._peer import PassIsFull, PeerTerms
from .._queues.topic import Owner
from .._retained.sessions import PeerSessions
from .._tokens.grants import PeerTokens
from .._transactions.local import LocalTransaction
from .._users.accounts import Maker
from .._users.users import EVERYTHING, Action
from .._virtual_host_core import Journal, VirtualHostCore
from .._virtual_hosts import USUAL, not_there, virtual_host_of
from .peer_memory import PeerMemory
from .transport import Disconnected, PeerTransport

_numbers = itertools.count(1)

_COPIES_AT_ONCE: Final = 5000
"""Copies of messages that come to several queues each, in one pass, about 25 ms."""

_LINKS_AT_ONCE: Final = 10
"""Links whose rights are checked before others have their turn; a check takes up to some milliseconds."""


class PeerConnection(EngineOwner):
    """One connection, as the broker sees it.

    The driver of the engine passes every batch of events to `handle`, calls `resume` when output that was held up
    (`full`) has been written, and `lost` when it ends for any reason.

    Attributes:
        requests: carries out the peer's requests.
    """

    def __init__(
        self,
        engine: Engine,
        vhost: VirtualHostCore,
        terms: PeerTerms,
        transport: PeerTransport,
        tokens: PeerTokens | None = None,
    ) -> None:
        self.engine = engine
        self.tokens = tokens
        self.unread_octets = 0
        self.wake = transport.wake
        self.max_message_size = terms.connection.max_message_size
        self.number = next(_numbers)
        self._terms = terms
        self._transport = transport
        self.maker = Maker()
        self.transactions: dict[bytes, LocalTransaction] = {}
        self.end_of_pass: list[Callable[[], None]] = []
        self.held_up = HeldUp(lambda: self.full)
        self._opened: list[LinkSession] = []  # sessions whose window opened in this pass
        self._later: list[Event] = []  # what is left of a pass that was full, and what came after it
        self.copies_left: float = math.inf
        self.rights = EVERYTHING
        self._memory: PeerMemory | None = None  # before the open, a peer has no messages
        self._enter(vhost)

    def _enter(self, vhost: VirtualHostCore) -> None:
        """Enter a virtual host; only before a session has begun."""
        self.vhost = vhost
        self.requests = Requests(vhost, self)
        self.links = PeerLinks(self, self._terms)
        self.engine.session_keeper = PeerSessions(vhost.sessions, self)

    @property
    def owner(self) -> Owner:
        return self.engine.identity, self.engine.remote.container_id if self.engine.remote is not None else ""

    @property
    def store(self) -> Journal | None:
        """The store of its virtual host; None: it has none."""
        return self.vhost.store

    @property
    def blocked(self) -> str | None:
        account = self.maker.account
        return self.vhost.admission.blocked or (account.blocked if account is not None else None)

    @property
    def _crowded(self) -> bool:
        return self._memory is not None and self._memory.crowded

    @property
    def full(self) -> bool:
        return self._transport.blocked()

    def handle(self, events: Iterable[Event]) -> None:
        """Handle events; at the end all nodes that changed have had their pass.

        If the pass is full before that, the engine is `behind`, and the others are for its next portion.
        """
        if self._later:
            self._later += events
        else:
            self._handle(iter(events))

    @property
    def behind(self) -> bool:
        """Whether there are events left from a full pass."""
        return bool(self._later)

    def go_on(self) -> None:
        """Handle events that a full pass has left; not all of them, if this pass is full, too."""
        events, self._later = self._later, []
        self._handle(iter(events))

    def _handle(self, events: Iterator[Event]) -> None:
        self.copies_left = math.inf if self.engine.portion is None else _COPIES_AT_ONCE
        self.vhost.maker = self.maker
        try:
            self.dispatch(events)
            while late := self.links.late():
                events = iter(late)
                self.dispatch(events)
            while self.end_of_pass:
                self.end_of_pass.pop(0)()
        except PassIsFull as full:
            self._later = [DeliveriesReceived(full.link), *events]
            self.engine.put_off(self.go_on)
        finally:
            self.vhost.maker = None
        self.vhost.flush()
        while self._opened:
            self.held_up.go_on_in(self._opened.pop(), self.vhost.flush)

    def resume(self) -> None:
        """Continue sending, because the output has room again."""
        self.held_up.go_on(self.vhost.flush)
        self.links.answer()
        self.vhost.flush()

    def blocked_or_not(self) -> None:
        """Stop or restart senders, and let much or little wait, after the broker has changed its mind."""
        self.engine.block(self.blocked)
        self.engine.read_ahead(far=not self._crowded)
        for producer in self.links.producers.values():
            if isinstance(producer, ProducerLink):
                producer.destination.blocked_or_not()
        self.vhost.flush()
        self.wake()

    def lost(self) -> None:
        """End the links and give back what they held, because the connection ended. A second call does nothing."""
        self._later.clear()
        for consumer in self.links.consumers.values():
            consumer.connection_lost()
        self.engine.count_partial(-self.engine.partial)
        self.links.end_all(lambda link: not link.session.suspended)
        self.links.forget_sessions()
        transport = self._transport
        if self.vhost.sessions.suspended(self):
            self._transport = absent = Disconnected()
            self.wake = absent.wake
        else:
            self._let_go()
        self.vhost.flush()
        transport.ended()

    def _let_go(self) -> None:
        """End what belongs to the connection."""
        self.engine.memory_keeper = None
        if self._memory is not None:
            self._memory.end()
            self._memory = None
        self.requests.end()
        self.vhost.subscriptions.connection_ended(self)
        self.vhost.links.connection_ended(self)

    # Sessions that outlive their connection

    def is_on(self, transport: PeerTransport) -> bool:
        """Return whether the peer is on that transport; not after its sessions continued on another connection."""
        return self._transport is transport

    def session_taken_over(self, session: Session) -> None:
        attempt("what came before the session was taken over", self._catch_up)
        session.suspend()
        attempt("the end of a session that was taken over", self._catch_up)
        self.wake()

    def _catch_up(self) -> None:
        """Handle the events that the engine still has."""
        self.handle(self.engine.events())
        while self.behind:
            self.go_on()

    def _on_session_resumed(self, event: SessionResumed) -> None:
        """Continue a session of an earlier connection, with its links."""
        before = self.vhost.sessions.peer_of(event.session)
        if before is self:  # resumed on another channel of this connection
            self.links.session_resumed(event.session)
        if not isinstance(before, PeerConnection) or before is self:
            return
        self.links.take_over(before.links, event.session)
        self.requests.take_over(before.requests, event.session)
        self.vhost.sessions.moved(event.session, self)
        self.links.session_resumed(event.session)

    def session_expired(self, session: Session) -> None:
        if not isinstance(self._transport, Disconnected):  # the client has detached it, and goes on with others
            session.end()
            self._catch_up()
            self.wake()
            return
        self.links.end_all(lambda link: link.session is session)
        if not self.links.producers and not self.links.consumers:
            self._let_go()
        self.vhost.flush()

    def end_link(self, link: Link, error: Error) -> None:
        if link.attached:
            link.detach(closed=True, error=error)
        self.links.end(link)
        self.wake()

    def check_use(self, link: Link, action: Action, name: str) -> None:
        self.rights.check(action, name)
        self.links.uses[link] = action, name

    def transaction(self, txn_id: object) -> LocalTransaction | None:
        transaction = self.transactions.get(txn_id) if isinstance(txn_id, bytes) else None
        return None if transaction is None or transaction.expired else transaction

    def claims_another_user(self, payload: bytes) -> Error | None:
        if not self.vhost.check_user_id or self.rights.impersonator:
            return None
        return check_user_id(payload, self.engine.identity)

    def do(self, request: Request[Any]) -> Any:
        return self.requests.do(request)

    def posts_in_part(self, txn_id: bytes) -> bool:
        states = (link.partial_state for link in self.links.incoming)
        return any(isinstance(state, TransactionalState) and state.txn_id == txn_id for state in states)

    # Connection and sessions

    def _on_connection_opened(self, event: ConnectionOpened) -> None:
        hostname = self.engine.remote.hostname if self.engine.remote is not None else None
        hosts, refusal = self._terms.virtual_hosts, None
        name: str | None = USUAL
        if hosts is not None:
            exact = "virtual-hosts" in self.engine.capabilities
            name = virtual_host_of(hostname, hosts, exact=exact)
            if name is None:
                refusal = not_there(hostname, exact=exact)
            elif hosts[name] is not self.vhost:
                self.vhost.maker = None
                self._enter(hosts[name])
                self.vhost.maker = self.maker
        self.maker.account = self.vhost.admission.account_of(self.engine.identity)
        self._memory = PeerMemory(self.vhost.admission, self.maker.account)
        self._memory.count_partial(self.engine.partial)
        self._memory.count_waiting(self.engine.waiting)  # a client may have sent more behind its open
        self.engine.memory_keeper = self._memory
        user, by_token = self.engine.identity, None
        if self.tokens is not None:
            by_token = self.tokens.rights_in(name or USUAL, user)
        self.rights = self.requests.rights = by_token or self._terms.rights_of(user, name or USUAL)
        try:
            self.rights.check_enters()
        except Refused as error:
            refusal = refusal or error.error
        refusal = refusal or self._transport.opened()
        if refusal is not None:
            self.engine.refuse(refusal, self._terms.connection)
            return
        self.engine.open(self._terms.connection)
        if self.blocked is not None:
            self.engine.block(self.blocked)
        if self._crowded:
            self.engine.read_ahead(far=False)

    def _on_session_begun(self, event: SessionBegun) -> None:
        session = event.session
        if session.terms is not None:
            return
        session.begin(self._terms.session)
        try:
            self.links.weigh_session(session)
        except Refused as refusal:
            session.end(refusal.error)

    def _on_session_unmapped(self, event: SessionUnmapped) -> None:
        self.vhost.subscriptions.session_ended(event.session)
        self.vhost.links.session_ended(event.session)
        self.vhost.sessions.session_ended(event.session)
        self.links.forget_session(event.session)
        self.requests.session_ended(event.session)

    def _on_window_opened(self, event: WindowOpened) -> None:
        self._opened.append(event.session)
        self.links.answer(event.session)

    def check_rights(self) -> Iterator[None]:
        """Detach the links that are no longer allowed, because tokens have changed.

        It yields after some of them, so that others have their turn: a peer may have thousands of links.
        """
        for number, _ in enumerate(self.links.check_rights(), 1):
            if not number % _LINKS_AT_ONCE:
                self.vhost.flush()
                yield
        self.vhost.flush()
        self.wake()

    # Links

    def _on_link_attached(self, event: LinkAttached) -> None:
        self.links.on_attached(event)

    def _on_link_ended(self, event: LinkEnded) -> None:
        self.links.on_ended(event)

    # Transactions and requests

    def _on_outcomes_missed(self, event: OutcomesMissed) -> None:
        """Fail a transaction whose outcomes name deliveries that are gone: it cannot be committed (§4.4.2)."""
        transaction = self.transaction(event.state.txn_id)
        if transaction is not None:
            reason = "an outcome was named in the transaction of a delivery that is not there any more"
            transaction.failed = Error("amqp:transaction:rollback", reason)

    def _on_request_received(self, event: RequestReceived) -> None:
        pending = event.request
        request, user, prepared = pending.request, self.engine.identity, self.vhost.prepared
        answer: Any
        if isinstance(request, Acquire):
            answer = self.links.acquire(request.deliveries)
        elif isinstance(request, LimitBranch):
            transaction, answer = self.transaction(request.transaction), None
            if transaction is not None:
                self.vhost.transactions.limit(transaction, request.seconds)
        elif isinstance(request, BeginBranch):
            transaction = self.transaction(request.transaction)
            answer = transaction is not None and prepared.begin(user, request.branch, transaction)
        elif isinstance(request, PrepareBranch):
            transaction = self.transaction(request.transaction)
            answer = transaction is not None and prepared.prepare(user, request.branch, transaction)
        elif isinstance(request, CompleteBranch):
            answer = prepared.complete(user, request.branch, commit=request.commit)
        elif isinstance(request, QueryBranches):
            answer = prepared.of(user)
        else:
            self.requests.answer(pending)
            return
        pending.session.answer(pending, answer)

    def _on_connection_ended(self, event: ConnectionEnded) -> None:
        self.lost()
