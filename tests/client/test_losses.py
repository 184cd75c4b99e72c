"""Losses at awkward moments: what the calls of a client say, and that none of them waits for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    ConnectionLost,
    Error,
    LinkDetached,
    LinkRestored,
    Message,
    Symbol,
    TransactionRolledBack,
)
from amqp10.broker import Broker
from amqp10.engine import CreditChanged, DeliveriesReceived, LinkAttached
from amqp10.messaging import ACCEPTED, Coordinator, Declared, Received, Source, Target
from amqp10.testing import FaultProxy

from .conftest import Peer, replace_terminus
from .hosts import QUICK, Hosts, connecting, hosting, until

pytestmark = pytest.mark.anyio


def forgetful(peer: Peer) -> None:
    """A peer that keeps nothing of a link, and says so."""
    attach = peer.attach

    def plainly(link: Any) -> None:
        remote = link.remote
        changes = {}
        for name in ("source", "target"):
            terminus = getattr(remote, name)
            if isinstance(terminus, Source | Target) and not terminus.dynamic:
                changes[name] = replace_terminus(terminus, expiry_policy="session-end", timeout=0)
        link.remote = replace(remote, **changes)
        attach(link)

    peer.attach = plainly  # type: ignore[method-assign]


async def test_manual_credit_at_a_forgetful_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was here and is the peer's again has its credit again, also where nothing can be resumed."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = forgetful
        async with connecting() as connection, connection.receiver("q", credit=0) as receiver:
            receiver.add_credit(2)
            await hosts.credit("q")
            hosts.peer.send("q", 1, 2)
            await until(lambda: receiver.buffered == 2)
            await receiver.receive()
            await hosts.cut()
            link = await hosts.link("q", of=1)
            await until(lambda: link.credit)
            assert link.credit == 1


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


async def test_the_outcome_of_a_settled_one_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent settled: nobody will ever say more, so nobody waits, though it was not written whole."""
    async with hosting(monkeypatch) as hosts:
        hosts.session_terms = replace(hosts.session_terms, incoming_window=1)
        async with connecting() as connection, connection.sender("q", settle_mode="settled") as sender:
            hosts.peer.stream.shut = True
            delivery = await sender.submit(b"x" * 300_000)
            assert not delivery.on_wire
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: sender._interrupted)
            with anyio.fail_after(1):
                assert await delivery.outcome() == ACCEPTED
            hosts.down = set()


async def test_an_attach_in_the_moment_of_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is opened later is not one that the peer has not answered since the reconnect."""
    slow = replace(QUICK, attempt_timeout=0.3)
    async with hosting(monkeypatch) as hosts, connecting(reconnect=slow) as connection, connection.sender("q"):
        await hosts.cut()
        await hosts.link("q", of=1)
        await anyio.wait_all_tasks_blocked()
        hosts.peer.answers = False
        with anyio.move_on_after(0.6):
            async with connection.sender("other"):
                pass
        assert len(hosts.peers) == 2
        hosts.peer.answer()


async def test_a_link_alone_whose_attach_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that the peer detached and does not answer any more is seen: another connection is tried."""
    slow = replace(QUICK, attempt_timeout=0.2)
    async with (
        hosting(monkeypatch) as hosts,
        connecting(reconnect=slow) as connection,
        connection.sender("q") as sender,
    ):
        link = await hosts.link("q")
        link.detach(closed=True, error=Error(Symbol("amqp:link:detach-forced")))
        hosts.peer.answers = False
        hosts.peer.pump.wake()
        await hosts.link("q", of=1)
        await sender.send("x")


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("503"), ConnectionLost("away")])
async def test_details_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A token service that is away for a while is one more reason to try again."""
    async with hosting(monkeypatch) as hosts:
        calls = 0

        async def details() -> str:
            nonlocal calls
            calls += 1
            if 1 < calls < 4:
                raise error
            return "amqp://a"

        async with connecting(details) as connection, connection.sender("q") as sender:
            await hosts.cut()
            await sender.send("x")
        assert calls == 4


async def test_a_session_that_ends_for_a_resumed_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that ends the session over what a resuming attach says gets a plain one."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            peer.outcome = None if len(hosts.peers) == 0 else ACCEPTED

            def on_event(event: Any) -> bool:
                if isinstance(event, LinkAttached) and event.link.remote and event.link.remote.unsettled is not None:
                    event.link.session.end(Error(Symbol("amqp:not-implemented"), "no resuming"))
                    return True
                return False

            peer.on_event = on_event

        hosts.prepare = prepare
        async with connecting() as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, "x")
                await until(lambda: hosts.peer.received)
                await hosts.cut()
            assert hosts.peer.bodies() == ["x"]


@pytest.mark.parametrize("how", ["leave", "give up"])
async def test_settled_waits_while_it_is_away(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Whoever waits for the settlement of a delivery hears when its link does not come back."""
    few = replace(QUICK, attempts=30)
    async with hosting(monkeypatch) as hosts, connecting(reconnect=few) as connection:
        raised: list[Any] = []
        async with anyio.create_task_group() as tasks:
            async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                await hosts.credit("q")
                hosts.peer.links["q"].auto_settle = False
                hosts.peer.send("q", "x")
                delivery = await receiver.receive()
                delivery.accept()

                async def waits() -> None:
                    try:
                        await delivery.settled()
                    except Exception as error:
                        raised.append(error)

                tasks.start_soon(waits)
                await anyio.wait_all_tasks_blocked()
                hosts.down = {"a"}
                await hosts.cut()
                await until(lambda: receiver._interrupted)
                if how == "give up":
                    await until(lambda: receiver._over)
                    with anyio.fail_after(1):
                        await until(lambda: raised)
            with anyio.fail_after(1):
                await until(lambda: raised)
        assert receiver._pending == []
        assert not receiver._hidden


