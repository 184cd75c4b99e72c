"""Peers of the emulated Service Bus that ask for anything at all, or for more than is good."""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from amqp10.broker._limits import BrokerLimits
from amqp10.broker._queues.duplicates import remembered
from amqp10.broker._queues.node import Limits
from amqp10.broker._requests.answers import MOST_OCTETS
from amqp10.broker._router import Router
from amqp10.broker._users.users import Rights
from amqp10.broker.azure import (
    AzureConfig,
    CorrelationFilter,
    QueueConfig,
    Rule,
    SqlFilter,
    SubscriptionConfig,
    TopicConfig,
)
from amqp10.broker.azure._links import NamespaceLinks
from amqp10.broker.azure._messages import BATCH_FORMAT, MOST_IN_BATCH, MOST_SAID
from amqp10.broker.azure._namespace import Namespace
from amqp10.broker.azure._service_bus.entity import LONGEST_REASON, Entity
from amqp10.engine import ReceiverLink, SenderLink
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
from amqp10.types import Array, Decimal32, Described, Int, Symbol, Timestamp, UInt, ULong

from ..broker.links.test_one_message import MESSAGES
from ..broker.wire import Wire

COUNT = min(3000, int(os.environ.get("AMQP10_CONVERSATIONS", "200")))
"""Requests; `make nightly` has more."""
NOON = 1_790_000_000.0
WHEN = Symbol("x-opt-scheduled-enqueue-time")
SESSION = Symbol("com.microsoft:session-filter")
LATER = Timestamp(int(NOON + 3600) * 1000)


class Bus(Wire):
    """A peer of a broker with the queue "orders"."""

    def __init__(self, *, users: bool = False, peers: BrokerLimits | None = None, **settings: Any) -> None:
        config = QueueConfig("orders", max_delivery_count=3, dead_letter_expired=True, duplicate_window=60.0)
        limits = Limits(**settings)
        router = Router(clock=lambda: 0.0, limits=limits, check_user_id=users, peers=peers or BrokerLimits())
        namespace = Namespace(AzureConfig([config, "open"], event_hubs=["telemetry"], clock=lambda: NOON), router)
        super().__init__(router, service=partial(NamespaceLinks, namespace, 1_000_000))
        found = namespace.find("orders")
        assert found is not None
        self.orders: Entity = found

    def pair(self, credit: int = 10_000) -> tuple[SenderLink, ReceiverLink]:
        """Links to the management node, and back."""
        responses = self.receive_from("orders/$management", credit=credit, name="answers")
        return self.send_to("orders/$management"), responses

    def ask(self, links: tuple[SenderLink, ReceiverLink], payload: bytes) -> Message | Rejected:
        """The answer to a request, or why there is none."""
        requests, responses = links
        delivery = requests.send(payload)
        self.turn()
        assert not self.over
        if responses.incoming:
            return Message.decode(responses.incoming.popleft().payload)
        assert isinstance(delivery.remote_state, Rejected)
        return delivery.remote_state

    def do(self, operation: str, body: Any) -> Message:
        """The answer to one request on links of its own."""
        links = self.pair()
        answer = self.ask(links, request(operation, body))
        for link in links:
            link.detach(closed=True)
        self.turn()
        assert isinstance(answer, Message)
        return answer

    def send(self, message: Message | bytes, message_format: int = 0) -> Any:
        """The outcome of a message for the queue."""
        link = self.send_to("orders", name=f"sender-{uuid4()}")
        payload = message if isinstance(message, bytes) else message.encode()
        delivery = link.send(payload, message_format=message_format)
        self.turn()
        link.detach(closed=True)
        self.turn()
        return delivery.remote_state

    def received(self, count: int = 1) -> list[Any]:
        """What is received, and stays locked."""
        link = self.receive_from("orders", credit=count, name=f"receiver-{uuid4()}")
        taken = list(link.incoming)
        link.detach(closed=True)
        self.turn()
        return taken


def request(operation: str, body: Any, **said: Any) -> bytes:
    properties = {"operation": f"com.microsoft:{operation}", **said}
    return Message(AmqpValue(body), message_id=1, application_properties=properties).encode()


