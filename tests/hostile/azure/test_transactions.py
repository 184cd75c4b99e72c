"""Peers of the emulated Service Bus that ask for anything at all in transactions."""

from __future__ import annotations

import random
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest

from amqp10.messaging import (
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Modified,
    Rejected,
    TransactionalState,
)
from amqp10.types import Array, Int, Symbol, Timestamp

from ...kit.counts import REQUESTS
from ...kit.hostile.service_bus_peer import LATER, NOON, WHEN, Bus, request, status, token_of


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

    @pytest.mark.parametrize("outcome", ["completed", "abandoned", "defered", "suspended", "released"])
    @pytest.mark.parametrize("begun", range(48, 60, 2))
    def test_locks_that_end_during_the_commit(self, outcome: str, begun: int) -> None:
        """A commit takes time, and is all or nothing: a lock that held when it began holds until its end."""
        bus = Coordinated()
        tokens, txn_id = [bus.locked() for _ in range(3)], bus.declare()
        assert bus.settle(txn_id, *tokens, outcome=outcome)[0] == 200
        assert bus.schedule(txn_id, b"y") == 4
        seconds = count(begun)
        bus.clock = lambda: NOON + next(seconds)  # of the 60 seconds of a lock, each look at the clock takes one
        lost = bus.discharge(txn_id)
        bus.clock = lambda: NOON + 1000
        assert lost in (None, self.LOST)
        attempts = [each.attempts for each in bus.orders.peek(0, 100) if each.sequence < 4]
        left = {"completed": [], "abandoned": [1] * 3, "defered": [1] * 3, "suspended": [], "released": [0] * 3}
        assert attempts == (left[outcome] if lost is None else [1] * 3)
        assert bus.orders.dead_letters is not None
        assert bus.orders.dead_letters.depth == (3 if lost is None and outcome == "suspended" else 0)
        assert bus.orders.count("scheduled") == (lost is None)

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
        bus.vhost.delete(bus.orders)
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
        for _ in range(REQUESTS):
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