async def test_drain_ends_without_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manual credit that was to be drained is not granted anew."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=0) as receiver,
    ):
        receiver.add_credit(5)
        await hosts.credit("q")
        hosts.peer.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.drain)
            await anyio.wait_all_tasks_blocked()
            await hosts.cut()
        await hosts.link("q", of=1)
        await anyio.wait_all_tasks_blocked()
        assert receiver.credit == 0
        assert hosts.peer.links["q"].credit == 0


def declaring(peer: Peer) -> None:
    """Make the peer a coordinator, too."""

    def on_event(event: Any) -> bool:
        link = getattr(event, "link", None)
        if link is None or link.remote is None or not isinstance(link.remote.target, Coordinator):
            return False
        if isinstance(event, LinkAttached):
            link.attach(replace(link.remote, initial_delivery_count=0))
            link.flow(10)
        elif isinstance(event, DeliveriesReceived):
            delivery = link.incoming.popleft()
            declares = b"\x53\x31" in delivery.payload  # the descriptor of declare
            link.settle(delivery, Declared(b"t") if declares else ACCEPTED)
        return True

    peer.on_event = on_event


async def test_a_settled_one_of_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction with a message that was sent settled and cut off rolls back, and does not wait for it."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = declaring
        hosts.session_terms = replace(hosts.session_terms, incoming_window=2)
        async with connecting() as connection, connection.sender("q", settle_mode="mixed") as sender:
            with anyio.fail_after(3), pytest.raises(TransactionRolledBack):
                async with connection.transaction() as transaction:
                    hosts.peer.stream.shut = True
                    await sender.submit(b"x" * 600_000, settled=True, transaction=transaction)
                    await hosts.cut()
                    await hosts.link("q", of=1)


async def test_an_outcome_of_a_transaction_on_a_link_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was told on a link that the peer detached since is not committed: it may not have heard of it."""
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
                    await until(lambda: receiver._generation and receiver.open)


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


def detach(hosts: Hosts, name: str, condition: str = "amqp:link:detach-forced") -> None:
    """The peer detaches one of the client's links."""
    hosts.peer.links[name].detach(closed=True, error=Error(Symbol(condition)))
    hosts.peer.pump.wake()


async def test_a_link_that_is_lost_with_messages_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the sender says why the link did not come back: no message vanishes without an exception."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.peer.outcome = None
        with pytest.raises(LinkDetached, match="unauthorized"):
            async with connection.sender("q") as sender:
                await sender.submit("x")
                await until(lambda: hosts.peers[0].received)
                hosts.prepare = lambda peer: setattr(peer, "refusal", Error(Symbol("amqp:unauthorized-access")))
                await hosts.cut()
                await until(lambda: sender._over)
                assert sender.unsettled == 1


