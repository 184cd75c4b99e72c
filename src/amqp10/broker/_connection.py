"""One peer of the broker: its connection and sessions, as its engine tells of them. No I/O here, and no queue."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..engine import (
    Acquire,
    CompleteBranch,
    ConnectionEnded,
    ConnectionOpened,
    CreditChanged,
    DeliveriesReceived,
    DeliveriesUnresumed,
    Engine,
    Event,
    FlowReceived,
    LimitBranch,
    LinkAttached,
    LinkEnded,
    OutcomesMissed,
    OutcomesReceived,
    PrepareBranch,
    QueryBranches,
    RequestReceived,
    Session,
    SessionBegun,
    SessionResumed,
    SessionUnmapped,
    SettlementsReceived,
    WindowOpened,
)
from ..messaging import Error, TransactionalState
from ..types import Symbol
from ._address import AddressError
from ._carrier import Absent, Carrier, PeerTerms
from ._coordinator import LocalTransaction
from ._kept_sessions import PeerKeeper
from ._limits import Maker
from ._links import PeerLinks
from ._producer import ProducerLink
from ._requests import Requests
from ._router import Router
from ._subscriptions import Owner
from ._users import EVERYTHING
from ._virtual_hosts import USUAL, not_there, virtual_host_of

if TYPE_CHECKING:
    from ._store import Store

_numbers = itertools.count(1)


class Peer:
    """One connection, as the broker sees it.

    Whoever drives the engine gives every batch of events to `handle`, and calls `resume` when output that was held up
    (`full`) has gone.

    `lost` ends what is left, when the driving ends in whatever way.

    Attributes:
        number: no other connection of the process has it.
        maker: what it has made of nodes.
        transactions: those that are not discharged, by their ids.
        open_transactions: those of all peers, and how long they may take.
        keeper: who is told of links that can be resumed; None for nobody.
        proprietor: whose its exclusive queues are.
        requests: what carries out what it asks for.
        rights: what it may do, as soon as it has opened.
    """

    def __init__(self, engine: Engine, router: Router, terms: PeerTerms, carrier: Carrier) -> None:
        self.engine = engine
        self.wake = carrier.wake
        self.number = next(_numbers)
        self._terms = terms
        self._carrier = carrier
        self.maker = Maker()
        self.transactions: dict[bytes, LocalTransaction] = {}
        self.proprietor: object = self
        self.rights = EVERYTHING
        self._merged: dict[Peer, None] = {}  # of connections before: whose links began there and may go on on this one
        self._enter(router)
        engine.context = self

    def _enter(self, router: Router) -> None:
        """Be a peer of that virtual host; only before any session was begun."""
        self._router = router
        self.open_transactions = router.transactions
        self.keeper = router.links.keeper
        self.requests = Requests(router, self)
        self.links = links = PeerLinks(self, router, self._terms)
        self._actions: dict[type[Event], Callable[[Any], None]] = {
            ConnectionOpened: self._on_opened,
            ConnectionEnded: self._on_ended,
            RequestReceived: self._on_request,
            SessionBegun: self._on_session,
            SessionResumed: self._on_resumed,
            SessionUnmapped: self._on_session_ended,
            WindowOpened: self._on_window,
            LinkAttached: links.on_attached,
            LinkEnded: links.on_ended,
            CreditChanged: links.on_credit,
            DeliveriesReceived: links.on_deliveries,
            OutcomesReceived: links.on_outcomes,
            OutcomesMissed: self._on_missed,
            DeliveriesUnresumed: links.on_unresumed,
            FlowReceived: links.on_flow,
            SettlementsReceived: links.on_settlements,
        }
        self.engine.keeper = PeerKeeper(router.sessions, self)

    @property
    def owner(self) -> Owner:
        """Whose the peer's subscriptions are."""
        return self.engine.identity, self.engine.remote.container_id if self.engine.remote is not None else ""

    @property
    def store(self) -> Store | None:
        """Where its virtual host keeps what is durable; None for nowhere."""
        return self._router.store

    @property
    def blocked(self) -> str | None:
        """Why the broker takes no messages of this peer at present; None: it does."""
        account = self.maker.account
        return self._router.blocked or (account.blocked if account is not None else None)

    @property
    def full(self) -> bool:
        """The peer does not read as fast as there would be messages for it."""
        return self._carrier.blocked()

    def handle(self, events: Iterable[Event]) -> None:
        """Act on what happened; at the end of it all nodes concerned have had their pass."""
        self._router.maker = self.maker
        try:
            self._act(events)
            while late := self.links.late():
                self._act(late)
            self.links.coordinate()
        finally:
            self._router.maker = None
        self._router.flush()

    def _act(self, events: Iterable[Event]) -> None:
        for event in events:
            action = self._actions.get(type(event))
            if action is not None:
                action(event)

    def resume(self) -> None:
        """The output has room again."""
        for consumer in self.links.consumers.values():
            consumer.credit_changed()
        self.links.pairs.ready()
        self._router.flush()

    def blocked_or_not(self) -> None:
        """The broker takes no messages from now on, or does again."""
        self.engine.block(self.blocked)
        for producer in self.links.producers.values():
            if isinstance(producer, ProducerLink):
                producer.blocked_or_not()
        self._router.flush()
        self.wake()

    def lost(self) -> None:
        """The connection is over, told or not: links end, what they held goes back. Does nothing the second time."""
        self.links.end_all(lambda link: not link.session.suspended)
        carrier = self._carrier
        if self._router.sessions.connection_lost(self):
            self._carrier = absent = Absent()
            self.wake = absent.wake
        else:
            self._let_go()
        self._router.flush()
        carrier.ended()

    def _let_go(self) -> None:
        """Nothing of the connection is left."""
        for each in (self, *self._merged):
            each.requests.end()
            self._router.subscriptions.connection_ended(each)
            self._router.links.connection_ended(each)

    # Sessions that outlive their connection

    def carried_by(self, carrier: Carrier) -> bool:
        """Whether it is that one: not, when the sessions went on on another connection."""
        return self._carrier is carrier

    def robbed(self, session: Session, *, keep: bool) -> None:
        """The client takes a session up on another connection: this one has nothing to say any more."""
        if keep:
            session.suspend()
        self.links.end_all(lambda link: not link.session.suspended)
        self.engine.close(_error("amqp:connection:forced", "its session goes on on another connection"))
        self.wake()

    def _on_resumed(self, event: SessionResumed) -> None:
        """A session of a connection before goes on: so does whoever had its links, and takes over what is here."""
        before = self._router.sessions.peer_of(event.session)
        if before is None or before is self:
            return
        self.links.take_over(before.links)
        self.transactions |= before.transactions
        for each in (before, *before._merged):  # some of the links are of the connection that they were attached on
            each.engine, each._carrier, each.wake = self.engine, self._carrier, self.wake
            each.transactions = self.transactions
        self.proprietor, self.requests = before.proprietor, before.requests
        self._merged |= before._merged
        if before.links.began:
            self._merged[before] = None
        self._router.sessions.moved(event.session, self)
        self.links.session_ready(event.session)

    def session_expired(self, session: Session) -> None:
        """Nobody came back for it."""
        self.links.end_all(lambda link: link.session is session)
        if not self.links.producers and not self.links.consumers:
            self._let_go()
        self._router.flush()

    def transaction(self, txn_id: object) -> LocalTransaction | None:
        """The transaction of that id, if it takes work."""
        transaction = self.transactions.get(txn_id) if isinstance(txn_id, bytes) else None
        return None if transaction is None or transaction.expired else transaction

    def posts_in_part(self, txn_id: bytes) -> bool:
        """Whether a message of that transaction is still coming in."""
        states = (link.partial_state for link in self.links.producers)
        return any(isinstance(state, TransactionalState) and state.txn_id == txn_id for state in states)

    # Connection and sessions

    def _on_opened(self, event: ConnectionOpened) -> None:
        hostname = self.engine.remote.hostname if self.engine.remote is not None else None
        hosts, refusal = self._terms.virtual_hosts, None
        name: str | None = USUAL
        if hosts is not None:
            names_hosts = self.engine.names_hosts
            name = virtual_host_of(hostname, hosts, names_hosts=names_hosts)
            if name is None:
                refusal = not_there(hostname, names_hosts=names_hosts)
            elif hosts[name] is not self._router:
                self._router.maker = None
                self._enter(hosts[name])
                self._router.maker = self.maker
        self.maker.account = self._router.account_of(self.engine.identity)
        self.rights = self.requests.rights = self._terms.rights_of(self.engine.identity, name or USUAL)
        try:
            self.rights.check_enters()
        except AddressError as error:
            refusal = refusal or error.error
        refusal = refusal or self._carrier.opened()
        if refusal is not None:
            self.engine.refuse(refusal, self._terms.connection)
            return
        self.engine.open(self._terms.connection)
        if self.blocked is not None:
            self.engine.block(self.blocked)

    def _on_session(self, event: SessionBegun) -> None:
        if event.session.terms is None:
            event.session.begin(self._terms.session)

    def _on_session_ended(self, event: SessionUnmapped) -> None:
        self._router.subscriptions.session_ended(event.session)
        self._router.links.session_ended(event.session, self)
        self._router.sessions.session_ended(event.session)
        self.requests.session_ended(event.session)

    def _on_window(self, event: WindowOpened) -> None:
        self.links.session_ready(event.session)

    def _on_missed(self, event: OutcomesMissed) -> None:
        """What a transaction was to retire is gone: it cannot be committed as a whole (§4.4.2)."""
        transaction = self.transaction(event.state.txn_id)
        if transaction is not None:
            reason = "an outcome was named in the transaction of a delivery that is not there any more"
            transaction.failed = _error("amqp:transaction:rollback", reason)

    def _on_request(self, event: RequestReceived) -> None:
        pending = event.request
        request, user, prepared = pending.request, self.engine.identity, self._router.prepared
        answer: Any
        if isinstance(request, Acquire):
            answer = self.links.acquire(request.deliveries)
        elif isinstance(request, LimitBranch):
            transaction, answer = self.transaction(request.transaction), None
            if transaction is not None:
                self.open_transactions.limit(transaction, request.seconds)
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

    def _on_ended(self, event: ConnectionEnded) -> None:
        self.lost()


def _error(condition: str, description: str) -> Error:
    return Error(Symbol(condition), description)
