"""Transactions that are not discharged in time: nobody holds messages, or room in a queue, for ever."""

from __future__ import annotations

import math

import pytest

from amqp10.broker import Broker
from amqp10.dialects.v0_9.wire.methods import BasicAck, BasicCancel, BasicConsume, TxSelect
from amqp10.errors import TransactionRolledBack
from amqp10.messaging import ACCEPTED, Declare, Rejected, TransactionalState

from ...kit.broker.controller import Controller, controller, ended, stock
from ...kit.broker.older_clients import Client09
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.clock import Clock
from ...kit.inside.broker import VirtualHostCore, VirtualHostSettings, coordinator

TIMEOUT = "amqp:transaction:timeout"


@pytest.fixture
def vhost(clock: Clock) -> VirtualHostCore:
    """A vhost whose transactions have 60 seconds."""
    return VirtualHostCore(VirtualHostSettings(transaction_timeout=60), clock=clock)


@pytest.fixture
def wire(vhost: VirtualHostCore) -> Wire:
    """A client of it."""
    return Wire(vhost)


@pytest.fixture
def control(wire: Wire) -> Controller:
    """A control link, attached."""
    return controller(wire)


def passes(wire: Wire, clock: Clock, seconds: float) -> float | None:
    """Let time pass; when the broker is to look again."""
    clock.now += seconds
    deadline = wire.vhost.expire()
    wire.vhost.flush()
    wire.turn()
    return deadline


def refused(state: object) -> str | None:
    """The condition of a rejection."""
    return str(state.error.condition) if isinstance(state, Rejected) and state.error is not None else None


@pytest.mark.spec("4.5.8", "a transaction that took too long is over: amqp:transaction:timeout")
def test_too_long(wire: Wire, control: Controller, clock: Clock) -> None:
    """What it held is free again; the commit is refused with the reason, and the link lives on."""
    sender = stock(wire, "old")
    txn_id = control.declare()
    receiver = wire.receive_from("q", credit=1)
    control.retire(receiver.incoming.popleft(), txn_id)
    control.post(sender, "never", txn_id)
    assert passes(wire, clock, 59) == clock.now + 1
    assert queue_of(wire.vhost, "q").reserved > 0
    assert passes(wire, clock, 1) is None
    assert queue_of(wire.vhost, "q").reserved == 0
    receiver.flow(1)
    wire.turn()
    assert bodies(receiver) == ["old"]
    assert refused(control.discharge(txn_id)) == TIMEOUT
    assert control.discharge(control.declare()) == ACCEPTED


def test_rolled_back_after_that(wire: Wire, control: Controller, clock: Clock) -> None:
    """Who wanted a rollback has it."""
    txn_id = control.declare()
    passes(wire, clock, 60)
    assert control.discharge(txn_id, fail=True) == ACCEPTED
    assert wire.peer.transactions == {}


def test_acquired(wire: Wire, control: Controller, clock: Clock) -> None:
    """What was acquired in it comes again, outside of it."""
    stock(wire, 1)
    receiver = wire.receive_from("q")
    control.acquire(receiver, 2, control.declare())
    assert isinstance(receiver.incoming.popleft().remote_state, TransactionalState)
    passes(wire, clock, 60)
    assert [delivery.remote_state for delivery in receiver.incoming] == [None]


def test_work_comes_too_late(wire: Wire, control: Controller, clock: Clock) -> None:
    """A message for it is rejected, an outcome in it ends its link: neither counts."""
    sender = stock(wire, 1)
    txn_id = control.declare()
    receiver = wire.receive_from("q", credit=1)
    passes(wire, clock, 60)
    posted = control.post(sender, "never", txn_id)
    assert isinstance(posted.remote_state, Rejected)
    control.retire(receiver.incoming.popleft(), txn_id)
    assert ended(wire, receiver) is not None
    assert queue_of(wire.vhost, "q").depth == 1


