"""The server's end of a session: what clients command, as events for the owner (0-10 §10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...engine import (
    Acquire,
    DeleteQueue,
    LinkAttached,
    LinkTerms,
    PendingRequest,
    Request,
    RequestReceived,
    SessionResumed,
    SessionTerms,
    route_address,
)
from ...engine._requests import R
from ...errors import AmqpError, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import ACCEPTED, RELEASED, Error, Modified, NoLocal, Rejected, Selector, Source
from ...types import Symbol
from ._codes import CLIENTS_REJECT, UNSPECIFIED, SessionFault, condition, error_from, execution_code
from ._commands import (
    Acquired,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
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
)
from ._controller import TRANSACTIONAL, Controller
from ._controls import SessionAttach, SessionAttached, SessionDetach, SessionDetached, SessionRequestTimeout
from ._declare import Command, Ranges, Struct, decode_control
from ._frames import CONTROL, Assembly
from ._intake import IntakeLink
from ._ledger import MASK, named, near, portions, to_ranges
from ._outlet import OutletLink
from ._server_requests import RULES, Answer, request_of
from ._session import SessionEndpoint
from ._topology import QueueDeclare, QueueDelete

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery, ReceiverLink, SenderLink
    from ._engine import V010Engine

SESSION_BUSY = 1
TRANSPORT_BUSY = 2
NOT_ATTACHED = 3
MOST_SUBSCRIPTIONS = 1024
"""That one session may have."""


class ServerSession(SessionEndpoint):
    """See `Session` for the contract.

    Attributes:
        deliveries: transfers of ours that the client has not told the outcome of, by command id.
        transaction: what is done now is part of it; None for none.
    """

    request_rules = RULES

    def __init__(self, engine: V010Engine, channel: int) -> None:
        super().__init__(engine, channel)
        self._attached = True
        self.deliveries: dict[int, OutgoingDelivery] = {}
        self.transaction: bytes | None = None
        self._outlets: dict[str, OutletLink] = {}
        self._links: dict[OutletLink | IntakeLink, None] = {}
        self._intake: IntakeLink | None = None
        self._controller: Controller | None = None
        self.current = 0  # the command that a transaction waits for
        self._rejects: dict[tuple[int, str], list[int]] = {}
        self._next_tag = 0
        self._temporary: dict[str, None] = {}  # queues that end with the session
        self._paused = False  # a transaction has to come to its end before all that comes
        self._asked = 0  # commands that the owner has to answer before all that comes
        self._backlog: deque[tuple[int, Command, Assembly]] = deque()

    # Beginning

    def _receive_attach(self, control: SessionAttach) -> None:
        if self.name:
            self.say(SessionDetached(control.name, TRANSPORT_BUSY))
            return
        self.name = control.name
        self.remote = SessionTerms()
        self.say(SessionAttached(control.name))

    def begin(self, terms: SessionTerms | None = None) -> None:
        if self._unmapped:
            return
        if self.terms is not None:
            raise LocalProtocolError("the session was begun already")
        self.terms = terms if terms is not None else SessionTerms()
        self.begun = not self.muted
        if self.engine.stopping:
            self.regulate(True)

    # When clients send more than there is room for

    def regulate(self, stop: bool) -> None:
        """As Qpid's brokers say it: publishers have credit from now on, and none; or any number."""
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
        keeper = self.engine.keeper
        return keeper.longest if keeper is not None else 0

    def resume(self, engine: V010Engine, channel: int) -> None:
        """The client attaches to the session again."""
        branches = self.engine.branches
        self.rebind(engine, channel)
        if self._controller is not None:
            self._controller.moved(branches)
        self.engine.emit(SessionResumed(self))
        self.say(SessionAttached(self.name))
        self.ask_expected()

    def timeout_agreed(self) -> None:
        if self.engine.keeper is not None:
            self.engine.keeper.keep(self, self.name, self.timeout)

    def suspend(self) -> None:
        """Also when it is attached elsewhere: the transport that it was on has nothing to say any more."""
        if self.engine.sessions.get(self.channel) is self and self.engine.opened:
            self.say(SessionDetached(self.name, TRANSPORT_BUSY))
            del self.engine.sessions[self.channel]
        super().suspend()

    def forgotten(self) -> None:
        self._part()
        self.finish(RemoteProtocolError("the client resumes what it does not know", "amqp:illegal-state"))

    def went_on(self) -> None:
        """Told at once, when it was attached."""

    def not_attached(self, assembly: Assembly) -> None:
        """Something came on a channel without a session."""
        control = decode_control(assembly.front) if assembly.kind == CONTROL else None
        if control is None:
            self.say(SessionDetached(b"", NOT_ATTACHED))  # a command names no session
        elif isinstance(control, SessionDetach):
            self.say(SessionDetached(control.name, NOT_ATTACHED))

    def is_new(self, attach: SessionAttach) -> bool:
        """Whether it is; not, if one of that name goes on here, or is at work elsewhere and not to be moved."""
        keeper = self.engine.keeper
        if keeper is None:
            return True
        if not attach.force and keeper.attached(self.engine, attach.name):
            self.say(SessionDetached(attach.name, SESSION_BUSY))
            return False
        known = keeper.take(self.engine, attach.name)
        if isinstance(known, ServerSession):
            known.resume(self.engine, self.channel)
            return False
        keeper.keep(self, attach.name, 0)
        return True

    def attach_sender(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> SenderLink:
        raise LocalProtocolError("servers of AMQP 0-10 attach no links")

    def attach_receiver(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> ReceiverLink:
        raise LocalProtocolError("servers of AMQP 0-10 attach no links")

    # Commands of the client

    def execute(self, number: int, command: Command, assembly: Assembly) -> None:
        if self._paused or self._asked:
            self._backlog.append((number, command, assembly))
            self.engine.hold(1, assembly.size)
            return
        if isinstance(command, MessageTransfer):
            self._receive_transfer(number, command, assembly)
            return
        action = _ACTIONS.get(type(command))
        if action is not None:
            action(self, number, command)
            return
        if type(command) in TRANSACTIONAL:
            if self._controller is None:
                self._controller = Controller(self)
                self.add_link(self._controller)
            self.current = number
            self._controller.do(number, command)
            return
        found = request_of(command)
        if found is None:
            raise SessionFault(540, f"{command.spec_name} is not done here")
        self.ask(number, command, *found)

    def ask(self, number: int, command: Command, request: Request[Any], answer: Answer) -> None:
        """Have the owner answer. What follows may rely on it: a bind on a declare, a transfer on both."""
        pending = PendingRequest(self, request)
        pending.context = number, answer, command
        self._asked += 1
        for session in self.engine.sessions.values():
            session.settle_events()  # outcomes that were named before, on whatever session, count before
        self.engine.emit(RequestReceived(pending))

    def pause(self) -> None:
        """What comes from now on waits until `go_on`."""
        self._paused = True

    def go_on(self) -> None:
        """Do what has come meanwhile."""
        self._paused = False
        backlog = self._backlog
        while backlog and not (self._paused or self._asked or self.muted):
            number, command, assembly = backlog.popleft()
            self.engine.hold(-1, -assembly.size)
            try:
                self.execute(number, command, assembly)
            except SessionFault as fault:
                self.fail(fault, number, command)

    def answered(self) -> None:
        """The owner has answered a command."""
        self._asked -= 1
        self.go_on()

    def _receive_transfer(self, number: int, command: MessageTransfer, assembly: Assembly) -> None:
        intake = self._intake
        if intake is None:
            intake = self._intake = IntakeLink(self, "transfers")
            self.add_link(intake)
        if not assembly.excess:
            intake.receive(number, command, assembly)
            return
        why = f"a message of more than {self.engine.terms.max_message_size} octets"
        if command.accept_mode == 1:
            raise SessionFault(506, why)  # nobody waits for an outcome
        self.reject(number, UNSPECIFIED, f"amqp:link:message-size-exceeded: {why}")
        self.complete(number)

    def add_link(self, link: OutletLink | IntakeLink) -> None:
        """A link that the client's command makes; the owner answers it."""
        self._links[link] = None
        self.engine.emit(LinkAttached(link))

    def when_taken(self, call: Callable[[], None]) -> None:
        """Call it when the owner has had all that the client sent."""
        if self._intake is None:
            call()
        else:
            self._intake.when_empty(call)

    # Subscriptions

    def _subscribe(self, number: int, command: MessageSubscribe) -> None:
        if not command.destination:
            raise SessionFault(531, "a subscription has a destination")
        if len(self._outlets) >= MOST_SUBSCRIPTIONS:
            raise SessionFault(506, f"{MOST_SUBSCRIPTIONS} subscriptions are open")
        if command.destination in self._outlets:
            raise SessionFault(530, f"the destination {command.destination!r} is in use")
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
        outlet = OutletLink(self, number, command, source)
        self._outlets[outlet.destination] = outlet
        self._asked += 1  # credit, flushes and the end of it mean something once it is attached
        self.add_link(outlet)

    def _outlet(self, destination: str) -> OutletLink:
        outlet = self._outlets.get(destination)
        if outlet is None:
            raise SessionFault(404, f"there is no subscription {destination!r}")
        return outlet

    def _cancel(self, number: int, command: MessageCancel) -> None:
        outlet = self._outlet(command.destination)
        del self._outlets[command.destination]
        outlet.cancel()
        self.complete(number)

    def _flow(self, number: int, command: MessageFlow) -> None:
        if command.unit > 1:
            raise SessionFault(531, f"{command.unit} is no unit of credit")
        self._outlet(command.destination).granted(command)
        self.complete(number)

    def _set_flow_mode(self, number: int, command: MessageSetFlowMode) -> None:
        self._outlet(command.destination).set_mode(command.flow_mode)
        self.complete(number)

    def _stop(self, number: int, command: MessageStop) -> None:
        self._outlet(command.destination).stop()
        self.complete(number)

    def _flush_destination(self, number: int, command: MessageFlush) -> None:
        self._outlet(command.destination).flush(number)

    # Outcomes

    def _named(self, transfers: Ranges) -> list[int]:
        """Those of these transfers whose outcome the client has not told."""
        return named(self.deliveries, transfers, self.outbox.next)

    def _told(self, number: int, command: Any, state: Any) -> None:
        for each in self._named(command.transfers):
            delivery = self.deliveries.pop(each)
            link: Any = delivery.link
            link.told(delivery, state)
        self.complete(number)

    def _accept(self, number: int, command: MessageAccept) -> None:
        self._told(number, command, ACCEPTED)

    def _reject(self, number: int, command: MessageReject) -> None:
        self._told(number, command, Rejected(error_from(command.text, CLIENTS_REJECT) if command.text else None))

    def _release(self, number: int, command: MessageRelease) -> None:
        self._told(number, command, Modified(delivery_failed=True) if command.set_redelivered else RELEASED)

    def _acquire(self, number: int, command: MessageAcquire) -> None:
        """What a browser was shown: the owner knows whether it is still to be had."""
        named = [self.deliveries[each] for each in self._named(command.transfers)]
        shown = tuple(each for each in named if isinstance(each.link, OutletLink) and each.link.shows)
        self.ask(number, command, Acquire(shown), self._acquired)

    def _acquired(self, deliveries: Iterable[OutgoingDelivery]) -> Acquired:
        for delivery in deliveries:
            link: Any = delivery.link
            link.acquired(delivery)
        return Acquired(to_ranges(near(each.delivery_id or 0, self.outbox.next) for each in deliveries))

    def _resume(self, number: int, command: MessageResume) -> None:
        """Nothing is kept of a message that was cut off: it begins at its beginning. Sessions resume, by commands."""
        self.result_of(number, MessageResumeResult(0))

    def forget_delivery(self, delivery: OutgoingDelivery) -> None:
        """The owner settled it."""
        self.deliveries.pop(near(delivery.delivery_id or 0, self.outbox.next), None)

    def reject(self, number: int, code: int, text: str) -> None:
        """A message of the client is not taken."""
        self._rejects.setdefault((code, text), []).append(number)
        self.engine.owe(self)

    def flush_dispositions(self) -> None:
        rejects, self._rejects = self._rejects, {}
        for (code, text), numbers in rejects.items():
            for some in portions(numbers):
                self.invoke(MessageReject(to_ranges(some), code, text))

    def next_tag(self) -> bytes:
        """A tag that no other delivery of the session has."""
        self._next_tag += 1
        return self._next_tag.to_bytes(8, "big")

    # Requests

    def answer(self, pending: PendingRequest[R], result: R) -> None:
        if self.muted or pending.answered:
            return
        pending.answer(result)
        number, answer, command = pending.context
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
        if self.muted or pending.answered:
            return
        pending.fail(SessionEnded(str(error.condition), error.description, error.info))
        number, _, command = pending.context
        self.fail(SessionFault(execution_code(error), error.description or str(error.condition)), number, command)

    def result_of(self, number: int, value: Struct | None) -> None:
        """A command is done, and this is what it gave."""
        if value is not None:
            self.invoke(ExecutionResult(number & MASK, value))
        self.complete(number)

    def refuse_all(self, error: Error) -> None:
        """The client may do nothing here."""
        self.end(error)

    # Ending

    def fail(self, fault: SessionFault, number: int, command: Command | None) -> None:
        if self.muted:
            return
        self.flush()
        code = command.spec_code if command is not None else 0
        self.invoke(
            ExecutionException(
                fault.code,
                number & MASK,
                code >> 8 if command is not None else None,
                code & 0xFF if command is not None else None,
                description=fault.description[:1000],
            )
        )
        self._part()
        self.finish(RemoteProtocolError(fault.description, condition(fault.code)))

    def end(self, error: Error | None = None) -> None:
        if self.muted:
            return
        self.flush()
        if error is not None:
            self.invoke(ExecutionException(execution_code(error), description=error.description or error.condition))
        self._part()
        self.finish(None)

    def _part(self) -> None:
        """Our detach; the channel is free when it is answered."""
        self.say(SessionRequestTimeout(0))
        self.say(SessionDetach(self.name))
        self.mute()

    @property
    def links(self) -> tuple[OutletLink | IntakeLink, ...]:
        """Those that are not over."""
        return tuple(self._links)

    def forget(self, link: Any) -> None:
        self._links.pop(link, None)
        if isinstance(link, OutletLink) and self._outlets.get(link.destination) is link:
            del self._outlets[link.destination]

    def end_links(self, error: AmqpError | None) -> None:
        links, self._links = list(self._links), {}
        self._outlets.clear()
        self.deliveries.clear()
        for link in links:
            link.over(error)
        for _, _, assembly in self._backlog:
            self.engine.hold(-1, -assembly.size)
        self._backlog.clear()
        for name in self._temporary:
            self.engine.emit(RequestReceived(PendingRequest(self, DeleteQueue(name))))
        self._temporary.clear()

    def _excepted(self, number: int, command: ExecutionException) -> None:
        self.excepted(command)

    def _resulted(self, number: int, command: ExecutionResult) -> None:
        self.result(command)
        self.complete(number)

    def _sync(self, number: int, command: ExecutionSync) -> None:
        self.sync(number)


_ACTIONS: dict[type[Command], Any] = {
    ExecutionSync: ServerSession._sync,
    ExecutionResult: ServerSession._resulted,
    ExecutionException: ServerSession._excepted,
    MessageSubscribe: ServerSession._subscribe,
    MessageCancel: ServerSession._cancel,
    MessageFlow: ServerSession._flow,
    MessageSetFlowMode: ServerSession._set_flow_mode,
    MessageStop: ServerSession._stop,
    MessageFlush: ServerSession._flush_destination,
    MessageAccept: ServerSession._accept,
    MessageReject: ServerSession._reject,
    MessageRelease: ServerSession._release,
    MessageAcquire: ServerSession._acquire,
    MessageResume: ServerSession._resume,
}
