"""The client's end of a session: what its links and requests share, and how the server's commands are handled."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

from ....engine import (
    ON_DEMAND_ARGUMENT,
    ON_DEMAND_CAPABILITY,
    Address,
    CreditChanged,
    Handlers,
    LinkTerms,
    PendingRequest,
    Request,
    RequestResult,
    SessionBegun,
    SessionResumed,
    SessionTerms,
)
from ....errors import AmqpError, ConnectionLost, LocalProtocolError, RemoteProtocolError
from ....messaging import Accepted, Coordinator, Error, Modified, Rejected
from ..._kit.requests import WaitingRequests
from ..codes import CLIENTS_REJECT, INFINITE, UNSPECIFIED, ErrorCode, SessionFault, condition, reject_text
from ..command_ids import CommandOwner, PendingCommand, chunks, to_ranges, unwrap_serial
from ..login import ClientLogin
from ..session import SessionEndpoint
from ..states import SessionState, Step
from ..wire.commands import (
    DtxRollback,
    ExecutionException,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageTransfer,
    QueueDeclare,
    QueueQuery,
)
from ..wire.controls import SessionAttach, SessionAttached, SessionRequestTimeout
from ..wire.frames import Assembly
from ..wire.struct import Command
from .branches import Transactions
from .command_sequence import Commands, CommandSequence, RequestFailed
from .receiver import ClientReceiver
from .requests import commands_of, look_exchange
from .sender import ClientSender
from .transactions import ClientCoordinator

if TYPE_CHECKING:
    from ....engine import IncomingDelivery, ReceiverLink, SenderLink
    from ....messaging import DeliveryState
    from ..link import LinkEndpoint
    from .parents import ClientSessionEngine, ExactReceiver

Verb = tuple[str, str]
"""The disposition of a transfer: the verb, and the text of a rejection."""
ACCEPT: Final = "accept", ""
RELEASE: Final = "release", ""
REDELIVER: Final = "redeliver", ""
REJECT: Final = "reject"


class _AfterRoundTrip(CommandOwner):
    """Calls that wait for a round trip, so that what they emit comes together with input from the peer."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def completed(self, sent: PendingCommand) -> None:
        for call, arguments in self.calls:
            call(*arguments)


class _SettleWhenCompleted(CommandOwner):
    """Deliveries that are settled once the server has their outcome (receiver-settle-mode "second")."""

    def __init__(self, deliveries: list[tuple[ExactReceiver, IncomingDelivery]]) -> None:
        self._deliveries = deliveries

    def completed(self, sent: PendingCommand) -> None:
        for link, delivery in self._deliveries:
            if not link.ended:
                link.settled_exactly(delivery)


