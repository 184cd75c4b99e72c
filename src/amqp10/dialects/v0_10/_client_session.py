"""The client's end of a session: what its links and requests share, and the commands that servers send."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from ...engine import (
    Address,
    CreditChanged,
    LinkTerms,
    PendingRequest,
    Request,
    RequestAnswered,
    SessionBegun,
    SessionResumed,
    SessionTerms,
)
from ...engine._requests import R
from ...errors import AmqpError, ConnectionLost, LocalProtocolError, RemoteProtocolError, RequestRefused
from ...messaging import Accepted, Coordinator, Error, Modified, Rejected
from ._codes import CLIENTS_REJECT, UNSPECIFIED, SessionFault, condition, reject_text
from ._commands import (
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageTransfer,
)
from ._controls import SessionAttach, SessionAttached, SessionDetach, SessionDetached, SessionRequestTimeout
from ._conversation import Conversation, Refusal, Talk
from ._declare import Command
from ._frames import Assembly
from ._ledger import CommandOwner, Sent, near, portions, to_ranges
from ._login import ON_DEMAND, ClientLogin
from ._publisher import PublisherLink
from ._requests import ON_DEMAND_ARGUMENT, look_exchange, talk_of
from ._session import SessionEndpoint
from ._subscriber import INFINITE, SubscriberLink
from ._topology import DtxRollback, QueueDeclare, QueueQuery
from ._transactions import CoordinatorLink, Transactions

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, ReceiverLink, SenderLink
    from ...messaging import DeliveryState
    from ._engine import V010Engine

Verb = tuple[str, str]
"""What is said of a transfer: the verb, and the text of a rejection."""
ACCEPT: Final = "accept", ""
RELEASE: Final = "release", ""
REDELIVER: Final = "redeliver", ""
REJECT: Final = "reject"


class _Soon(CommandOwner):
    """Calls that wait for a round trip, so that what they tell is told with what the peer sends."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def completed(self, sent: Sent) -> None:
        for call, arguments in self.calls:
            call(*arguments)


class _Exact(CommandOwner):
    """Deliveries whose outcome is settled when the server has it (receiver-settle-mode "second")."""

    def __init__(self, deliveries: list[tuple[SubscriberLink, IncomingDelivery]]) -> None:
        self._deliveries = deliveries

    def completed(self, sent: Sent) -> None:
        for link, delivery in self._deliveries:
            if not link.ended:
                link.settled_exactly(delivery)


