"""A session in which every command is said, cut after each frame of it: it comes to the same, each thing done once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import pytest

from amqp10 import Message, Released, Source, Target
from amqp10.dialects.v0_10.wire.frames import COMMAND, FIRST_FRAME
from amqp10.dialects.v0_10.wire.struct import COMMANDS
from amqp10.engine import (
    Acquire,
    Bind,
    BindingFacts,
    ConnectionEnded,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeliveriesReceived,
    Event,
    ExchangeFacts,
    FlowReceived,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    PendingRequest,
    PurgeQueue,
    QueryBinding,
    QueryExchange,
    QueueFacts,
    RequestReceived,
    SettlementsReceived,
    Unbind,
)
from amqp10.messaging import (
    ACCEPTED,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Modified,
    Rejected,
    TransactionalState,
)

from ...kit.dialects.v0_10.pair import ClientApplication, Line, ServerApplication

LARGE = "large " * 30_000  # several frames
OUTCOMES: dict[str, Any] = {
    "b": Released(),
    "c": Rejected(None),
    "d": Modified(delivery_failed=True),
}
COVERED = {
    "message.transfer",
    "message.accept",
    "message.reject",
    "message.release",
    "message.acquire",
    "message.subscribe",
    "message.cancel",
    "message.set-flow-mode",
    "message.flow",
    "message.flush",
    "message.stop",
    "execution.sync",
    "execution.result",
    "queue.declare",
    "queue.query",
    "queue.purge",
    "queue.delete",
    "exchange.declare",
    "exchange.delete",
    "exchange.query",
    "exchange.bind",
    "exchange.bound",
    "exchange.unbind",
    "dtx.select",
    "dtx.start",
    "dtx.end",
    "dtx.commit",
}

Script = Generator[Callable[[], bool], None, None]


class Client(ClientApplication):
    """Does one thing after another, each when the one before has come to its end.

    Attributes:
        log: what it heard, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self._script: Script | None = None
        self._until: Callable[[], bool] | None = None
        self.on_open = lambda engine: self._begin()
        self.finished = False

    def _begin(self) -> None:
        if self._script is None:
            self._script = self.script()
            self._until = next(self._script)

    def handle(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, DeliveriesReceived):
                self.take(event.link)
            elif isinstance(event, OutcomesReceived):
                for each in event.deliveries:
                    if isinstance(body := Message.decode(each.payload).body, str):
                        self.told.setdefault(body, []).append(each.remote_state)
            elif isinstance(event, FlowReceived):
                self.log.append(("flow", event.drained, event.wasted))
            elif isinstance(event, SettlementsReceived):
                self.log.append(("settled", len(event.deliveries)))
            elif isinstance(event, LinkEnded):
                self.log.append(("ended", event.link.name))
        done = DeliveriesReceived | LinkEnded | OutcomesReceived
        super().handle([event for event in events if not isinstance(event, done)])
        while self._script is not None and not self.finished and self._until is not None and self._until():
            try:
                self._until = next(self._script)
            except StopIteration:
                self.finished = True

    def take(self, link: Any) -> None:
        while link.incoming:
            delivery = link.incoming.popleft()
            body = Message.decode(delivery.payload).body
            self.log.append(("received", link.name, body))
            self.shown.append(delivery)
            if link.attached and link.name != "browser":
                link.settle(delivery, OUTCOMES.get(body, ACCEPTED))

    def ask(self, request: Any) -> Callable[[], bool]:
        assert self.session is not None
        pending: PendingRequest[Any] = self.session.request(request)
        return lambda: pending.answered and self._answered(pending)

    def _answered(self, pending: PendingRequest[Any]) -> bool:
        answer: Any = pending.result if pending.error is None else pending.error
        if isinstance(pending.request, Acquire):
            answer = len(answer)
        self.log.append((type(pending.request).__name__, repr(answer)))
        return True

    def script(self) -> Script:
        session = self.begin(timeout=100)
        self.shown: list[Any] = []
        sender, receiver = self.sender(), self.receiver()
        yield lambda: sender.attached and receiver.attached
        for body in ("one", LARGE, "three"):
            sender.send(Message(body).encode())
        yield lambda: len(self.told) == 3

        receiver.flow(6)
        yield lambda: len(self.shown) == 4
        receiver.flow(1)
        receiver.flow(3, drain=True)
        yield lambda: ("flow", True, 3) in self.log

        for request in (
            DeclareExchange("made"),
            DeleteExchange("amq.topic"),
            DeclareQueue("new"),
            Bind("new", "amq.topic", "a.#"),
            QueryBinding("amq.topic", "new", "a.#"),
            Unbind("new", "amq.topic", "a.#"),
            PurgeQueue("new"),
            DeleteQueue("new"),
        ):
            yield self.ask(request)

        source = Source("q", distribution_mode="copy")
        browser = session.attach_receiver(LinkTerms("browser", source, Target()))
        yield lambda: browser.attached
        self.stock.append("shown")
        browser.flow(1)
        yield lambda: len(self.shown) == 5
        yield self.ask(Acquire((self.shown[-1],)))
        browser.settle(self.shown[-1], ACCEPTED)
        browser.detach()
        yield lambda: ("ended", "browser") in self.log

        exact = session.attach_receiver(LinkTerms("exact", Source("q"), Target(), receiver_settle_mode="second"))
        yield lambda: exact.attached
        self.stock.append("exactly")
        exact.flow(1)
        yield lambda: ("settled", 1) in self.log

        coordinator = session.attach_sender(LinkTerms("coordinator", Source(), Coordinator()))
        yield lambda: coordinator.attached
        for fail in (False, True):
            declare = coordinator.send(Message(AmqpValue(Declare())).encode())
            yield lambda declare=declare: declare.remote_state is not None  # type: ignore[misc]
            assert isinstance(declare.remote_state, Declared)
            number = declare.remote_state.txn_id
            sender.send(Message(f"in a transaction, {fail}").encode(), state=TransactionalState(number))
            discharge = coordinator.send(Message(AmqpValue(Discharge(number, fail))).encode())
            yield lambda discharge=discharge: discharge.remote_state == ACCEPTED  # type: ignore[misc]
        for link in (sender, receiver, exact):
            link.detach()
        yield lambda: {("ended", "s"), ("ended", "r"), ("ended", "exact")} <= set(self.log)

    stock: Any


