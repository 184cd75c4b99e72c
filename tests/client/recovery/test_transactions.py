"""Transactions and requests that a loss catches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    DeliveryUncertain,
    Error,
    LinkRestored,
    LocalProtocolError,
    Message,
    Symbol,
    TransactionInDoubt,
    TransactionRolledBack,
)
from amqp10.broker import Broker
from amqp10.messaging import ACCEPTED
from amqp10.testing import FaultProxy

from ...kit.client.coordinating import declaring
from ...kit.client.hosts import connecting, detach, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def test_a_transaction_is_rolled_back() -> None:
    """A loss before the commit: nothing of it happened, work in it is refused, and nothing of it is sent again."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with connecting(proxy.url) as connection, connection.sender("q") as sender:
            events = connection.events()
            with pytest.raises(TransactionRolledBack):
                async with connection.transaction() as transaction:
                    await sender.send("in it", transaction=transaction)
                    proxy.cut()
                    while type(await anext(events)) is not LinkRestored:
                        pass
                    await sender.submit("too late", transaction=transaction)
            await sender.send("outside")
            async with connection.receiver("q") as receiver:
                assert (await receiver.receive()).message.body == "outside"
                assert await receiver.receive_batch(1, max_wait=0.05) == []


async def test_a_transaction_is_in_doubt() -> None:
    """A loss after the commit was asked for: it is not known what became of it, and said so."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy, connecting(proxy.url) as connection:
        async with anyio.create_task_group() as tasks:
            passed = proxy.passed["up"]

            async def breaker() -> None:
                await until(lambda: proxy.passed["up"] > passed)
                proxy.cut()

            with pytest.raises(TransactionInDoubt):
                async with connection.transaction():
                    proxy.stall("down")
                    passed = proxy.passed["up"]
                    tasks.start_soon(breaker)
            proxy.resume()
        async with connection.transaction(), connection.sender("q") as sender:
            await sender.send("on it goes")


@pytest.mark.parametrize("on_lost", ["resend", "raise"])
async def test_requests(monkeypatch: pytest.MonkeyPatch, on_lost: Any) -> None:
    """A request whose reply can come no more is sent again with the new address, or raises."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "dynamic", f"replies-{len(hosts.peers)}")
        async with connecting() as connection, connection.requester("service", on_lost=on_lost) as requester:
            answer: list[Any] = []

            async def ask() -> None:
                try:
                    answer.append((await requester.request("ping")).body)
                except DeliveryUncertain:
                    answer.append("uncertain")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await until(lambda: hosts.peer.received)
                await hosts.cut()
                await hosts.link("replies-1", of=1)
                if on_lost == "resend":
                    await until(lambda: hosts.peer.received)
                    request = Message.decode(hosts.peer.received[0])
                    reply = Message("pong", correlation_id=request.correlation_id)
                    hosts.peer.send("replies-1", reply.encode())
            assert answer == ["pong" if on_lost == "resend" else "uncertain"]
            assert len(hosts.peer.received) == (on_lost == "resend")
            assert requester.pending == 0


async def test_requests_of_one_id_during_a_loss() -> None:
    """Of two that begin while the link is away, the second is told so, and the first has its reply."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy, connecting(proxy.url) as connection:
        async with connection.responder("service") as responder, connection.requester("service") as requester:
            told: list[object] = []

            async def ask() -> None:
                try:
                    told.append((await requester.request(Message("ping", correlation_id="same"))).body)
                except LocalProtocolError:
                    told.append("in use")

            async with anyio.create_task_group() as tasks:
                proxy.refusing = True
                proxy.cut()
                await until(lambda: not requester.replies.open)
                for _ in range(2):
                    tasks.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                proxy.refusing = False
                await (await responder.receive()).reply("pong")
            assert told == ["in use", "pong"]


async def test_a_settled_one_of_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction with a message that was sent settled and cut off rolls back, and does not wait for it."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = declaring
        hosts.session_terms = replace(hosts.session_terms, incoming_window=2)
        async with connecting() as connection, connection.sender("q", settle_mode="mixed") as sender:
            with anyio.fail_after(60), pytest.raises(TransactionRolledBack):
                async with connection.transaction() as transaction:
                    hosts.peer.stream.shut = True
                    await sender.submit(b"x" * 600_000, settled=True, transaction=transaction)
                    await hosts.cut()
                    await hosts.link("q", of=1)


async def test_an_outcome_of_a_transaction_on_a_link_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on a link that the peer has detached is not committed, because the peer may not have received it."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = declaring
        async with connecting() as connection, connection.receiver("q") as receiver:
            await hosts.credit("q")
            hosts.peer.send("q", "x")
            delivery = await receiver.receive()
            with pytest.raises(TransactionRolledBack):
                async with connection.transaction() as transaction:
                    delivery.accept(transaction=transaction)
                    detach(hosts, "q")
                    await until(lambda: receiver._core.generation and receiver.open)


@pytest.mark.parametrize("alone", [False, True])
async def test_what_a_transaction_acquires_is_lost_with_the_link(monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    """Nothing comes outside of a transaction that the program believes to be part of it; who waits for it is told."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = declaring
        async with connecting() as connection, connection.receiver("q", credit=0) as receiver:
            with pytest.raises(TransactionRolledBack):
                async with connection.transaction() as transaction, anyio.create_task_group() as tasks:
                    receiver.add_credit(5, transaction=transaction)

                    async def lose() -> None:
                        await anyio.wait_all_tasks_blocked()
                        if alone:
                            detach(hosts, "q")
                        else:
                            await hosts.cut()

                    tasks.start_soon(lose)
                    try:
                        await receiver.receive()
                    except TransactionRolledBack:
                        raised = True
            assert raised
            await until(lambda: receiver.open)
            assert receiver.credit == 0
            receiver.add_credit(1)
            await hosts.credit("q")
            hosts.peer.send("q", "x")
            (await receiver.receive()).accept()


