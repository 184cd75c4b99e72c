"""The server's end of a session: the commands of clients, as events for the owner (0-10 §10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ....engine import (
    Acquire,
    DeleteQueue,
    Handlers,
    LinkAttached,
    LinkTerms,
    PendingRequest,
    Request,
    RequestReceived,
    RequestResult,
    SessionResumed,
    SessionTerms,
    route_address,
)
from ....errors import AmqpError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ....messaging import ACCEPTED, RELEASED, Error, Modified, NoLocal, Rejected, Selector, Source
from ....types import SERIAL_MASK, Symbol
from ..._kit.causes import as_exception
from ..._kit.id_order import IdOrder
from ..codes import CLIENTS_REJECT, UNSPECIFIED, ErrorCode, SessionFault, condition, error_from, execution_code
from ..command_ids import chunks, ids_in, to_ranges, unwrap_serial
from ..session import SessionEndpoint
from ..states import SessionState, Step
from ..wire.commands import (
    Acquired,
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageReject,
    MessageRelease,
    MessageResume,
    MessageResumeResult,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueDelete,
)
from ..wire.controls import SessionAttach, SessionAttached, SessionDetach, SessionDetached
from ..wire.frames import CONTROL, Assembly
from ..wire.struct import Command, Ranges, Struct, decode_control
from .receiver import ServerReceiver
from .requests import REQUESTS, RULES, Answer, request_of
from .sender import ServerSender
from .transactions import ServerCoordinator

if TYPE_CHECKING:
    from ....engine import OutgoingDelivery, ReceiverLink, SenderLink
    from ..link import LinkEndpoint
    from .parents import ServerSessionEngine

SESSION_BUSY = 1
TRANSPORT_BUSY = 2
NOT_ATTACHED = 3
MAX_SUBSCRIPTIONS = 1024
"""The number of subscriptions that one session may have."""


class OwnerRequest(NamedTuple):
    """A command that asks the owner for something.

    Attributes:
        number: the command's id.
        command: the command.
        answer: makes the command's result of the owner's answer.
    """

    number: int
    command: Command
    answer: Answer


class ServerSession(SessionEndpoint):
    """See `Session` for the contract."""

    engine: ServerSessionEngine
    request_rules = RULES
    remote: SessionTerms | None
    terms: SessionTerms | None
    name: bytes
    handlers: ClassVar[Handlers] = {
        **dict.fromkeys(REQUESTS, "_request"),
        **dict.fromkeys(ServerCoordinator.by_type, "_transact"),
        MessageSubscribe: "_subscribe",
        MessageCancel: "_cancel",
        MessageFlow: "_flow",
        MessageSetFlowMode: "_set_flow_mode",
        MessageStop: "_stop",
        MessageFlush: "_flush_destination",
        MessageAccept: "_accept",
        MessageReject: "_reject",
        MessageRelease: "_release",
        MessageAcquire: "_acquire",
        MessageResume: "_resume",
    }

    def __init__(self, engine: ServerSessionEngine, channel: int) -> None:
        super().__init__(engine, channel)
        self.deliveries: dict[int, OutgoingDelivery] = {}
        self._order = IdOrder(self.deliveries, attrgetter("tag"))
        self.transaction: bytes | None = None
        self._senders: dict[str, ServerSender] = {}
        self._links: dict[LinkEndpoint, None] = {}
        self._receiver: ServerReceiver | None = None
        self._coordinator: ServerCoordinator | None = None
        self.current: int = 0  # the command that a transaction waits for
        self._rejects: dict[tuple[int, str], list[int]] = {}
        self._next_tag = 0
        self._temporary: dict[str, None] = {}  # queues that end with the session
        self._paused = False  # later commands wait for the end of a transaction
        self._owner_requests: dict[PendingRequest[Any], OwnerRequest] = {}
        self._unanswered = 0  # commands that the owner has to answer; later ones wait for that
        self._not_taken = 0, 0  # messages and commands that wait here for the owner, and their octets
        self._backlog: deque[tuple[int, Command, Assembly]] = deque()
        self._asked_to_detach: SessionDetach | None = None  # by the client, while commands before it still wait

    # Beginning

    def _receive_attach(self, control: SessionAttach) -> None:
        if self.name:
            self.write_control(SessionDetached(control.name, TRANSPORT_BUSY))
            return
        self.advance(Step.RECEIVE_ATTACH)
        self.name = control.name
        self.remote = SessionTerms()
        self.write_control(SessionAttached(control.name))

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self.state is SessionState.OVER:
            return
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.terms = terms if terms is not None else SessionTerms()
        if self.may(Step.BEGIN):  # it may have been ended meanwhile
            self.advance(Step.BEGIN)
        if self.engine.stopping:
            self.throttle_publishers(True)

    # When clients send more than there is room for

    def throttle_publishers(self, stop: bool) -> None:
        """Stop publishers, or let them go on, in the way of Qpid's brokers: by their credit for the destination ""."""
        if not self.begun or self.away:
            return
        if stop:
            self.invoke(MessageSetFlowMode("", 0))
            self.invoke(MessageStop(""))
        else:
            self.invoke(MessageFlow("", 0))

    # Resuming

    @property
    def longest_timeout(self) -> int:  # type: ignore[override]
        keeper = self.engine.session_keeper
        return keeper.longest if keeper is not None else 0

    def resume(self, engine: ServerSessionEngine, channel: int) -> None:
        """Resume the session on another connection, for the client attached to it again."""
        branches = self.engine.branches
        self.engine.hold(-self._not_taken[0], -self._not_taken[1])
        self.rebind(engine, channel)
        engine.hold(*self._not_taken)
        self.advance(Step.RECEIVE_ATTACH)
        if self._coordinator is not None:
            self._coordinator.moved(branches)
        self.engine.emit(SessionResumed(self))
        self.write_control(SessionAttached(self.name))
        self.ask_expected()

    def hold(self, messages: int, octets: int) -> None:
        """Count what waits here for the owner, or no longer does, on the connection that the session is on."""
        self._not_taken = self._not_taken[0] + messages, self._not_taken[1] + octets
        self.engine.hold(messages, octets)

    def timeout_agreed(self) -> None:
        if self.engine.session_keeper is not None:
            self.engine.session_keeper.keep(self, self.name, self.timeout)

    def suspend(self) -> None:
        """Suspend the session; detach it first if its transport still works, because it is now attached elsewhere.

        A session that is not to be resumed ends then.
        """
        if self.engine.sessions.get(self.channel) is self and self.engine.opened:
            if not self.resumable:
                self._detach_with(SESSION_BUSY)
                return
            self._leave(SESSION_BUSY)
        super().suspend()

    def _leave(self, code: int) -> None:
        """Detach from the session with `code`, and keep it."""
        self.write_control(SessionDetached(self.name, code))
        del self.engine.sessions[self.channel]

    def forgotten(self) -> None:
        self.detach()
        self.finish(RemoteProtocolError("the client resumes a session that it does not know", "amqp:illegal-state"))

    def on_resumed(self) -> None:
        """Do nothing: `resume` told it at once."""

    def not_attached(self, assembly: Assembly) -> None:
        """Answer input on a channel without a session."""
        control = decode_control(assembly.front) if assembly.kind == CONTROL else None
        if control is None:
            self.write_control(SessionDetached(b"", NOT_ATTACHED))  # a command does not name its session
        elif isinstance(control, SessionDetach):
            self.write_control(SessionDetached(control.name, NOT_ATTACHED))

    def is_new(self, attach: SessionAttach) -> bool:
        """Return whether `attach` begins a new session.

        False: a session of that name was resumed here, or is attached elsewhere while the client does not use force.
        """
        keeper = self.engine.session_keeper
        if keeper is None:
            return True
        if not attach.force and keeper.attached(self.engine, attach.name):
            self.write_control(SessionDetached(attach.name, SESSION_BUSY))
            return False
        for session in list(self.engine.sessions.values()):
            if isinstance(session, ServerSession) and session.name == attach.name:
                session.suspend()
        known = keeper.take(self.engine, attach.name)
        if isinstance(known, ServerSession):
            known.resume(self.engine, self.channel)
            return False
        keeper.keep(self, attach.name, 0)
        return True

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> SenderLink:
        raise LocalProtocolError("only the client attaches links in AMQP 0-10")

    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> ReceiverLink:
        raise LocalProtocolError("only the client attaches links in AMQP 0-10")

    # Commands of the client

    def receive(self, assembly: Assembly) -> None:
        if self._asked_to_detach is None or assembly.kind == CONTROL:
            super().receive(assembly)

    def execute(self, number: int, command: Command, assembly: Assembly) -> None:
        if self._paused or self._unanswered:
            self._backlog.append((number, command, assembly))
            self.hold(1, assembly.size)
            return
        if isinstance(command, MessageTransfer):
            self._receive_transfer(number, command, assembly)
            return
        handler = self.by_type.get(type(command))
        if handler is None:
            raise SessionFault(ErrorCode.NOT_IMPLEMENTED, f"{command.spec_name} is not supported")
        handler(self, number, command)

    def _transact(self, number: int, command: Command) -> None:
        """Hand a command of a transaction to the coordinator."""
        if self._coordinator is None:
            self._coordinator = ServerCoordinator(self)
            self.add_link(self._coordinator)
        self.current = number
        self._coordinator.do(number, command)

    def _request(self, number: int, command: Command) -> None:
        """Ask the owner what the command asks for."""
        self.ask(number, command, *request_of(command))

    def ask(self, number: int, command: Command, request: Request[Any], answer: Answer) -> None:
        """Ask the owner to answer `request`; later commands wait, for they may rely on it, as a bind on a declare."""
        pending = PendingRequest(self, request)
        self._owner_requests[pending] = OwnerRequest(number, command, answer)
        self._unanswered += 1
        self.engine.settle_events()  # outcomes that came before the request, on any session, take effect before it
        self.engine.emit(RequestReceived(pending))

    def pause(self) -> None:
        """Let the commands that come from now on wait until `go_on`."""
        self._paused = True

    def go_on(self) -> None:
        """Do the commands that have come since `pause`."""
        self._paused = False
        backlog = self._backlog
        while backlog and not (self._paused or self._unanswered or self.ended_locally):
            number, command, assembly = backlog.popleft()
            self.hold(-1, -assembly.size)
            try:
                self.execute(number, command, assembly)
            except SessionFault as fault:
                self.fail(fault, number, command)
        self._detach_if_asked()

    def answered(self) -> None:
        """Go on, for the owner has answered a command."""
        self._unanswered -= 1
        self.go_on()

    def _receive_transfer(self, number: int, command: MessageTransfer, assembly: Assembly) -> None:
        receiver = self._receiver
        if receiver is None:
            receiver = self._receiver = ServerReceiver(self, "transfers")
            self.add_link(receiver)
        if not assembly.excess:
            receiver.receive(number, command, assembly)
            return
        why = f"a message of more than {self.engine.terms.max_message_size} octets"
        if command.accept_mode == 1:
            raise SessionFault(
                ErrorCode.RESOURCE_LIMIT_EXCEEDED, why
            )  # the message is settled, so it can not be rejected
        self.reject(number, UNSPECIFIED, f"amqp:link:message-size-exceeded: {why}")
        self.complete(number)

    def add_link(self, link: ServerSender | ServerReceiver) -> None:
        """Add a link that a command of the client made, and have the owner answer it."""
        self._links[link] = None
        self.engine.emit(LinkAttached(link))

    def when_taken(self, call: Callable[[], None]) -> None:
        """Call `call` when the owner has taken all messages that the client sent."""
        if self._receiver is None:
            call()
        else:
            self._receiver.when_empty(call)

    # Subscriptions

    def _subscribe(self, number: int, command: MessageSubscribe) -> None:
        if not command.destination:
            raise SessionFault(ErrorCode.ILLEGAL_ARGUMENT, "a subscription must have a destination")
        if len(self._senders) >= MAX_SUBSCRIPTIONS:
            raise SessionFault(ErrorCode.RESOURCE_LIMIT_EXCEEDED, f"{MAX_SUBSCRIPTIONS} subscriptions are open")
        if command.destination in self._senders:
            raise SessionFault(ErrorCode.NOT_ALLOWED, f"the destination {command.destination!r} is in use")
        arguments = command.arguments or {}
        filters: dict[Any, Any] = {}
        selector = arguments.get("x-filter-jms-selector")
        if isinstance(selector, str) and selector:
            filters[Symbol("jms-selector")] = Selector(selector)
        if arguments.get("no-local"):
            filters[Symbol("no-local")] = NoLocal()
        source = Source(
            route_address("", command.queue),
            distribution_mode="copy" if command.acquire_mode == 1 else None,
            filter=filters or None,
        )
        sender = ServerSender(self, number, command, source)
        self._senders[sender.destination] = sender
        self._unanswered += 1  # commands for the subscription, such as message.flow, wait until it is attached
        self.add_link(sender)

    def _sender(self, destination: str) -> ServerSender:
        sender = self._senders.get(destination)
        if sender is None:
            raise SessionFault(ErrorCode.NOT_FOUND, f"there is no subscription {destination!r}")
        return sender

    def _cancel(self, number: int, command: MessageCancel) -> None:
        sender = self._sender(command.destination)
        del self._senders[command.destination]
        sender.cancel()
        self.complete(number)

    def _flow(self, number: int, command: MessageFlow) -> None:
        if command.unit > 1:
            raise SessionFault(ErrorCode.ILLEGAL_ARGUMENT, f"{command.unit} is not a unit of credit")
        self._sender(command.destination).granted(command)
        self.complete(number)

    def _set_flow_mode(self, number: int, command: MessageSetFlowMode) -> None:
        self._sender(command.destination).set_mode(command.flow_mode)
        self.complete(number)

    def _stop(self, number: int, command: MessageStop) -> None:
        self._sender(command.destination).stop()
        self.complete(number)

    def _flush_destination(self, number: int, command: MessageFlush) -> None:
        self._sender(command.destination).flush(number)

    # Outcomes

    def _named(self, transfers: Ranges) -> list[int]:
        """Return the ids in `transfers` of deliveries whose outcome the client has not told."""
        return ids_in(self._order, transfers, self.outbox.next)

    def _settle_named(self, number: int, command: Any, state: Any) -> None:
        def settle(numbers: Iterable[int]) -> None:
            for each in numbers:
                delivery = self.deliveries.pop(each, None)
                if delivery is not None:  # it may be over by the time of a later portion
                    link: Any = delivery.link
                    link.on_outcome(delivery, state)

        self.engine.in_portions(self._named(command.transfers), settle, partial(self.complete, number))

    def _accept(self, number: int, command: MessageAccept) -> None:
        self._settle_named(number, command, ACCEPTED)

    def _reject(self, number: int, command: MessageReject) -> None:
        self._settle_named(
            number, command, Rejected(error_from(command.text, CLIENTS_REJECT) if command.text else None)
        )

    def _release(self, number: int, command: MessageRelease) -> None:
        self._settle_named(number, command, Modified(delivery_failed=True) if command.set_redelivered else RELEASED)

    def _acquire(self, number: int, command: MessageAcquire) -> None:
        """Ask the owner which of the messages that a browser was shown can still be acquired."""
        named = [self.deliveries[each] for each in self._named(command.transfers)]
        shown = tuple(each for each in named if isinstance(each.link, ServerSender) and each.link.shows)
        self.ask(number, command, Acquire(shown), self._acquired)

    def _acquired(self, deliveries: Iterable[OutgoingDelivery]) -> Acquired:
        for delivery in deliveries:
            assert isinstance(delivery.link, ServerSender)
            delivery.link.acquired(delivery)
        return Acquired(to_ranges(unwrap_serial(each.delivery_id or 0, self.outbox.next) for each in deliveries))

    def _resume(self, number: int, command: MessageResume) -> None:
        """Answer that a message which was cut off begins anew: no part is kept. Sessions resume whole commands only."""
        self.result_of(number, MessageResumeResult(0))

    def forget_delivery(self, delivery: OutgoingDelivery) -> None:
        """Forget a delivery that the owner settled."""
        self.deliveries.pop(unwrap_serial(delivery.delivery_id or 0, self.outbox.next), None)

    def reject(self, number: int, code: int, text: str) -> None:
        """Reject the client's transfer `number` with the next output, merged with others."""
        self._rejects.setdefault((code, text), []).append(number)
        self.engine.flush_later(self)

    def flush_dispositions(self) -> None:
        rejects, self._rejects = self._rejects, {}
        for (code, text), numbers in rejects.items():
            for some in chunks(numbers):
                self.invoke(MessageReject(to_ranges(some), code, text))

    def next_tag(self) -> bytes:
        """Return a tag that no other delivery of the session has."""
        self._next_tag += 1
        return self._next_tag.to_bytes(8, "big")

    # Requests

    def answer(self, pending: PendingRequest[RequestResult], result: RequestResult) -> None:
        if self.ended_locally or pending.answered:
            return
        pending.answer(result)
        number, command, answer = self._owner_requests.pop(pending)
        if isinstance(command, QueueDeclare) and command.exclusive and command.auto_delete:
            self._temporary[command.queue] = None
        elif isinstance(command, QueueDelete):
            self._temporary.pop(command.queue, None)
        try:
            self.result_of(number, answer(result))
        except SessionFault as fault:
            self.fail(fault, number, command)
        self.answered()

    def refuse(self, pending: PendingRequest[Any], error: Error) -> None:
        if self.ended_locally or pending.answered:
            return
        pending.fail(as_exception(SessionEnded, error))
        number, command, _ = self._owner_requests.pop(pending)
        self.fail(SessionFault(execution_code(error), error.description or str(error.condition)), number, command)

    def result_of(self, number: int, value: Struct | None) -> None:
        """Complete the command `number`, with the result `value`; None: without a result."""
        if value is not None:
            self.invoke(ExecutionResult(number & SERIAL_MASK, value))
        self.complete(number)

    def refuse_all(self, error: Error) -> None:
        """End the session, for the owner takes nothing from the client."""
        self.end(error)

    # Ending

    def _receive_detach(self, control: SessionDetach) -> None:
        """Detach from the session, and keep it as long as was agreed.

        Without a timeout it ends, but only once the owner has taken all that came before.
        """
        if self.resumable and self.engine.session_keeper is not None:
            self.settle_events()
            self._leave(0)
            super().suspend()
            self.engine.session_keeper.detached()
            return
        self._asked_to_detach = control
        self._detach_if_asked()

    def _detach_if_asked(self) -> None:
        if self._asked_to_detach is not None and not (self._paused or self._unanswered):
            self.when_taken(self._detach_at_last)

    def _detach_at_last(self) -> None:
        control, self._asked_to_detach = self._asked_to_detach, None
        if control is not None:
            super()._receive_detach(control)

    def finish(self, error: AmqpError | None) -> None:
        super().finish(error)
        if self.engine.opened:
            self._detach_at_last()  # this side has ended the session while the client's detach waited

    def fail(self, fault: SessionFault, number: int, command: Command | type[Command] | None) -> None:
        if self.ended_locally:
            return
        self.flush()
        code = command.spec_code if command is not None else 0
        self.invoke(
            ExecutionException(
                fault.code,
                number & SERIAL_MASK,
                code >> 8 if command is not None else None,
                code & 0xFF if command is not None else None,
                description=fault.description[:1000],
            )
        )
        self._detach()
        self.finish(RemoteProtocolError(fault.description, condition(fault.code)))

    def end(self, error: Error | None = None) -> None:
        if self.ended_locally:
            return
        self.flush()
        if error is not None:
            self.invoke(ExecutionException(execution_code(error), description=error.description or error.condition))
        self._detach()
        self.finish(None)

    def _detach(self) -> None:
        """Detach from the session, unless it has no transport; the channel is free when the client answers."""
        if not self.suspended:
            self.detach()

    @property
    def links(self) -> tuple[LinkEndpoint, ...]:
        """The links that are not over."""
        return tuple(self._links)

    def forget(self, link: LinkEndpoint) -> None:
        self._links.pop(link, None)
        if isinstance(link, ServerSender) and self._senders.get(link.destination) is link:
            del self._senders[link.destination]

    def end_links(self, error: AmqpError | None) -> None:
        links, self._links = list(self._links), {}
        self._senders.clear()
        self.deliveries.clear()
        for link in links:
            link.over(error)
        for _, _, assembly in self._backlog:
            self.hold(-1, -assembly.size)
        self._backlog.clear()
        for name in self._temporary:
            self.engine.emit(RequestReceived(PendingRequest(self, DeleteQueue(name))))
        self._temporary.clear()