def test_each_has_its_own_time(wire: Wire, control: Controller, clock: Clock) -> None:
    """Those that were discharged, or whose link ended, are not waited for; a younger one goes on."""
    first, second = control.declare(), control.declare()
    other = controller(wire, "other")
    other.declare()
    assert control.discharge(first) == ACCEPTED
    other.link.detach(closed=True)
    passes(wire, clock, 30)
    third = control.declare()
    assert passes(wire, clock, 30) == clock.now + 30
    assert refused(control.discharge(second)) == TIMEOUT
    assert control.discharge(third) == ACCEPTED
    assert passes(wire, clock, 30) is None


def test_a_limit_of_its_own(wire: Wire, control: Controller, clock: Clock) -> None:
    """One may have less time than the others, or less than that, or none of its own again."""
    short, shorter, freed, other = (control.declare() for _ in range(4))
    limits = wire.vhost.transactions
    for txn_id, seconds in ((short, 20), (shorter, 30), (freed, 10), (shorter, 5), (freed, 0)):
        limits.limit(wire.peer.transactions[txn_id], seconds)
    assert passes(wire, clock, 5) == clock.now + 15
    assert refused(control.discharge(shorter)) == TIMEOUT
    assert passes(wire, clock, 15) == clock.now + 40
    assert refused(control.discharge(short)) == TIMEOUT
    assert control.discharge(freed) == control.discharge(other) == ACCEPTED
    assert passes(wire, clock, 100) is None


def test_they_count_until_they_are_discharged(
    wire: Wire, control: Controller, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that only ever declares does not fill the broker with what it is to be told."""
    monkeypatch.setattr(coordinator, "MAX_TRANSACTIONS", 2)
    control.declare()
    control.declare()
    passes(wire, clock, 60)
    assert refused(control.say(Declare()).remote_state) == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize("cancels", [False, True])
def test_acks_of_0_9_1(vhost: VirtualHostCore, clock: Clock, cancels: bool) -> None:
    """An ack in a transaction that took too long ends the consumer: all that it had comes back, acked or not."""
    stock(Wire(vhost), 1, 2, 3)
    client = Client09(vhost)
    client.do(TxSelect(), BasicConsume(queue="q", consumer_tag="c"))
    client.do(BasicAck(1))
    queue = queue_of(vhost, "q")
    assert (len(client.messages), queue.unsettled) == (3, 3)
    clock.now += 61
    vhost.expire()
    assert queue.unsettled == 3
    client.do(*([BasicCancel("c")] if cancels else []), BasicAck(2))
    assert (queue.depth, queue.unsettled) == (3, 0)
    client.messages.clear()
    client.do(BasicConsume(queue="q", consumer_tag="again"))
    assert (len(client.messages), queue.unsettled) == (3, 3)


@pytest.mark.anyio
async def test_a_client_that_waits_too_long() -> None:
    """The message comes again by itself; the client is told at the commit that nothing happened, and why."""
    async with Broker(transaction_timeout=1000) as broker, broker.connect() as connection:
        async with connection.sender("q") as sender, connection.receiver("q", credit=1) as receiver:
            await sender.send("task")
            delivery = await receiver.receive()
            with pytest.raises(TransactionRolledBack) as raised:
                async with connection.transaction() as transaction:
                    await sender.send("result", transaction=transaction)
                    delivery.accept(transaction=transaction)
                    await sender.send("of the transaction, too", transaction=transaction)  # the accept came before it
                    broker._hosts.usual.transactions.expire(math.inf)
                    broker._hosts.usual.flush()
                    again = await receiver.receive()
            assert raised.value.condition == TIMEOUT
            assert (again.message.body, again.message.delivery_count) == ("task", 1)
            again.accept()
        assert broker.queue("q").depth == 0


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_no_time_at_all(timeout: float) -> None:
    """It would never let a transaction through."""
    with pytest.raises(ValueError, match="transaction_timeout"):
        Broker(transaction_timeout=timeout)