async def test_a_link_that_is_stolen_by_its_own_ghost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attach on a connection that was lost may reach the peer late: that is no thief, and is robbed in turn."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q", name="out") as sender:

        def prepare(peer: Peer) -> None:
            if len(hosts.peers) == 1:
                peer.on_event = lambda event: isinstance(event, LinkAttached)  # which it does not answer

        hosts.prepare = prepare
        await hosts.cut()
        await until(lambda: len(hosts.peers) == 2 and sender._attaching)
        await hosts.cut()
        await until(lambda: sender.open)
        detach(hosts, "q", "amqp:link:stolen")
        await until(lambda: not sender.open)
        await sender.send("x")
        detach(hosts, "q", "amqp:link:stolen")
        with pytest.raises(LinkDetached, match="stolen"):
            while True:
                await sender.send("x")


async def test_a_link_that_was_resumed_and_then_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that had been resumed once is no less stolen for that: it is not stolen back."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        await hosts.cut()
        await hosts.link("q", of=1)
        await until(lambda: receiver.open)
        assert receiver._resuming
        detach(hosts, "q", "amqp:link:stolen")
        with pytest.raises(LinkDetached, match="stolen"):
            await receiver.receive()


async def test_a_link_that_was_resumed_and_then_detached() -> None:
    """What is unsettled is resumed the second time as well, so that exactly once stays exactly once."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy, connecting(proxy.url) as connection:
        async with connection.receiver("q", receiver_settle_mode="second") as receiver:
            events = connection.events()
            async with connection.sender("q") as sender:
                await sender.send("x")
            delivery = await receiver.receive()
            proxy.cut()
            assert (await restored(events, receiver)).resumed
            (visit,) = broker._door._visits
            engine: Any = visit._engine
            (link,) = [
                each
                for session in engine.connection._by_local_channel.values()
                for each in session._by_handle.values()
                if each.name == receiver.name
            ]
            link.detach(closed=False, error=Error(Symbol("amqp:link:detach-forced")))
            visit._pump.wake()
            assert (await restored(events, receiver)).resumed
            delivery.accept()
            await delivery.settled()


async def restored(events: Any, link: Any) -> LinkRestored:
    async for event in events:
        if isinstance(event, LinkRestored) and event.link is link:
            return event
    raise AssertionError


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


@pytest.mark.parametrize("keeps", [True, False])
async def test_attached_and_detached_in_one_breath(monkeypatch: pytest.MonkeyPatch, keeps: bool) -> None:
    """The peer's attach and its detach come together: what was to be said on the link is said on the next."""
    async with hosting(monkeypatch) as hosts:
        brief = ["sender", "receiver", "credited", "new"]

        def prepare(peer: Peer) -> None:
            peer.outcome = None if not hosts.peers else ACCEPTED
            if not keeps:
                forgetful(peer)
            attach = peer.attach

            def briefly(link: Any) -> None:
                attach(link)
                name = (link.remote.target if not link.is_sender else link.remote.source).address
                if hosts.peers[1:] and name in brief:
                    brief.remove(name)
                    link.detach(closed=False, error=Error(Symbol("amqp:link:detach-forced")))

            peer.attach = briefly  # type: ignore[method-assign]

        hosts.prepare = prepare
        async with (
            connecting() as connection,
            connection.receiver("receiver") as receiver,
            connection.receiver("credited", credit=0) as credited,
            connection.sender("sender") as sender,
        ):
            credited.add_credit(3)
            await hosts.credit("receiver")
            await hosts.credit("credited")
            hosts.peer.send("receiver", 1)
            hosts.peer.send("credited", 1)
            await until(lambda: receiver.buffered and credited.buffered)
            delivery = await sender.submit("x")
            await until(lambda: hosts.peer.received)
            await hosts.cut()
            assert await delivery.outcome() == ACCEPTED
            async with connection.receiver("new", credit=5) as new:
                await until(lambda: new.credit == 5 and receiver.credit == 100 and credited.credit == 3)
        assert brief == []


async def test_credit_for_what_is_resumed_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is lost again before its deliveries are resumed has no more credit for that."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            attach = peer.attach
            old = list(hosts.peers[0].links["q"].unsettled.values()) if hosts.peers else []

            def resuming(link: Any) -> None:
                if not old:
                    attach(link)
                elif len(hosts.peers) < 4:  # it says what it has, and goes no further
                    unsettled = {delivery.tag: None for delivery in old}
                    link.attach(replace(link.remote, unsettled=unsettled, initial_delivery_count=0))
                else:
                    link.attach(replace(link.remote, unsettled=None, initial_delivery_count=0), resuming=old)
                peer.links["q"] = link

            peer.attach = resuming  # type: ignore[method-assign]

        hosts.prepare = prepare
        async with (
            connecting() as connection,
            connection.receiver("q", credit=0, receiver_settle_mode="second") as receiver,
        ):
            receiver.add_credit(5)
            await hosts.credit("q")
            hosts.peer.send("q", 1, 2, 3)
            await until(lambda: receiver.buffered == 3)
            await receiver.receive()
            for lost in range(1, 5):
                await hosts.cut()
                await hosts.link("q", of=lost)
                await until(lambda: receiver.open)
                await hosts.credit("q")
            await until(lambda: receiver.buffered == 2)
            assert receiver.credit == 2


