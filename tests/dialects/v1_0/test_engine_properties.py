"""The engine under everything that a peer, or its owner, may do: properties, found by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amqp10.engine import (
    ConnectionEnded,
    ConnectionTerms,
    CreditChanged,
    DeliveriesReceived,
    Engine,
    IncomingDelivery,
    Link,
    LinkAttached,
    LinkEnded,
    OutgoingDelivery,
    ReceiverLink,
    SessionBegun,
    SessionTerms,
    dialect,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Received, Rejected, Source, Target
from amqp10.sasl import Authenticator
from amqp10.testing import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    EnginePair,
    EngineScript,
    Flow,
    Open,
    Transfer,
)

from ...kit.dialects.v1_0.scripted_referee import Referee

# Small numbers meet what is there, and the corners are where arithmetic breaks.
small = st.integers(0, 4)
ids = st.one_of(small, st.sampled_from([2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]))
windows = st.sampled_from([0, 1, 3, 100, 2**31, 2**32 - 1])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A field that may be absent."""
    return st.one_of(st.none(), strategy)


errors = maybe(st.builds(Error, condition=st.sampled_from(["amqp:internal-error", "amqp:link:stolen", "x:y"])))
states = st.sampled_from(
    [None, ACCEPTED, RELEASED, Rejected(), Modified(delivery_failed=True), Received(section_number=0, section_offset=0)]
)
payloads = st.sampled_from([b"", b"x", bytes(600)])

FRAMES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Open, container_id=st.just("again")),
    st.builds(
        Begin,
        remote_channel=maybe(small),
        next_outgoing_id=ids,
        incoming_window=windows,
        outgoing_window=windows,
        handle_max=st.sampled_from([0, 3, 2**32 - 1]),
    ),
    st.builds(
        Attach,
        name=st.sampled_from(["a", "b", "long" * 150]),
        handle=small,
        role=st.booleans(),
        snd_settle_mode=st.integers(0, 2),
        rcv_settle_mode=st.integers(0, 1),
        source=st.sampled_from([None, Source("q")]),
        target=st.sampled_from([None, Target("q")]),
        initial_delivery_count=maybe(ids),
        max_message_size=maybe(st.sampled_from([0, 10])),
    ),
    st.builds(
        Flow,
        next_incoming_id=maybe(ids),
        incoming_window=windows,
        next_outgoing_id=ids,
        outgoing_window=windows,
        handle=maybe(small),
        delivery_count=maybe(ids),
        link_credit=maybe(windows),
        available=maybe(small),
        drain=st.booleans(),
        echo=st.booleans(),
    ),
    st.builds(
        Transfer,
        handle=small,
        delivery_id=maybe(ids),
        delivery_tag=maybe(st.sampled_from([b"", b"t", b"u"])),
        settled=maybe(st.booleans()),
        more=st.booleans(),
        rcv_settle_mode=maybe(st.integers(0, 1)),
        state=states,
        resume=st.booleans(),
        aborted=st.booleans(),
    ),
    st.builds(Disposition, role=st.booleans(), first=ids, last=maybe(ids), settled=st.booleans(), state=states),
    st.builds(Detach, handle=small, closed=st.booleans(), error=errors),
    st.builds(End, error=errors),
    st.builds(Close, error=errors),
)


def client() -> Engine:
    """A client engine without SASL."""
    return dialect("1.0").client(ConnectionTerms("tested", channel_max=3), None, True)


def server() -> Engine:
    """A server engine that lets anybody in."""
    return dialect("1.0").server(ConnectionTerms("tested", channel_max=3), Authenticator(anonymous=True))


def act(script: EngineScript, deliveries: list[IncomingDelivery], choice: int) -> None:
    """What an owner does on events: answer what is offered, refuse some, settle, send while there is credit.

    What it acts on may be gone by then: that is a LocalProtocolError, or has no effect.
    """
    for event in script.take_events():
        try:
            if isinstance(event, SessionBegun) and event.session.terms is None:
                event.session.begin(SessionTerms(incoming_window=2, handle_max=3))
            elif isinstance(event, LinkAttached) and event.link.terms is None:
                answer(event.link, choice)
            elif isinstance(event, DeliveriesReceived):
                while event.link.incoming:
                    deliveries.append(event.link.incoming.popleft())
                    event.link.settle(deliveries[-1], (ACCEPTED, RELEASED, Modified())[choice % 3])
            elif isinstance(event, CreditChanged):
                if event.link.credit > 0:
                    event.link.send(bytes(700), settled=event.link.settled_by_sender)
                event.link.drained()
        except LocalProtocolError:
            pass