@pytest.mark.parametrize("alone", [False, True])
async def test_a_request_whose_reply_address_stands(monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    """A request that was on its way when its link was lost is sent again, where the replies still come."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", None)
        async with connecting() as connection, connection.requester("service", reply_to="replies") as requester:
            answer: list[Any] = []

            async def ask() -> None:
                answer.append((await requester.request("ping")).body)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await until(lambda: hosts.peer.received)
                if alone:
                    hosts.peer.links["service"].detach(closed=True, error=Error(Symbol("amqp:link:detach-forced")))
                    hosts.peer.received.clear()
                    hosts.peer.pump.wake()
                else:
                    await hosts.cut()
                    await hosts.link("replies", of=1)
                await until(lambda: hosts.peer.received)
                request = Message.decode(hosts.peer.received[0])
                await hosts.credit("replies")
                hosts.peer.send("replies", Message("pong", correlation_id=request.correlation_id).encode())
            assert answer == ["pong"]


@pytest.mark.parametrize(
    ("lost", "accepted"),
    [("service", False), ("replies", False), ("replies", True), ("all", False), ("all", True)],
)
async def test_a_request_in_a_transaction(monkeypatch: pytest.MonkeyPatch, lost: str, accepted: bool) -> None:
    """A loss before its reply raises, and it is not sent again, for its work might be done twice."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            declaring(peer)
            peer.outcome = ACCEPTED if accepted else None

        hosts.prepare = prepare
        async with connecting() as connection, connection.requester("service", reply_to="replies") as requester:

            async def lose() -> None:
                await until(lambda: hosts.peer.received)
                hosts.peer.received.clear()
                if lost == "all":
                    await hosts.cut()
                else:
                    detach(hosts, lost)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lose)
                with pytest.raises((DeliveryUncertain, TransactionRolledBack)):
                    async with connection.transaction() as transaction:
                        await requester.request("ping", transaction=transaction)
            await until(lambda: requester.sender.open and requester.replies.open)
            assert transaction.state == "rolled-back"
            assert hosts.peer.received == []
            assert requester.pending == 0


async def test_a_request_is_sent_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replies' link comes back before the requests' one: the request goes out once, with the new address."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "dynamic", f"replies-{len(hosts.peers)}")
        async with connecting() as connection, connection.requester("service") as requester:
            hosts.peer.outcome = None
            answer: list[Any] = []

            async def ask() -> None:
                answer.append((await requester.request("ping")).body)

            def slowly(peer: Peer) -> None:
                peer.dynamic = "replies-1"
                attach = peer.attach
                held: list[Any] = []

                def late(link: Any) -> None:
                    if link.is_sender or release.is_set():
                        attach(link)
                    else:
                        held.append(link)

                peer.attach = late  # type: ignore[method-assign]
                hosts.late = lambda: [attach(link) for link in held]  # type: ignore[attr-defined]

            release = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await until(lambda: hosts.peer.received)
                hosts.prepare = slowly
                await hosts.cut()
                await hosts.link("replies-1", of=1)
                await until(lambda: requester.replies.open)
                await anyio.wait_all_tasks_blocked()
                hosts.late()  # type: ignore[attr-defined]
                hosts.peer.pump.wake()
                await until(lambda: hosts.peer.received)
                await anyio.wait_all_tasks_blocked()
                requests = [Message.decode(each) for each in hosts.peer.received]
                assert [request.reply_to for request in requests] == ["replies-1"]
                hosts.peer.send("replies-1", Message("pong", correlation_id=requests[0].correlation_id).encode())
            assert answer == ["pong"]