class ClientSession(SessionEndpoint):
    """See `Session` for the contract."""

    engine: ClientSessionEngine
    terms: SessionTerms | None
    remote: SessionTerms | None
    name: bytes
    handlers: ClassVar[Handlers] = {
        MessageAccept: "_receive_accept",
        MessageReject: "_receive_reject",
        MessageRelease: "_receive_release",
        MessageSetFlowMode: "_receive_flow_mode",
        MessageFlow: "_receive_flow",
        MessageStop: "_receive_stop",
    }

    def __init__(self, engine: ClientSessionEngine, channel: int) -> None:
        super().__init__(engine, channel)
        self.publisher_credit: int | None = None
        self.transactions: Transactions = Transactions()
        self._links: dict[LinkEndpoint, None] = {}
        self._by_destination: dict[str, ClientReceiver] = {}
        self._dispositions: dict[Verb, list[int]] = {}
        self._exact_dispositions: dict[Verb, list[tuple[ExactReceiver, IncomingDelivery]]] = {}
        self._round_trip: _AfterRoundTrip | None = None
        self._requests = WaitingRequests(self)
        self._waking: dict[SenderLink, None] = {}

    # Beginning

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.terms = terms if terms is not None else SessionTerms()
        self.name = f"{self.engine.terms.container_id[:80]}-{uuid4()}".encode()
        self.advance(Step.SEND_ATTACH)
        self.write_control(SessionAttach(self.name))

    def _receive_attached(self, control: SessionAttached) -> None:
        if control.name != self.name:
            raise self.illegal(Step.RECEIVE_ATTACHED)
        assert self.terms is not None
        self.advance(Step.RECEIVE_ATTACHED)
        if self.state is SessionState.DETACH_SENT:  # it was ended meanwhile
            self._write_detach()
            return
        self.write_control(SessionRequestTimeout(self.terms.timeout))
        if self.state is SessionState.RESUMING:
            self.ask_expected()
            return
        self.remote = SessionTerms()
        self.announce(SessionBegun(self))
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.engine.write(data)

    # Resuming

    def resume(self, engine: ClientSessionEngine, channel: int) -> None:
        """Attach to the session on another connection."""
        self.rebind(engine, channel)
        for link in self._links:
            if isinstance(link, ClientReceiver):
                link.take_large_messages()
        self.advance(Step.SEND_ATTACH)
        self.write_control(SessionAttach(self.name, force=True))

    def forgotten(self) -> None:
        self.detach()  # the server made a new session of that name
        self.finish(ConnectionLost("the server no longer has the session"))

    def on_resumed(self) -> None:
        self.engine.emit(SessionResumed(self))

    # Links

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> SenderLink:
        self._check_name(terms, True)
        link: ClientSender | ClientCoordinator
        link = (ClientCoordinator if isinstance(terms.target, Coordinator) else ClientSender)(self, terms)
        link.carry_over(resuming)
        self._links[link] = None
        link.begin()
        return link

    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> ReceiverLink:
        self._check_name(terms, False)
        destination = terms.name
        if not 0 < len(destination.encode()) <= 255 or destination in self._by_destination:
            destination = f"{len(self._by_destination)}-{secrets.token_hex(8)}"
        link = ClientReceiver(self, terms, destination)
        link.carry_over(resuming)
        self._links[link] = None
        self._by_destination[destination] = link
        link.begin()
        return link

    def _check_name(self, terms: LinkTerms, sends: bool) -> None:
        self.check_live()
        if any(link.name == terms.name and link.is_sender is sends and not link.detached for link in self._links):
            raise LocalProtocolError(f"the link name {terms.name!r} is in use")

    def forget(self, link: LinkEndpoint) -> None:
        self._links.pop(link, None)
        if isinstance(link, ClientReceiver) and self._by_destination.get(link.destination) is link:
            del self._by_destination[link.destination]

    def find(self, link: LinkEndpoint, address: Address | None, found: Callable[[Address], None]) -> None:
        """Look for the node that `address` names, or make a queue for the link if it is None; then call `found`."""
        assert link.terms is not None

        self.run_commands(self._find(address, link.terms.on_demand), found, link.attach_failed)

    def _find(self, address: Address | None, on_demand: bool) -> Commands:
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
                    raise RequestFailed(ErrorCode.NOT_FOUND, f"there is no queue {address.queue!r}")
                yield QueueDeclare(address.queue, passive=True, arguments={ON_DEMAND_ARGUMENT: True})
        return address

    @property
    def _makes_nodes(self) -> bool:
        """Return whether the server is our own broker, which makes nodes on demand."""
        login = self.engine.login
        capabilities = login.server_properties.get("capabilities") if isinstance(login, ClientLogin) else None
        return isinstance(capabilities, list) and ON_DEMAND_CAPABILITY in capabilities

    @cached_property
    def to_qpid(self) -> bool:
        """Return whether the server is Qpid's: among other things, it keeps the branches of a session that ends."""
        login = self.engine.login
        return isinstance(login, ClientLogin) and "qpid" in str(login.server_properties.get("product")).lower()

    # Asking

    def run_commands(self, commands: Commands, done: Callable[[Any], None], failed: Callable[[Error], None]) -> None:
        """Send the commands of `commands` one after the other; call `done` with what it returns, or `failed`."""
        CommandSequence(self, commands, done, failed)

    def after_round_trip(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call` after a round trip, together with input from the peer; calls keep their order."""
        if self._round_trip is None:
            self._round_trip = _AfterRoundTrip()
            self.engine.flush_later(self)
        self._round_trip.calls.append((call, arguments))

    def request(self, request: Request[RequestResult]) -> PendingRequest[RequestResult]:
        self.check_live()
        pending = PendingRequest(self, request)
        commands = commands_of(request, self._makes_nodes)
        self.flush_dispositions()  # deliveries settled before belong to the branch that `dtx.end` ends
        self._requests.add(pending)
        self.run_commands(
            commands,
            lambda result: self._requests.answer(result, pending),
            lambda error: self._requests.refuse(error, pending),
        )
        return pending

    # Dispositions

    def dispose(self, number: int, state: DeliveryState | None) -> None:
        """Tell the server the outcome of the transfer `number`, merged with others."""
        if not self._dispositions:
            self.engine.flush_later(self)
        self._dispositions.setdefault(_verb(state), []).append(unwrap_serial(number, self.inbox.next))

    def release(self, number: int | None) -> None:
        """Release the transfer `number`, merged with others; None: do nothing."""
        if number is not None:
            if not self._dispositions:
                self.engine.flush_later(self)
            self._dispositions.setdefault(RELEASE, []).append(unwrap_serial(number, self.inbox.next))

    def dispose_exactly(self, link: ExactReceiver, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Tell the server the outcome of `delivery`, and settle it once the server has confirmed that."""
        assert delivery.delivery_id is not None
        self.engine.flush_later(self)
        self._exact_dispositions.setdefault(_verb(state), []).append((link, delivery))

    def flush_dispositions(self) -> None:
        dispositions, self._dispositions = self._dispositions, {}
        for verb, numbers in dispositions.items():
            for some in chunks(numbers):
                self.invoke(_disposition(verb, some))
        exact, self._exact_dispositions = self._exact_dispositions, {}
        for verb, deliveries in exact.items():
            for part in chunks(deliveries):
                numbers = [unwrap_serial(each.delivery_id or 0, self.inbox.next) for _, each in part]
                self.invoke(_disposition(verb, numbers), _SettleWhenCompleted(part))
        soon, self._round_trip = self._round_trip, None
        if soon is not None:
            self.invoke(ExecutionSync(), soon)

    # Credit for publishers

    def used_credit(self) -> None:
        """Count a message that was sent against the server's credit, if there is a limit."""
        if self.publisher_credit is not None:
            self.publisher_credit -= 1

    def credit_changed(self, link: SenderLink) -> None:
        """Tell `CreditChanged` for `link` with the next events."""
        self._waking[link] = None
        self.engine.tell_later(self)

    def settle_events(self) -> None:
        super().settle_events()
        waking, self._waking = self._waking, {}
        for link in waking:
            if link.attached:
                self.engine.emit(CreditChanged(link))

    def _limit_publishers(self, credit: int | None) -> None:
        self.publisher_credit = credit
        for link in self._links:
            if isinstance(link, ClientSender):
                self.credit_changed(link)

    # Commands of the server

    def execute(self, number: int, command: Command, assembly: Assembly) -> None:
        if isinstance(command, MessageTransfer):
            link = self._by_destination.get(command.destination)
            if link is not None and link.attached:
                link.receive(number, command, assembly)
                return
            if command.accept_mode == 0 and command.acquire_mode == 0:
                self.release(number)  # its link is gone
            self.complete(number)
            return
        handler = self.by_type.get(type(command))
        if handler is None:
            raise SessionFault(ErrorCode.COMMAND_INVALID, f"{command.spec_name} may be sent only to servers")
        handler(self, number, command)

    def _receive_accept(self, number: int, command: MessageAccept) -> None:
        """Do nothing more than complete the command: its completion is the outcome."""
        self.complete(number)

    def _receive_reject(self, number: int, command: MessageReject) -> None:
        for sent in self.outbox.within(command.transfers):
            if sent.owner is not None:
                sent.owner.rejected(sent, command.code, command.text)
        self.complete(number)

    def _receive_release(self, number: int, command: MessageRelease) -> None:
        for sent in self.outbox.within(command.transfers):
            if sent.owner is not None:
                sent.owner.released(sent)
        self.complete(number)

    # A destination without a name stands for all publishers of the session.

    def _receive_flow_mode(self, number: int, command: MessageSetFlowMode) -> None:
        if not command.destination and self.publisher_credit is None:
            self._limit_publishers(0)
        self.complete(number)

    def _receive_flow(self, number: int, command: MessageFlow) -> None:
        if not command.destination and command.unit == 0 and self.publisher_credit is not None:
            more = command.value
            self._limit_publishers(None if more >= INFINITE >> 1 else self.publisher_credit + more)
        self.complete(number)

    def _receive_stop(self, number: int, command: MessageStop) -> None:
        if not command.destination:
            self._limit_publishers(0)
        self.complete(number)

    def fail(self, fault: SessionFault, number: int, command: Command | type[Command] | None) -> None:
        self.flush()
        self.invoke(ExecutionException(fault.code, number & 0xFFFF_FFFF, description=fault.description[:200]))
        self.detach()
        self.finish(RemoteProtocolError(fault.description, condition(fault.code)))

    # Ending

    def leave(self) -> None:
        """Roll back the branches that would outlive the session at the server."""
        for xid in self.transactions.leave():
            self.invoke(DtxRollback(xid))

    def end(self, error: Error | None = None) -> None:
        if self.ended_locally or self.terms is None:
            return
        self.leave()
        self.flush()
        if self.suspended:
            self.finish(None)
        else:
            self.detach()

    def end_links(self, error: AmqpError | None) -> None:
        self.transactions.lost(error)
        links, self._links = list(self._links), {}
        self._by_destination.clear()
        self._requests.fail_all(error or LocalProtocolError("the session was ended"))
        for link in links:
            link.over(error)
        if self.transactions.sentinel is not None:
            self.engine.orphaned_branches.left(self.transactions.started, self.transactions.sentinel)


def _verb(state: Any) -> Verb:
    """Return the disposition for the outcome `state`; outcomes with the same one are merged into one command."""
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