def answer(link: Link, choice: int) -> None:
    """Take a link that is offered, or refuse it."""
    assert link.remote is not None
    if choice == 0:
        link.refuse(Error("amqp:not-found"))
        return
    link.attach(link.remote)
    if isinstance(link, ReceiverLink):
        link.flow(3, drain=choice == 1)


@settings(max_examples=3 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    frames=st.lists(st.tuples(st.integers(0, 2), FRAMES, payloads), max_size=25),
    as_server=st.booleans(),
    begun=st.booleans(),
    choice=small,
    late=st.integers(1, 4),
    limit=st.sampled_from([512, 2**32 - 1]),
)
def test_any_frames(
    frames: list[tuple[int, Any, bytes]], as_server: bool, begun: bool, choice: int, late: int, limit: int
) -> None:
    """Whatever frames come, in whatever order: nothing is raised, what is written is legal, the end is one."""
    script = EngineScript(server() if as_server else client())
    script.open(max_frame_size=limit)
    engine = script.engine
    deliveries: list[IncomingDelivery] = []
    ends = 0
    referee = Referee()
    if begun and as_server:
        script.begin()
    elif begun:
        referee.handles[0] = {0, 1}
        session = script.session()
        script.sender(session, credit=3)
        script.receiver(session, credit=3)
    for number, (channel, performative, payload) in enumerate(frames):
        script.send(performative, payload if type(performative) is Transfer else b"", channel=channel)
        if number % late == 0:
            ends += sum(isinstance(event, ConnectionEnded) for event in script.events)
            act(script, deliveries, choice)
            referee.watch(script)
    ends += sum(isinstance(event, ConnectionEnded) for event in script.events)
    act(script, deliveries, choice)
    referee.watch(script)
    assert engine.output_size == 0
    script.end_of_stream()
    ends += sum(isinstance(event, ConnectionEnded) for event in script.take_events())
    assert ends == 1
    assert len({id(delivery) for delivery in deliveries}) == len(deliveries)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(data=st.binary(max_size=200), as_server=st.booleans(), opened=st.booleans(), portion=st.integers(1, 50))
def test_any_bytes(data: bytes, as_server: bool, opened: bool, portion: int) -> None:
    """Whatever bytes come, in whatever portions: nothing is raised."""
    script = EngineScript(server() if as_server else client())
    if opened:
        script.open()
    for start in range(0, len(data), portion):
        script.send_bytes(data[start : start + portion])
        script.engine.data_to_send()
    script.end_of_stream()
    assert sum(isinstance(event, ConnectionEnded) for event in script.take_events()) == 1