async def test_outcomes_are_told_before_a_session_is_left() -> None:
    """What was accepted while the connection was away is told when it is back, though its session is being left."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy, connecting(proxy.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send("x")
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await anyio.wait_all_tasks_blocked()
                proxy.refusing = False

            async with connection.session() as session:
                receiver = await session.receiver("q", receiver_settle_mode="second").__aenter__()
                delivery = await receiver.receive()
                proxy.refusing = True
                proxy.cut()
                await until(lambda: receiver._interrupted)
                delivery.accept()
                tasks.start_soon(later)
        await until(lambda: broker.queue("q").dequeued == 1)
        assert broker.queue("q").depth == 0


async def test_leaving_with_an_outcome_out_and_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time is over and there is no connection, leaving says why: the loss."""
    async with hosting(monkeypatch) as hosts, connecting(close_timeout=0.1) as connection:
        hosts.peer.outcome = None
        with pytest.raises(ConnectionLost):
            async with connection.sender("q") as sender:
                await sender.submit("x")
                hosts.down = {"a"}
                await hosts.cut()
                await until(lambda: sender._interrupted)


async def test_what_is_resumed_comes_before_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries that nobody took keep their place, though new ones come in the same pass; and none is too many."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            attach = peer.attach
            old = list(hosts.peer.links["q"].unsettled.values()) if hosts.peers else []

            def resuming(link: Any) -> None:
                if old:
                    link.attach(replace(link.remote, unsettled=None, initial_delivery_count=0), resuming=old)
                    peer.links["q"] = link
                else:
                    attach(link)

            def on_event(event: Any) -> bool:
                if old and isinstance(event, CreditChanged) and not sent:
                    sent.append(event)
                    peer.send("q", 3, 4)
                return False

            peer.attach = resuming  # type: ignore[method-assign]
            peer.on_event = on_event

        sent: list[Any] = []
        hosts.prepare = prepare
        async with (
            connecting() as connection,
            connection.receiver("q", credit=4, receiver_settle_mode="second") as receiver,
        ):
            await hosts.credit("q")
            hosts.peer.send("q", 0, 1, 2)
            await until(lambda: receiver.buffered == 3)
            await hosts.cut()
            await until(lambda: receiver.open and receiver.buffered)
            assert receiver.credit + receiver.buffered <= 4
            bodies = [(await receiver.receive()).message.body for _ in range(4)]
            assert bodies == [0, 1, 2, 3]


@pytest.mark.parametrize("credit", [0, 4])
async def test_a_delivery_that_is_resumed_only_to_be_aborted(monkeypatch: pytest.MonkeyPatch, credit: int) -> None:
    """What came of it is thrown away; the credit that it took twice is there for others, after the next loss, too."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            attach = peer.attach
            old = list(hosts.peer.links["q"].suspended()) if hosts.peers else []

            def resuming(link: Any) -> None:
                if old:
                    old[0].state = Received(9, 9)
                    link.attach(replace(link.remote, unsettled=None, initial_delivery_count=0), resuming=old)
                    peer.links["q"] = link
                else:
                    attach(link)

            peer.attach = resuming  # type: ignore[method-assign]

        hosts.prepare = prepare
        async with connecting() as connection, connection.receiver("q", credit=credit) as receiver:
            if not credit:
                receiver.add_credit(4)
            await hosts.credit("q")
            half = hosts.peer.links["q"].send(b"never whole", more=True)
            half.past |= 2  # as if the rest had been on the wire
            hosts.peer.pump.wake()
            await until(lambda: receiver.credit == 3)
            for _ in range(2):
                await hosts.cut()
                await until(lambda: receiver.open)
                await anyio.wait_all_tasks_blocked()
                spare = receiver._taken if credit else 0
                assert receiver.credit + spare == 4
                assert receiver.credit == hosts.peer.links["q"].credit
            assert not receiver.unsettled