class ClientSession(SessionEndpoint):
    """See `Session` for the contract.

    Attributes:
        publisher_credit: messages that the server still takes on this session; None: it does not limit them.
        transactions: those that are declared.
    """

    def __init__(self, engine: V010Engine, channel: int) -> None:
        super().__init__(engine, channel)
        self.publisher_credit: int | None = None
        self.transactions = Transactions()
        self._links: dict[PublisherLink | SubscriberLink | CoordinatorLink, None] = {}
        self._by_destination: dict[str, SubscriberLink] = {}
        self._dispositions: dict[Verb, list[int]] = {}
        self._exact: dict[Verb, list[tuple[SubscriberLink, IncomingDelivery]]] = {}
        self._soon: _Soon | None = None
        self._pending: dict[PendingRequest[Any], None] = {}
        self._waking: dict[PublisherLink, None] = {}

    # Beginning

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.terms = terms if terms is not None else SessionTerms()
        self.name = f"{self.engine.terms.container_id[:80]}-{uuid4()}".encode()
        self.say(SessionAttach(self.name))

    def _receive_attached(self, control: SessionAttached) -> None:
        if self._attached or control.name != self.name:
            raise RemoteProtocolError("session.attached, which was not asked for", "amqp:illegal-state")
        assert self.terms is not None
        if self._resuming:
            self.say(SessionRequestTimeout(self.terms.timeout))
            self.ask_expected()
            return
        self._attached = True
        self.say(SessionRequestTimeout(self.terms.timeout))
        self.remote = SessionTerms()
        self.begun = not self.muted
        self.announce(SessionBegun(self))
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.engine.write(data)
        if self.muted:
            self.say(SessionDetach(self.name))

    # Resuming

    def resume(self, engine: V010Engine, channel: int) -> None:
        """Attach to the session on another connection."""
        self.rebind(engine, channel)
        self.say(SessionAttach(self.name, force=True))

    def forgotten(self) -> None:
        self._attached = True  # to a session that is another
        self.say(SessionRequestTimeout(0))
        self.say(SessionDetach(self.name))
        self.mute()
        self.finish(ConnectionLost("the server does not have the session any more"))

    def went_on(self) -> None:
        self.engine.emit(SessionResumed(self))

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> SenderLink:
        self._check_name(terms, True)
        link: PublisherLink | CoordinatorLink
        link = (CoordinatorLink if isinstance(terms.target, Coordinator) else PublisherLink)(self, terms)
        link.take_orphans(resuming)
        self._links[link] = None
        link.begin()
        return link

    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> ReceiverLink:
        self._check_name(terms, False)
        destination = terms.name
        if not 0 < len(destination.encode()) <= 255 or destination in self._by_destination:
            destination = f"{len(self._by_destination)}-{secrets.token_hex(8)}"
        link = SubscriberLink(self, terms, destination)
        link.take_orphans(resuming)
        self._links[link] = None
        self._by_destination[destination] = link
        link.begin()
        return link

    def _check_name(self, terms: LinkTerms, sends: bool) -> None:
        self.check_live()
        if any(link.name == terms.name and link.is_sender is sends and not link.detach_sent for link in self._links):
            raise LocalProtocolError(f"the link name {terms.name!r} is in use")

    def forget(self, link: Any) -> None:
        self._links.pop(link, None)
        if isinstance(link, SubscriberLink) and self._by_destination.get(link.destination) is link:
            del self._by_destination[link.destination]

    def find(
        self, link: PublisherLink | SubscriberLink, address: Address | None, found: Callable[[Address], None]
    ) -> None:
        """See that there is what an address names; None: make a queue for the link."""
        assert link.terms is not None

        self.converse(self._find(address, link.terms.on_demand), found, link.turn_down)

    def _find(self, address: Address | None, on_demand: bool) -> Talk:
        if address is None:
            name = f"amqp10-{uuid4()}"
            yield QueueDeclare(name, exclusive=True, auto_delete=True)
            return Address("", name)
        if address.exchange:
            yield from look_exchange(address.exchange)
        elif address.queue is not None:
            queue = yield QueueQuery(address.queue)
            if queue is None or not queue.queue:
                if not (on_demand and self._makes_nodes):
                    raise Refusal("amqp:not-found", f"there is no queue {address.queue!r}", 404)
                yield QueueDeclare(address.queue, passive=True, arguments={ON_DEMAND_ARGUMENT: True})
        return address

    @property
    def _makes_nodes(self) -> bool:
        """The server is ours, which makes nodes on demand."""
        login = self.engine.login
        capabilities = login.server_properties.get("capabilities") if isinstance(login, ClientLogin) else None
        return isinstance(capabilities, list) and ON_DEMAND in capabilities

    @cached_property
    def to_qpid(self) -> bool:
        """The server is Qpid's: it does not roll branches back when their session ends, for one."""
        login = self.engine.login
        return isinstance(login, ClientLogin) and "qpid" in str(login.server_properties.get("product")).lower()

    # Asking

    def converse(self, talk: Talk, done: Callable[[Any], None], failed: Callable[[Error], None]) -> None:
        """Send commands after each other."""
        Conversation(self, talk, done, failed)

    def soon(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call it with what comes next from the peer, in order of asking."""
        if self._soon is None:
            self._soon = _Soon()
            self.engine.owe(self)
        self._soon.calls.append((call, arguments))

    def request(self, request: Request[R]) -> PendingRequest[R]:
        self.check_live()
        pending = PendingRequest(self, request)
        talk = talk_of(request, self._makes_nodes)
        self.flush_dispositions()  # what was settled before is part of the branch that `dtx.end` ends
        self._pending[pending] = None
        self.converse(
            talk,
            lambda result: self._answered(pending, result),
            lambda error: self._refused(pending, error),
        )
        return pending

    def _answered(self, pending: PendingRequest[Any], result: Any) -> None:
        if self._pending.pop(pending, self) is None:
            pending.answer(result)
            self.engine.emit(RequestAnswered(pending))

    def _refused(self, pending: PendingRequest[Any], error: Error) -> None:
        if self._pending.pop(pending, self) is None:
            pending.fail(RequestRefused(str(error.condition), error.description, error.info))
            self.engine.emit(RequestAnswered(pending))

    # Dispositions

    def dispose(self, number: int, state: DeliveryState | None) -> None:
        """Tell the outcome of a transfer, merged with others."""
        if not self._dispositions:
            self.engine.owe(self)
        self._dispositions.setdefault(_verb(state), []).append(near(number, self.inbox.next))

    def release(self, number: int | None) -> None:
        """Give a transfer back."""
        if number is not None:
            if not self._dispositions:
                self.engine.owe(self)
            self._dispositions.setdefault(RELEASE, []).append(near(number, self.inbox.next))

    def dispose_exactly(self, link: SubscriberLink, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Tell the outcome, and settle when it is known to the server."""
        assert delivery.delivery_id is not None
        self.engine.owe(self)
        self._exact.setdefault(_verb(state), []).append((link, delivery))

    def flush_dispositions(self) -> None:
        dispositions, self._dispositions = self._dispositions, {}
        for verb, numbers in dispositions.items():
            for some in portions(numbers):
                self.invoke(_disposition(verb, some))
        exact, self._exact = self._exact, {}
        for verb, deliveries in exact.items():
            for part in portions(deliveries):
                numbers = [near(each.delivery_id or 0, self.inbox.next) for _, each in part]
                self.invoke(_disposition(verb, numbers), _Exact(part))
        soon, self._soon = self._soon, None
        if soon is not None:
            self.invoke(ExecutionSync(), soon)

    # Credit for publishers

    def used_credit(self) -> None:
        """A message was sent."""
        if self.publisher_credit is not None:
            self.publisher_credit -= 1

    def credit_changed(self, link: PublisherLink) -> None:
        """A link may send again."""
        self._waking[link] = None

    def settle_events(self) -> None:
        super().settle_events()
        waking, self._waking = self._waking, {}
        for link in waking:
            if link.attached:
                self.engine.emit(CreditChanged(link))

    def _limit_publishers(self, credit: int | None) -> None:
        self.publisher_credit = credit
        for link in self._links:
            if isinstance(link, PublisherLink):
                self.credit_changed(link)

    # Commands of the server

    def execute(self, number: int, command: Command, assembly: Assembly) -> None:
        if isinstance(command, MessageTransfer):
            if assembly.excess:
                raise SessionFault(506, f"a message of more than {self.engine.terms.max_message_size} octets")
            link = self._by_destination.get(command.destination)
            if link is not None and link.attached:
                link.receive(number, command, assembly)
                return
            if command.accept_mode == 0 and command.acquire_mode == 0:
                self.release(number)  # nobody wants it any more
        elif isinstance(command, ExecutionResult):
            self.result(command)
        elif isinstance(command, ExecutionException):
            self.excepted(command)
            return
        elif isinstance(command, ExecutionSync):
            self.sync(number)
            return
        elif isinstance(command, MessageReject):
            for sent in self.outbox.within(command.transfers):
                if sent.owner is not None:
                    sent.owner.rejected(sent, command.code, command.text)
        elif isinstance(command, MessageRelease):
            for sent in self.outbox.within(command.transfers):
                if sent.owner is not None:
                    sent.owner.released(sent)
        elif isinstance(command, MessageSetFlowMode):
            if not command.destination and self.publisher_credit is None:
                self._limit_publishers(0)
        elif isinstance(command, MessageFlow):
            if not command.destination and command.unit == 0 and self.publisher_credit is not None:
                more = command.value
                self._limit_publishers(None if more >= INFINITE >> 1 else self.publisher_credit + more)
        elif isinstance(command, MessageStop):
            if not command.destination:
                self._limit_publishers(0)
        elif not isinstance(command, MessageAccept):
            raise SessionFault(503, f"{command.spec_name} is for servers")
        self.complete(number)

    def fail(self, fault: SessionFault, number: int, command: Command | None) -> None:
        self.flush()
        self.invoke(ExecutionException(fault.code, number & 0xFFFF_FFFF, description=fault.description[:200]))
        self.say(SessionDetach(self.name))
        self.mute()
        self.finish(RemoteProtocolError(fault.description, condition(fault.code)))

    # Ending

    def leave(self) -> None:
        """Have the server end what would outlive the session there."""
        for xid in self.transactions.leave():
            self.invoke(DtxRollback(xid))

    def end(self, error: Error | None = None) -> None:
        if self.muted or self.terms is None:
            return
        self.leave()
        self.flush()
        self.mute()
        if self.suspended:
            self.finish(None)
        elif self._attached:
            self.say(SessionRequestTimeout(0))
            self.say(SessionDetach(self.name))

    def _receive_detached(self, control: SessionDetached) -> None:
        if not self._attached:
            self._attached = True  # it never was, but nothing waits for that any more
        super()._receive_detached(control)

    def end_links(self, error: AmqpError | None) -> None:
        links, self._links = list(self._links), {}
        self._by_destination.clear()
        for pending in list(self._pending):
            del self._pending[pending]
            pending.fail(error if error is not None else LocalProtocolError("the session was ended"))
            self.engine.emit(RequestAnswered(pending))
        for link in links:
            link.over(error)
        if self.transactions.witness is not None:
            self.engine.aftermath.left(self.transactions.started, self.transactions.witness)


def _verb(state: Any) -> Verb:
    """Outcomes with the same verb are merged into one command."""
    if isinstance(state, Accepted):
        return ACCEPT
    if isinstance(state, Rejected):
        return REJECT, reject_text(state.error, CLIENTS_REJECT)
    if isinstance(state, Modified):
        if state.undeliverable_here:
            return REJECT, "undeliverable here"
        return REDELIVER if state.delivery_failed else RELEASE
    return RELEASE


def _disposition(verb: Verb, numbers: list[int]) -> Command:
    ranges = to_ranges(numbers)
    if verb == ACCEPT:
        return MessageAccept(ranges)
    if verb[0] == REJECT:
        return MessageReject(ranges, UNSPECIFIED, verb[1])
    return MessageRelease(ranges, set_redelivered=verb == REDELIVER)
