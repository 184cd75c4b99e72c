"""Peers of the emulated Service Bus that ask for anything at all, or for more than is good."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest

from amqp10.broker import BrokerLimits
from amqp10.broker.azure import AzureConfig, CorrelationRuleFilter, Rule, SqlRuleFilter, SubscriptionConfig, TopicConfig
from amqp10.errors import EncodeError
from amqp10.messaging import (
    Accepted,
    AmqpValue,
    Coordinator,
    Data,
    Declare,
    Declared,
    Discharge,
    Error,
    Message,
    Modified,
    Rejected,
    Source,
    TransactionalState,
)
from amqp10.types import Array, Decimal32, Described, Int, Symbol, UInt

from ...kit.broker.wire import Wire
from ...kit.counts import REQUESTS
from ...kit.hostile.odd_messages import MESSAGES
from ...kit.hostile.service_bus_peer import LATER, NOON, ODD, SESSION, WHEN, Bus, request, status, token_of
from ...kit.inside.broker import (
    BATCH_FORMAT,
    MAX_ADDED_PROPERTIES,
    MAX_IN_BATCH,
    MAX_OCTETS,
    MAX_REASON_LENGTH,
    Namespace,
    NamespaceLinks,
    Rights,
    VirtualHostCore,
    remembered,
)

FIELDS = (
    *("lock-tokens", "from-sequence-number", "message-count", "messages", "sequence-numbers"),
    *("receiver-settle-mode", "disposition-status", "properties-to-modify", "deadletter-reason"),
)


def sound(dice: random.Random, tokens: list[UUID]) -> tuple[str, dict[Any, Any]]:
    """An operation and a body as SDKs write it."""
    outcome = dice.choice(["completed", "abandoned", "defered", "suspended", "released"])
    message = Message(b"x", message_annotations={WHEN: LATER}).encode()
    choices: list[tuple[str, dict[Any, Any]]] = [
        ("renew-lock", {"lock-tokens": Array("uuid", tokens)}),
        ("peek-message", {"from-sequence-number": dice.choice([0, 2**63 - 1]), "message-count": Int(3)}),
        ("schedule-message", {"messages": [{"message": changed(dice, message), "message-id": "a"}]}),
        ("cancel-scheduled-message", {"sequence-numbers": Array("long", [1, -(2**63)])}),
        ("receive-by-sequence-number", {"sequence-numbers": Array("long", [1]), "receiver-settle-mode": UInt(1)}),
        ("update-disposition", {"disposition-status": outcome, "lock-tokens": Array("uuid", tokens)}),
    ]
    return dice.choice(choices)


def changed(dice: random.Random, payload: bytes) -> bytes:
    """Some octets of it are others, mostly."""
    octets = bytearray(payload)
    for _ in range(dice.choice([0, 0, 1, 3])):
        octets[dice.randrange(len(octets))] = dice.randrange(256)
    return bytes(octets[: dice.choice([None, None, None, dice.randrange(len(octets))])])


def mutated(dice: random.Random, tokens: list[UUID]) -> bytes:
    operation, body = sound(dice, tokens)
    match dice.randrange(5):
        case 0 | 1:
            body[dice.choice(FIELDS)] = dice.choice(ODD)
        case 2:
            del body[dice.choice(list(body))]
        case 3 if dice.random() < 0.3:
            return request(operation, dice.choice(ODD))
    payload = request(operation, body, **({"type": dice.choice(ODD[:9])} if dice.random() < 0.05 else {}))
    return changed(dice, payload) if dice.random() < 0.3 else payload


def test_any_request() -> None:
    """Each request has an answer with a status, or is rejected with a reason; the connection goes on."""
    dice, seen = random.Random(22), Counter[Any]()
    bus = Bus()
    links, tokens = bus.pair(), [uuid4()]
    for number in range(REQUESTS):
        if number % 5 == 0:
            bus.send(changed(dice, Message(b"x", message_annotations={WHEN: LATER, Symbol("z"): 1}).encode()))
            tokens = [*map(token_of, bus.received()), uuid4()][: dice.choice([1, 2])]
        answer = bus.ask(links, mutated(dice, tokens))
        seen[status(answer) if isinstance(answer, Message) else "rejected"] += 1
    assert {200, 400, 404, 410, 501, "rejected"} <= set(seen) <= {200, 204, 400, 404, 410, 501, "rejected"}
    assert bus.send(Message(b"whole")) == Accepted()


def test_any_request_of_hubs() -> None:
    """So has each request to the node that tells of event hubs."""
    dice, seen = random.Random(22), Counter[Any]()
    bus = Bus()
    requests, responses = bus.send_to("$management"), bus.receive_from("$management", credit=10_000, name="answers")
    asked = ("operation", "type", "name", "partition", "security_token")
    for _ in range(REQUESTS):
        kind = dice.choice(["com.microsoft:eventhub", "com.microsoft:partition"])
        said: dict[str, Any] = {"operation": "READ", "type": kind, "name": "telemetry", "partition": "0"}
        for _ in range(dice.choice([0, 1, 1, 2])):
            name = dice.choice(asked)
            said[name] = dice.choice([each for each in ODD if is_simple(each)])
        if dice.random() < 0.2:
            del said[dice.choice(list(said))]
        payload = Message(AmqpValue(dice.choice(ODD)), message_id=1, application_properties=said).encode()
        answer = bus.ask((requests, responses), changed(dice, payload) if dice.random() < 0.4 else payload)
        if isinstance(answer, Message):
            assert answer.application_properties["status-description"]
            seen[answer.application_properties["status-code"]] += 1
        else:
            seen["rejected"] += 1
    assert {200, 400, 404, 501, "rejected"} <= set(seen) <= {200, 400, 404, 501, "rejected"}


def is_simple(value: Any) -> bool:
    """Return whether an application property can have it."""
    return not isinstance(value, list | dict | Array | Described)


def test_signalling_numbers() -> None:
    """A number that raises when it is compared is no number."""
    bus = Bus()
    body = {"sequence-numbers": Array("long", [1]), "receiver-settle-mode": Decimal32("sNaN")}
    assert status(bus.do("receive-by-sequence-number", body)) == 400


def test_locks_of_others() -> None:
    """A lock token is known to who received the message, and to nobody else: peeking does not show it."""
    bus = Bus()
    bus.send(Message(b"x"))
    token = token_of(bus.received()[0])
    [peeked] = bus.do("peek-message", {"from-sequence-number": 0, "message-count": 10}).body["messages"]
    assert token.bytes not in peeked["message"]
    assert token.bytes_le not in peeked["message"]
    guesses = Array("uuid", [UUID(int=token.int ^ 1), UUID(int=0)])
    assert status(bus.do("update-disposition", {"disposition-status": "completed", "lock-tokens": guesses})) == 410
    assert bus.orders.depth == 1


class TestSchedule:
    """Messages that come by a request are admitted as those that come on a link."""

    def ask(self, bus: Bus, message: Message, count: int = 1) -> Message:
        message.message_annotations = {WHEN: LATER}
        return bus.do("schedule-message", {"messages": [{"message": message.encode()}] * count})

    def test_duplicates(self) -> None:
        """A dropped duplicate has a number that no message has, so who cancels it takes no other message away."""
        bus = Bus()

        def schedule(message_id: str) -> int:
            payload = Message(b"x", message_id=message_id, message_annotations={WHEN: LATER}).encode()
            answer = bus.do("schedule-message", {"messages": [{"message": payload}]})
            return int(answer.body["sequence-numbers"][0])

        assert [schedule(each) for each in "aba"] == [1, 2, 3]
        assert status(bus.do("cancel-scheduled-message", {"sequence-numbers": Array("long", [3])})) == 404
        assert bus.orders.count("scheduled") == 2

    def test_room(self) -> None:
        """A full queue takes none, and one that has no room for all of them takes none either."""
        bus = Bus(messages=10)
        assert status(self.ask(bus, Message(b"x"), 8)) == 200
        assert status(self.ask(bus, Message(b"x"), 8)) == 403
        assert bus.orders.depth == 8

    def test_memory(self) -> None:
        """While senders are stopped, requests bring nothing in."""
        bus = Bus()
        bus.vhost.admission.block("test", "stopped")
        assert status(self.ask(bus, Message(b"x"))) == 403
        bus.vhost.admission.block("test", None)
        assert status(self.ask(bus, Message(b"x"))) == 200

    def test_user_id(self) -> None:
        """A message says no more there of who sent it than on a link."""
        bus = Bus(users=True)
        bus.peer.rights = Rights("bob", administrator=False)
        assert status(self.ask(bus, Message(b"x", user_id=b"ann"))) == 401
        assert status(self.ask(bus, Message(b"x"))) == 200


class TestBounds:
    """What a peer can make many of."""

    @pytest.mark.parametrize("address", ["orders", "orders/$management"])
    def test_links(self, address: str) -> None:
        """Links to entities and their nodes count as all others."""
        bus = Bus(peers=BrokerLimits(links=3))
        links = [bus.receive_from(address, name=str(number)) for number in range(5)]
        assert [link.attached for link in links] == [True, True, True, False, False]
        assert bus.refusal().condition == "amqp:resource-limit-exceeded"

    def test_batch(self) -> None:
        """A batch of very many messages is refused before they are made."""
        bus, tiny = Bus(), Message(AmqpValue(None)).encode()
        assert bus.send(Message(Data(*[tiny] * 10)), BATCH_FORMAT) == Accepted()
        refused = bus.send(Message(Data(*[tiny] * (MAX_IN_BATCH + 1))), BATCH_FORMAT)
        assert refused.error.condition == "amqp:decode-error"
        assert bus.orders.depth == 10

    def test_answers(self) -> None:
        """Who asks, and takes no answer, is refused further ones; when the link ends, there is room again."""
        bus = Bus()
        requests, responses = bus.pair(credit=0)
        payload = Message(AmqpValue({}), message_id=b"i" * 300_000, application_properties={"operation": "x"}).encode()
        states = []
        for _ in range(6):
            delivery = requests.send(payload)
            bus.turn()
            states.append(delivery.remote_state)
        assert [type(state) for state in states] == [*[Accepted] * 4, Rejected, Rejected]
        assert bus.peer.unread_octets < MAX_OCTETS + len(payload)
        responses.detach(closed=True)
        bus.turn()
        assert bus.peer.unread_octets == 0

    def test_peek(self) -> None:
        """An answer has about a mebibyte of messages; the rest is asked for from behind the last."""
        bus = Bus()
        for _ in range(5):
            bus.send(Message(bytes(400_000)))
        wanted = {"from-sequence-number": 0, "message-count": 1000}
        assert len(bus.do("peek-message", wanted).body["messages"]) == 2

    def test_reasons(self) -> None:
        """What is said with an outcome is bounded: one request may say it of a thousand messages."""
        bus = Bus()
        for _ in range(2):
            bus.send(Message(b"x"))
        first, second = map(token_of, bus.received(2))
        many = {f"k{number}": 1 for number in range(101)}
        for token, said in ((first, {"deadletter-reason": "r" * 100_000}), (second, {"properties-to-modify": many})):
            body = {"disposition-status": "suspended", "lock-tokens": Array("uuid", [token]), **said}
            assert status(bus.do("update-disposition", body)) == (200 if token is first else 400)
        assert bus.orders.depth == 1
        assert bus.orders.dead_letters is not None
        assert bus.orders.dead_letters.bytes < 2 * MAX_REASON_LENGTH

    @pytest.mark.parametrize("begun", range(48, 60))
    def test_locks_that_end_during_a_request(self, begun: int) -> None:
        """A request takes time, and settles all of its messages or none."""
        bus = Bus()
        for _ in range(3):
            bus.send(Message(b"x"))
        body = {"disposition-status": "completed", "lock-tokens": Array("uuid", map(token_of, bus.received(3)))}
        seconds = count(begun)
        bus.clock = lambda: NOON + next(seconds)  # of the 60 seconds of a lock, each look at the clock takes one
        code = status(bus.do("update-disposition", body))
        assert (code, bus.orders.depth) in ((200, 0), (410, 3))

    def test_growing(self) -> None:
        """A message that is put aside again and again does not grow for ever."""
        bus = Bus()
        bus.send(Message(b"x"))
        token = token_of(bus.received()[0])
        for number in range(5):
            bus.orders.defer(token, {f"k{number}": "v" * 30_000})
            [(found, _)] = bus.orders.receive([1], locks=True)
            assert found is not None
            token = found
        assert 30_000 < bus.orders.bytes < MAX_ADDED_PROPERTIES + 1000
        with pytest.raises(EncodeError):
            Message(application_properties={"a": [1]}).encode()
        bus.orders.defer(token, {"a": [1]})
        assert bus.orders.bytes < MAX_ADDED_PROPERTIES + 1000

    def test_annotations(self) -> None:
        """Annotations take memory, too."""
        bus = Bus(bytes=100_000)
        assert bus.send(Message(b"x", message_annotations={Symbol("x-a"): "v" * 200_000})) == Accepted()
        assert bus.orders.bytes > 200_000
        assert bus.orders.free <= 0

    def test_ids(self) -> None:
        """Long ids are remembered by their hashes, and so many at most."""
        bus = Bus()
        for number in range(3):
            bus.send(Message(b"x", message_id=b"%d" % number + b"i" * 10_000))
        assert bus.orders.depth == 3
        assert bus.send(Message(b"x", message_id=b"2" + b"i" * 10_000)) == Accepted()
        assert bus.orders.depth == 3
        assert remembered("i" * 10_000) == remembered("i" * 10_000) != remembered("j" * 10_000)
        assert len(str(remembered("i" * 10_000))) < 300

    def test_small_receivers(self) -> None:
        """A receiver that takes smaller messages than there are ends, rather than have all of them looked at."""
        bus = Bus()
        bus.send(Message(b"x"))
        link = bus.receive_from("orders", credit=1, max_message_size=10)
        assert not link.attached
        assert bus.refusal().condition == "amqp:link:message-size-exceeded"
        assert len(bus.received()) == 1


class TestSpellings:
    """Who may not use a queue may not by another spelling of its name."""

    ALL = ("orders", "ORDERS", "sb://any.host/Orders", "/queues/oRders", "queue://ORDERS")

    @pytest.mark.parametrize("address", ALL)
    def test_permissions(self, address: str) -> None:
        bus = Bus()
        bus.peer.rights = Rights("bob", allows=lambda action, name: name != "orders", administrator=False)
        anonymous = bus.send_to(None, name="anonymous", source=Source())
        assert not bus.send_to(address).attached
        assert not bus.receive_from(address).attached
        if anonymous.attached:
            delivery = anonymous.send(Message(b"x", to=address).encode())
            bus.turn()
            assert isinstance(delivery.remote_state, Rejected)
            assert delivery.remote_state.error is not None
            assert delivery.remote_state.error.condition == "amqp:unauthorized-access"
        assert bus.orders.depth == 0

    @pytest.mark.parametrize("address", ALL)
    def test_found(self, address: str) -> None:
        """All of them lead to the queue, to send and to receive."""
        bus = Bus()
        assert bus.send_to(address).attached
        assert bus.receive_from(address).attached
        assert not bus.over


def test_settling_with_anything() -> None:
    """Outcomes that say odd things are answered, each by an outcome."""
    bus = Bus()
    for number, value in enumerate(ODD):
        said = {Symbol("DeadLetterReason"): value, Symbol("k"): value}
        states = (Modified(True, False, said), Modified(True, True, said), Rejected(Error(Symbol("x"), None, said)))
        bus.send(Message(b"x"))
        link = bus.receive_from("orders", credit=1, name=str(number))
        [delivery] = link.incoming
        link.settle(delivery, states[number % 3])
        bus.turn()
        assert not bus.over
        link.detach(closed=True)
        for each in bus.received():
            bus.orders.complete(token_of(each))


class TestTopics:
    """Messages that nobody expected, through topics with rules of all kinds, sessions and transactions."""

    def peers(self) -> Callable[[], Wire]:
        """Peers of one broker with a topic, as many as are asked for."""
        conditions = {
            "text": "x = 1 OR sys.Label LIKE '%a%' OR x IS NULL OR NOT x > 2 OR x IN (1, 'a')",
            "sums": "x + 1 > 2 OR -x < 3 OR sys.EnqueuedTimeUtc = x OR sys.SequenceNumber > x",
        }
        action = "SET x = x + 1; SET seen = newid(); REMOVE y"
        topic = TopicConfig(
            "events",
            [
                "all",
                SubscriptionConfig("sql", rules=[Rule(name, SqlRuleFilter(text)) for name, text in conditions.items()]),
                SubscriptionConfig("changed", rules=[Rule("changing", SqlRuleFilter("1 = 1"), action)]),
                SubscriptionConfig("label", rules=[Rule("label", CorrelationRuleFilter(label="victim"))]),
                SubscriptionConfig(
                    "failing", rules=[Rule("x", SqlRuleFilter("x * 2 > y / x"))], dead_letter_filter_errors=True
                ),
                SubscriptionConfig("steps", requires_session=True),
                SubscriptionConfig("onward", forward_to="orders"),
            ],
            duplicate_window=60.0,
        )
        vhost = VirtualHostCore(clock=lambda: 0.0)
        namespace = Namespace(AzureConfig(["orders"], [topic], clock=lambda: NOON), vhost)
        return lambda: Wire(vhost, service=partial(NamespaceLinks, namespace))

    @pytest.mark.parametrize("in_transactions", [False, True])
    def test_any_message(self, caplog: pytest.LogCaptureFixture, in_transactions: bool) -> None:
        """Each is taken or rejected, a victim's behind it comes to all whom it is for, and nothing raised."""
        connect = self.peers()
        peer, victim = connect(), connect()
        coordinator = peer.send_to(Coordinator())
        for number, (payload, message_format) in enumerate(MESSAGES.values()):
            for each in {message_format, BATCH_FORMAT}:
                link = peer.send_to("events", name=f"{number}-{each}")
                state = None
                if in_transactions:
                    declared = coordinator.send(Message(AmqpValue(Declare())).encode())
                    peer.turn()
                    assert isinstance(declared.remote_state, Declared)
                    state = TransactionalState(declared.remote_state.txn_id)
                delivery = link.send(payload, message_format=each, state=state)
                peer.turn()
                if state is not None:
                    coordinator.send(Message(AmqpValue(Discharge(state.txn_id, False))).encode())
                    peer.turn()
                assert delivery.remote_state is not None
                assert not peer.over
                link.detach(closed=True)
                peer.turn()
        fields: dict[str, Any] = {"subject": "victim", "application_properties": {"x": 1, "y": 1}, "group_id": "a"}
        sent = victim.send_to("events").send(Message(b"victim", **fields).encode())
        victim.turn()
        assert sent.remote_state == Accepted()
        session = Source("events/Subscriptions/steps", filter={SESSION: Described(SESSION, "a")})
        names = ("all", "sql", "changed", "label", "failing")
        for source in (*(f"events/Subscriptions/{name}" for name in names), session, "orders"):
            taken = victim.receive_from(source, credit=1000, name=str(source)).incoming
            assert b"victim" in taken[-1].payload
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