class Exchange:
    """Both owners of a pair, that do what a list of choices says, and keep book of what must be true."""

    def __init__(self, frame_size: int, window: int, first_id: int, streaming: bool) -> None:
        self.pair = EnginePair(
            client=ConnectionTerms("client", max_frame_size=frame_size),
            server=ConnectionTerms("server", max_frame_size=frame_size),
        )
        self.pair.open()
        terms = SessionTerms(incoming_window=window, next_outgoing_id=first_id)
        mine, _ = self.pair.begin(terms, terms)
        self.links = [
            self.pair.attach(f"q{number}", session=mine, sender="client" if number % 2 else "server", credit=number)
            for number in range(3)
        ]
        self.sent: dict[int, list[tuple[bytes, OutgoingDelivery]]] = {0: [], 1: [], 2: []}
        self.got: dict[int, list[IncomingDelivery]] = {0: [], 1: [], 2: []}
        self.aborted: set[int] = set()
        self.partial: dict[int, OutgoingDelivery] = {}
        self.streaming = streaming
        self.window = window
        for _, receiver in self.links:
            receiver.streaming = streaming

    def step(self, kind: str, which: int, number: int) -> None:
        sender, receiver = self.links[which]
        if kind == "send" and sender.credit > 0 and which not in self.partial:
            payload = bytes([number % 256]) * (number * 7 % 1500)
            self.sent[which].append((payload, sender.send(payload, settled=number % 5 == 0)))
        elif kind == "start" and sender.credit > 0 and which not in self.partial:
            self.partial[which] = sender.send(b"half", more=True)
        elif kind == "finish" and which in self.partial:
            delivery = self.partial.pop(which)
            sender.send_more(delivery, b"whole")
            self.sent[which].append((b"halfwhole", delivery))
        elif kind == "abort" and which in self.partial:
            sender.abort(self.partial.pop(which))
        elif kind == "flow":
            receiver.flow(number % 8)
        elif kind == "drain":
            receiver.flow(number % 4, drain=True)
        elif kind == "drained" and which not in self.partial:
            sender.drained()
        elif kind == "settle":
            self.take(which)
            for taken in self.got[which][-number - 1 :]:
                receiver.settle(taken, (ACCEPTED, RELEASED, Rejected())[number % 3])
        elif kind == "read" and self.streaming:
            self.take(which)
            for taken in self.got[which][number % 5 :]:
                self.read(taken, number % 3)
        elif kind == "run":
            self.pair.run(number + 1)
            self.weigh()
        elif kind == "one way":
            self.pair.server.receive_data(self.pair.client.data_to_send())
            self.pair.server_events += self.pair.server.events()

    def take(self, which: int) -> None:
        receiver = self.links[which][1]
        while receiver.incoming:
            self.got[which].append(receiver.incoming.popleft())

    def read(self, delivery: IncomingDelivery, most: int) -> None:
        """Take parts of a delivery that streams; its payload is not used by the engine, so it gathers there."""
        for _ in range(most):
            part = delivery.link.read(delivery)
            delivery.payload += part or b""

    def weigh(self) -> None:
        """Check that the unread transfers of a session were within its window."""
        for engine_links in (self.links[::2], self.links[1::2]):
            deliveries = [each for _, link in engine_links for each in (*link.incoming, *link.unsettled.values())]
            held = {id(each): len(each.stream.parts) for each in deliveries if self.streaming}
            assert sum(held.values()) <= self.window

    def read_all(self) -> None:
        """Until nothing comes any more: who does not read holds the others up."""
        more = True
        while more:
            self.pair.run()
            self.weigh()
            more = False
            for which, got in self.got.items():
                self.take(which)
                for each in got:
                    # A part that was read last holds its place until the next one is asked for.
                    more = more or bool(each.stream.parts) or each.stream.last_part_held
                    self.read(each, self.window + 1)
        for got in self.got.values():
            got[:] = [each for each in got if not each.stream.aborted]
            assert all(each.stream.whole for each in got)

    def check(self) -> None:
        pair = self.pair
        for which, delivery in list(self.partial.items()):
            self.step("finish", which, 0)
            assert delivery.link.attached
        pair.run()
        if self.streaming:
            self.read_all()
        for events in (pair.client_events, pair.server_events):
            assert not [event for event in events if isinstance(event, ConnectionEnded | LinkEnded)], events
        for which, (_, receiver) in enumerate(self.links):
            self.take(which)
            assert [delivery.payload for delivery in self.got[which]] == [payload for payload, _ in self.sent[which]]
            for taken in self.got[which]:
                receiver.settle(taken, ACCEPTED)
            receiver.flow(0, drain=True)
        pair.run()
        for which, (sender, receiver) in enumerate(self.links):
            assert not sender.unsettled
            assert not receiver.unsettled
            for (_, sent), got in zip(self.sent[which], self.got[which], strict=True):
                assert sent.remote_state == (got.state if not sent.local_settled or sent.remote_settled else None)
            sender.drained()
            pair.run()
            assert (sender.credit, receiver.credit) == (0, 0)
            receiver.flow(7)
            pair.run()
            assert (sender.credit, receiver.credit) == (7, 7)


KINDS = ["send", "start", "finish", "abort", "flow", "drain", "drained", "settle", "read", "run", "one way"]


@settings(max_examples=3 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 200)), max_size=60),
    frame_size=st.sampled_from([512, 700, 131_072]),
    window=st.sampled_from([1, 2, 5, 2048]),
    first_id=st.sampled_from([0, 2**31 - 2, 2**32 - 4]),
    streaming=st.booleans(),
)
@example(steps=[("send", 1, 64), ("run", 0, 0), ("read", 1, 10)], frame_size=512, window=1, first_id=0, streaming=True)
def test_two_engines_agree(
    steps: list[tuple[str, int, int]], frame_size: int, window: int, first_id: int, streaming: bool
) -> None:
    """Whatever two owners do to three links, in any order and with any delay on the wire: neither side sees a fault,
    every message arrives once, whole and in order, both sides settle all of it, and credit agrees in the end. So it is
    with links that stream, and what waits to be read on a session is never more than its window."""
    exchange = Exchange(frame_size, window, first_id, streaming)
    for kind, which, number in steps:
        exchange.step(kind, which, number)
    exchange.check()