def status(answer: Message) -> int:
    code = answer.application_properties["statusCode"]
    assert isinstance(code, int)
    assert answer.application_properties["statusDescription"]
    return int(code)


def token_of(delivery: Any) -> UUID:
    return UUID(bytes_le=delivery.tag)


ODD: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**63 - 1, -(2**63), ULong(2**64 - 1), 1.5, float("nan"), float("inf")),
    *(Decimal32("sNaN"), b"", b"x" * 300, "", "x" * 300, "\0", Symbol("a"), uuid4(), Timestamp(2**63 - 1)),
    *(Timestamp(-(2**63)), [], [None], {}, {"a": 1}, {1: [2]}, Array("long", [1, 2]), Array("uuid", [])),
    *(Described(ULong(0x24), []), [[[[[]]]]]),
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
    for number in range(COUNT):
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
    for _ in range(COUNT):
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

    def test_room(self) -> None:
        """A full queue takes none, and one that has no room for all of them takes none either."""
        bus = Bus(messages=10)
        assert status(self.ask(bus, Message(b"x"), 8)) == 200
        assert status(self.ask(bus, Message(b"x"), 8)) == 403
        assert bus.orders.depth == 8

    def test_memory(self) -> None:
        """While senders are stopped, requests bring nothing in."""
        bus = Bus()
        bus.router.block("test", "stopped")
        assert status(self.ask(bus, Message(b"x"))) == 403
        bus.router.block("test", None)
        assert status(self.ask(bus, Message(b"x"))) == 200

    def test_user_id(self) -> None:
        """A message says no more there of who sent it than on a link."""
        bus = Bus(users=True)
        bus.peer.rights = Rights("bob", administrator=False)
        assert status(self.ask(bus, Message(b"x", user_id=b"ann"))) == 401
        assert status(self.ask(bus, Message(b"x"))) == 200