class Server(ServerApplication):
    """Answers all of it, and notes what it was asked to do."""

    def __init__(self) -> None:
        super().__init__(["a", "b", "c", "d"])
        self.asked: list[str] = []
        self.answer = self._answer
        self.discharged: list[bool] = []

    def handle(self, events: list[Event]) -> None:
        self.asked += [type(event.request.request).__name__ for event in events if isinstance(event, RequestReceived)]
        super().handle(events)
        for link in self.links:
            if hasattr(link, "drain") and link.attached and link.credit > 0 and self.stock:
                self.send(link)

    def _answer(self, request: Any) -> Any:
        if isinstance(request, DeclareQueue):
            return QueueFacts(request.name)
        if isinstance(request, QueryExchange):
            return ExchangeFacts(request.name, "topic") if request.name == "amq.topic" else None
        if isinstance(request, QueryBinding):
            return BindingFacts(exchange=True, queue=True, bound=True, key=True, arguments=True)
        if isinstance(request, Acquire):
            return request.deliveries
        return None


def run(cuts: tuple[int, ...]) -> tuple[Client, Server, Line]:
    """Everything, over a line that is cut at these points."""
    client, server = Client(), Server()
    client.stock = server.stock
    line = Line(client, server)
    line.cuts = list(cuts)
    line.run()
    return client, server, line


def came_to(client: Client, server: Server) -> tuple[Any, ...]:
    """Return the actions and the events, in order where there is one."""
    return client.log, client.told, server.got, server.taken, server.returned, server.asked


@cache
def uncut() -> tuple[Any, int, int]:
    """Return the result without a cut, the number of frames, and the number after which the session is kept."""
    client, server, line = run(())
    assert client.finished
    kept = next(cut for cut in range(30) if run((cut,))[0].resumed)
    return came_to(client, server), line.passed, kept


def test_it_is_everything() -> None:
    """Each command is said, in both directions those that both ends say."""
    _, _, line = run(())
    said = set()
    for frames in line.said.values():
        for frame in frames:
            if frame[:4] != b"AMQP" and frame[1] == COMMAND and frame[0] & FIRST_FRAME:
                said.add(COMMANDS[int.from_bytes(frame[12:14], "big")].spec_name)
    assert said == COVERED


@pytest.mark.parametrize("part", range(8))
def test_cut_anywhere(part: int) -> None:
    """The line is cut after each frame in turn."""
    expected, total, kept = uncut()
    for cut in range(kept + part, total, 8):
        client, server, _ = run((cut,))
        assert came_to(client, server) == expected, cut
        for one in (client, server):
            assert all(isinstance(each, ConnectionEnded | LinkEnded) for each in one.ended)
        assert client.resumed == 1


@pytest.mark.parametrize("step", [9, 13, 22])
def test_cut_again_and_again(step: int) -> None:
    """And so are the lines after it, wherever the resuming has got to."""
    expected, total, kept = uncut()
    for cut in range(kept, total, 5):
        client, server, _ = run((cut, *[step] * 8))
        assert came_to(client, server) == expected, cut