class Coordinated(Bus):
    """A peer with a coordinator, and links to the management node."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.links = self.pair()
        self.coordinator = self.send_to(Coordinator(), name="coordinator")

    def declare(self) -> bytes:
        """The id of a new transaction."""
        delivery = self.coordinator.send(Message(AmqpValue(Declare())).encode())
        self.turn()
        assert isinstance(delivery.remote_state, Declared)
        return delivery.remote_state.txn_id

    def discharge(self, txn_id: bytes, *, fail: bool = False) -> Any:
        """What became of its end: None where it was accepted, else the condition."""
        delivery = self.coordinator.send(Message(AmqpValue(Discharge(txn_id, fail))).encode())
        self.turn()
        state: Any = delivery.remote_state
        return None if state == Accepted() else state.error.condition

    def do(self, operation: str, body: Any) -> Message:
        answer = self.ask(self.links, request(operation, body))
        assert isinstance(answer, Message)
        return answer

    def work(self, txn_id: Any, operation: str, body: Any, *, settled: bool = True) -> tuple[int, Any]:
        """The status of a request in a transaction, and its condition or the body of its answer."""
        requests, responses = self.links
        requests.send(request(operation, body), settled=settled, state=TransactionalState(txn_id))
        self.turn()
        assert not self.over
        [answer] = [Message.decode(each.payload) for each in responses.incoming]
        responses.incoming.clear()
        code = status(answer)
        return code, answer.body if code == 200 else answer.application_properties["errorCondition"]

    def settle(self, txn_id: Any, *tokens: UUID, outcome: str = "completed") -> tuple[int, Any]:
        body = {"disposition-status": outcome, "lock-tokens": Array("uuid", list(tokens))}
        return self.work(txn_id, "update-disposition", body)

    def schedule(self, txn_id: Any, body: object, **fields: Any) -> Any:
        """The number of a message that is scheduled in a transaction, or the condition of its refusal."""
        fields.setdefault("message_annotations", {WHEN: LATER})
        code, found = self.work(
            txn_id, "schedule-message", {"messages": [{"message": Message(body, **fields).encode()}]}
        )
        return found["sequence-numbers"][0] if code == 200 else found

    def locked(self) -> UUID:
        """The token of a new message that is locked."""
        self.send(Message(b"x"))
        return token_of(self.received()[0])

    def states(self) -> list[tuple[int, str]]:
        """The numbers and states of all messages."""
        return [(each.sequence, each.state) for each in self.orders.peek(0, 100)]


class TestTransactions:
    """Requests that are part of transactions, sensible ones and others."""

    LOST = "com.microsoft:message-lock-lost"
    UNKNOWN = "amqp:transaction:unknown-id"

    @pytest.mark.parametrize("settled", [True, False])
    def test_schedule(self, settled: bool) -> None:
        """The number is told at once; the message is there under it after the commit, and never after a rollback."""
        bus = Coordinated()
        body = {"messages": [{"message": Message(b"x", message_annotations={WHEN: LATER}).encode()}] * 2}
        kept, dropped = bus.declare(), bus.declare()
        assert bus.work(kept, "schedule-message", body, settled=settled)[1] == {"sequence-numbers": [1, 2]}
        assert bus.schedule(dropped, b"y") == 3
        bus.send(Message(b"z"))
        assert (bus.states(), bus.orders.reserved) == ([(4, "active")], 3)
        assert (bus.discharge(dropped, fail=True), bus.discharge(kept)) == (None, None)
        assert bus.states() == [(1, "scheduled"), (2, "scheduled"), (4, "active")]
        assert (bus.orders.reserved, bus.orders.reserved_bytes) == (0, 0)
        bus.orders.cancel([1, 2])
        bus.send(Message(b"last"))
        assert bus.states() == [(4, "active"), (5, "active")]

    def test_schedule_for_a_time_that_is_over(self) -> None:
        """What is due when the transaction is committed is behind what came before."""
        bus = Coordinated()
        txn_id = bus.declare()
        assert bus.schedule(txn_id, b"x", message_annotations={WHEN: Timestamp(int(NOON) * 1000)}) == 1
        bus.send(Message(b"y"))
        assert bus.discharge(txn_id) is None
        assert bus.states() == [(2, "active"), (3, "active")]
        assert bus.orders.peek(3, 1)[0].origin_sequence == 1

    def test_schedule_a_duplicate(self) -> None:
        """A message that came by another way meanwhile is dropped at the commit."""
        bus = Coordinated()
        txn_id = bus.declare()
        assert bus.schedule(txn_id, b"x", message_id="once") == 1
        bus.send(Message(b"x", message_id="once"))
        assert bus.discharge(txn_id) is None
        assert (bus.states(), bus.orders.duplicates) == ([(2, "active")], 1)

    def test_room(self) -> None:
        """What is kept for open transactions counts."""
        bus = Coordinated(messages=2)
        txn_id = bus.declare()
        assert [bus.schedule(txn_id, b"x") for _ in range(3)] == [1, 2, "amqp:resource-limit-exceeded"]
        assert bus.discharge(txn_id, fail=True) is None
        assert bus.schedule(bus.declare(), b"x") == 3

    @pytest.mark.parametrize("outcome", ["completed", "abandoned", "defered", "suspended", "released"])
    def test_settle(self, outcome: str) -> None:
        """An outcome counts with the commit; until then, and after a rollback, the message stays locked."""
        bus = Coordinated()
        token, dropped, kept = bus.locked(), bus.declare(), bus.declare()
        dead = bus.orders.dead_letters
        assert dead is not None
        assert bus.settle(dropped, token, outcome=outcome)[0] == 200
        assert bus.discharge(dropped, fail=True) is None
        assert bus.settle(kept, token, outcome=outcome)[0] == 200
        assert (bus.states(), bus.received()) == ([(1, "active")], [])
        assert bus.discharge(kept) is None
        left = {"completed": [], "suspended": [], "defered": [(1, "deferred")]}.get(outcome, [(1, "active")])
        assert (bus.states(), dead.depth) == (left, int(outcome == "suspended"))
        assert bus.settle(bus.declare(), token) == (410, self.LOST)

    def test_settled_elsewhere(self) -> None:
        """What a transaction has is settled by no link, no other request, no other transaction, until that is over."""
        bus = Coordinated()
        bus.send(Message(b"x"))
        link = bus.receive_from("orders", credit=1, name="receiver")
        [delivery] = link.incoming
        token, txn_id, other = token_of(delivery), bus.declare(), bus.declare()
        plain = {"disposition-status": "abandoned", "lock-tokens": Array("uuid", [token])}
        assert bus.settle(txn_id, token)[0] == 200
        assert bus.settle(other, token) == (403, "amqp:not-allowed")
        assert status(bus.do("update-disposition", plain)) == 403
        assert status(bus.do("renew-lock", {"lock-tokens": Array("uuid", [token])})) == 200
        link.settle(delivery, Modified(True, False))
        bus.turn()
        assert bus.orders.peek(1, 1)[0].attempts == 0
        assert bus.discharge(txn_id, fail=True) is None
        assert status(bus.do("update-disposition", plain)) == 200
        assert bus.orders.peek(1, 1)[0].attempts == 1
        assert bus.discharge(other) is None

    def test_all_or_none(self) -> None:
        """If one lock of a request is lost, the others are free for anybody."""
        bus = Coordinated()
        token, txn_id = bus.locked(), bus.declare()
        assert bus.settle(txn_id, token, uuid4()) == (410, self.LOST)
        bus.orders.complete(token)
        assert bus.discharge(txn_id) is None

    def test_settle_twice(self) -> None:
        """The last outcome counts that is named in the transaction, by a request or on a link (§4.4.2)."""
        bus = Coordinated()
        for names in (["abandoned", "completed"], ["completed", "abandoned", "link"]):
            bus.send(Message(b"x"))
            link = bus.receive_from("orders", credit=1, name=str(names))
            [delivery] = link.incoming
            txn_id = bus.declare()
            for name in names:
                if name == "link":
                    link.settle(delivery, TransactionalState(txn_id, Accepted()))
                    bus.turn()
                else:
                    assert bus.settle(txn_id, token_of(delivery), token_of(delivery), outcome=name)[0] == 200
            assert bus.discharge(txn_id) is None
            assert bus.states() == []

    def test_a_lock_that_ends(self) -> None:
        """The commit is refused, and nothing of the transaction happens; the message comes again."""
        bus = Coordinated()
        token, txn_id = bus.locked(), bus.declare()
        assert bus.settle(txn_id, token)[0] == 200
        assert bus.schedule(txn_id, b"y") == 2
        bus.orders.lose_locks()
        assert bus.discharge(txn_id) == self.LOST
        assert (bus.states(), bus.orders.reserved) == ([(1, "active")], 0)
        assert len(bus.received()) == 1

    def test_an_outcome_that_a_link_names_too_late(self) -> None:
        """The transaction cannot be committed, for its peer need not wait for the answer."""
        bus = Coordinated()
        bus.send(Message(b"x"))
        link = bus.receive_from("orders", credit=1, name="receiver")
        [delivery] = link.incoming
        bus.orders.lose_locks()
        txn_id = bus.declare()
        link.settle(delivery, TransactionalState(txn_id, Accepted()))
        assert bus.discharge(txn_id) == self.LOST
        assert bus.states() == [(1, "active")]

    def test_an_outcome_that_says_too_much(self) -> None:
        """It is refused when it is named: at the commit it would be too late."""
        bus = Coordinated()
        bus.send(Message(b"x"))
        link = bus.receive_from("orders", credit=1, name="receiver")
        [delivery] = link.incoming
        many = {Symbol(f"k{number}"): 1 for number in range(101)}
        txn_id = bus.declare()
        link.settle(delivery, TransactionalState(txn_id, Modified(True, False, many)))
        assert bus.discharge(txn_id) == "com.microsoft:argument-error"
        bus.orders.complete(token_of(delivery))

    def test_the_link_of_a_message_is_gone(self) -> None:
        """That is why it is settled by a request."""
        bus = Coordinated()
        token, txn_id = bus.locked(), bus.declare()
        assert bus.settle(txn_id, token)[0] == 200
        for link in bus.links:
            link.detach(closed=True)
        bus.turn()
        assert bus.discharge(txn_id) is None
        assert bus.states() == []

    def test_the_coordinator_is_gone(self) -> None:
        """All is rolled back, and what comes for the transaction then is refused."""
        bus = Coordinated()
        token, txn_id = bus.locked(), bus.declare()
        assert bus.settle(txn_id, token)[0] == 200
        assert bus.schedule(txn_id, b"y") == 2
        bus.coordinator.detach(closed=True)
        bus.turn()
        assert (bus.states(), bus.orders.reserved) == ([(1, "active")], 0)
        assert bus.schedule(txn_id, b"z") == self.UNKNOWN
        bus.orders.complete(token)

    def test_the_entity_is_gone(self) -> None:
        """The commit is refused."""
        bus = Coordinated()
        first, second, token = bus.declare(), bus.declare(), bus.locked()
        assert bus.schedule(first, b"x") == 2
        assert bus.settle(second, token)[0] == 200
        bus.router.delete(bus.orders)
        assert bus.discharge(first) == "amqp:transaction:rollback"
        assert bus.discharge(second) == self.LOST

    @pytest.mark.parametrize("txn_id", [b"", b"unknown", b"x" * 300])
    @pytest.mark.parametrize("settled", [True, False])
    def test_unknown(self, txn_id: bytes, settled: bool) -> None:
        """The answer says so, whether the request was sent settled or not; and nothing is done."""
        bus = Coordinated()
        body = {"disposition-status": "completed", "lock-tokens": Array("uuid", [bus.locked()])}
        assert bus.work(txn_id, "update-disposition", body, settled=settled) == (400, self.UNKNOWN)
        assert bus.schedule(txn_id, b"x") == self.UNKNOWN
        assert bus.states() == [(1, "active")]

    def test_over(self) -> None:
        """A transaction that was committed, or rolled back, takes no more."""
        bus = Coordinated()
        for fail in (True, False):
            txn_id = bus.declare()
            assert bus.discharge(txn_id, fail=fail) is None
            assert bus.schedule(txn_id, b"x") == self.UNKNOWN
        assert bus.states() == []

    @pytest.mark.parametrize(
        "operation",
        ["cancel-scheduled-message", "set-session-state", "batch-delete-messages", "receive-by-sequence-number"],
    )
    def test_other_operations(self, operation: str) -> None:
        """They are refused, for no rollback undoes them, and the transaction goes on."""
        bus = Coordinated()
        txn_id = bus.declare()
        assert bus.work(txn_id, operation, {}) == (501, "amqp:not-implemented")
        assert bus.schedule(txn_id, b"x") == 1
        assert bus.discharge(txn_id) is None
        assert bus.states() == [(1, "scheduled")]

    @pytest.mark.parametrize("fail", [False, True])
    def test_nothing_to_undo(self, fail: bool) -> None:
        """A lock is renewed, and messages are peeked at, in a transaction, too; however that ends."""
        bus = Coordinated()
        token, txn_id = bus.locked(), bus.declare()
        assert bus.work(txn_id, "renew-lock", {"lock-tokens": Array("uuid", [token])})[0] == 200
        assert bus.work(txn_id, "peek-message", {"from-sequence-number": 0, "message-count": Int(1)})[0] == 200
        assert bus.discharge(txn_id, fail=fail) is None
        bus.orders.complete(token)
        assert bus.work(txn_id, "renew-lock", {"lock-tokens": Array("uuid", [token])}) == (400, self.UNKNOWN)

    def test_a_request_that_is_not_taken(self) -> None:
        """Where its sender does not hear of it, the transaction cannot be committed; else it hears."""
        bus = Coordinated()
        requests, _ = bus.links
        for settled, condition in ((True, "amqp:decode-error"), (False, None)):
            txn_id = bus.declare()
            delivery = requests.send(b"no message", settled=settled, state=TransactionalState(txn_id))
            assert bus.discharge(txn_id) == condition
            assert isinstance(delivery.remote_state, Rejected) is not settled

    @pytest.mark.parametrize("fail", [False, True])
    def test_a_request_in_part(self, fail: bool) -> None:
        """A transaction cannot be discharged before it is whole: the coordinator ends, with a rollback (§4.4.1)."""
        bus = Coordinated()
        requests, _ = bus.links
        token, txn_id = bus.locked(), bus.declare()
        assert bus.settle(txn_id, token)[0] == 200
        body = {"messages": [{"message": Message(b"x", message_annotations={WHEN: LATER}).encode()}]}
        payload = request("schedule-message", body)
        delivery = requests.send(payload[:50], state=TransactionalState(txn_id), more=True)
        bus.turn()
        bus.coordinator.send(Message(AmqpValue(Discharge(txn_id, fail))).encode())
        bus.turn()
        assert not bus.coordinator.attached
        requests.send_more(delivery, payload[50:])
        bus.turn()
        bus.orders.complete(token)
        assert bus.states() == []

    def test_event_hubs(self) -> None:
        """They have no transactions, and say so."""
        bus = Coordinated()
        bus.links = (bus.send_to("$management"), bus.receive_from("$management", credit=10, name="hub answers"))
        txn_id = bus.declare()
        said = {"operation": "READ", "type": "com.microsoft:eventhub", "name": "telemetry"}
        payload = Message(AmqpValue({}), message_id=1, application_properties=said).encode()
        bus.links[0].send(payload, settled=True, state=TransactionalState(txn_id))
        bus.turn()
        [answer] = bus.links[1].incoming
        assert Message.decode(answer.payload).application_properties["status-code"] == 501

    def test_random_work(self) -> None:
        """Whatever is done in which transaction: what is committed is done, and no lock or room stays behind."""
        dice = random.Random(22)
        bus = Coordinated()
        opened: list[bytes] = []
        tokens: list[UUID] = []
        for _ in range(COUNT):
            match dice.randrange(5):
                case 0:
                    opened.append(bus.declare())
                case 1:
                    tokens.append(bus.locked())
                case 2 if opened:
                    chosen = dice.sample(tokens, min(len(tokens), 2)) or [uuid4()]
                    outcome = dice.choice(["completed", "abandoned", "defered", "suspended", "released"])
                    assert bus.settle(dice.choice(opened), *chosen, outcome=outcome)[0] in (200, 403, 410)
                case 3 if opened:
                    assert isinstance(bus.schedule(dice.choice(opened), b"x"), int)
                case 4 if opened:
                    ended = opened.pop(dice.randrange(len(opened)))
                    assert bus.discharge(ended, fail=dice.random() < 0.5) in (None, self.LOST)
        for each in opened:
            bus.discharge(each, fail=True)
        assert (bus.orders.reserved, bus.orders.reserved_bytes) == (0, 0)
        bus.orders.lose_locks()
        assert len(bus.received(1000)) == bus.orders.count("active")


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
        refused = bus.send(Message(Data(*[tiny] * (MOST_IN_BATCH + 1))), BATCH_FORMAT)
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
        assert bus.peer.unread_octets < MOST_OCTETS + len(payload)
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
        assert bus.orders.dead_letters.bytes < 2 * LONGEST_REASON

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
        assert 30_000 < bus.orders.bytes < MOST_SAID + 1000
        with pytest.raises(EncodeError):
            Message(application_properties={"a": [1]}).encode()
        bus.orders.defer(token, {"a": [1]})
        assert bus.orders.bytes < MOST_SAID + 1000

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
                SubscriptionConfig("sql", rules=[Rule(name, SqlFilter(text)) for name, text in conditions.items()]),
                SubscriptionConfig("changed", rules=[Rule("changing", SqlFilter("1 = 1"), action)]),
                SubscriptionConfig("label", rules=[Rule("label", CorrelationFilter(label="victim"))]),
                SubscriptionConfig(
                    "failing", rules=[Rule("x", SqlFilter("x * 2 > y / x"))], dead_letter_filter_errors=True
                ),
                SubscriptionConfig("steps", requires_session=True),
                SubscriptionConfig("onward", forward_to="orders"),
            ],
            duplicate_window=60.0,
        )
        router = Router(clock=lambda: 0.0, limits=Limits())
        namespace = Namespace(AzureConfig(["orders"], [topic], clock=lambda: NOON), router)
        return lambda: Wire(router, service=partial(NamespaceLinks, namespace, 1_000_000))

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
