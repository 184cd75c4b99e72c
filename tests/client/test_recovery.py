"""What each call does when the connection, the session or the link is lost and comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    ConnectionLost,
    ConnectionRestored,
    DeliveryUncertain,
    Error,
    LinkDetached,
    LinkInterrupted,
    LinkRestored,
    Message,
    Reconnect,
    StaleDelivery,
    Symbol,
    TransactionInDoubt,
    TransactionRolledBack,
)
from amqp10.broker import Broker
from amqp10.engine import LinkAttached, LinkEnded
from amqp10.messaging import ACCEPTED, Accepted, Released
from amqp10.testing import FaultProxy

from .hosts import QUICK, Hosts, connecting, hosting, until

pytestmark = pytest.mark.anyio

RAISING = replace(QUICK, on_uncertain="raise")


def forced(condition: str = "amqp:link:detach-forced") -> Error:
    return Error(Symbol(condition), "away with you")


# Sending


async def test_send_waits_for_credit_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """`send` that has no credit goes on waiting, and is sent once on the new link."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.prepare = lambda peer: setattr(peer, "credit", 100)
        hosts.peer.links["q"].flow(0)
        hosts.peer.credit = 0
        hosts.peer.pump.wake()
        async with anyio.create_task_group() as tasks:
            await until(lambda: not (sender.credit))
            for body in range(3):
                tasks.start_soon(sender.send, body)
                await anyio.wait_all_tasks_blocked()
            await hosts.cut()
        assert hosts.peers[0].bodies() == []
        assert sorted(hosts.peers[1].bodies()) == [0, 1, 2]


async def test_send_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `send` that begins when there is no connection waits for the next one."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.down = {"a"}
        await hosts.cut()
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.send, "x")
            await anyio.wait_all_tasks_blocked()
            assert not sender.open
            hosts.down = set()
        assert hosts.peer.bodies() == ["x"]


async def test_in_flight_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without an outcome is sent again, ahead of newer ones; the same delivery gets its outcome."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting() as connection, connection.sender("q") as sender:
            first, second = await sender.submit(1), await sender.submit(2)
            await until(lambda: len(hosts.peer.received) >= 2)
            await hosts.cut()
            await anyio.wait_all_tasks_blocked()
            third = await sender.submit(3)
            assert [type(await each.outcome()) for each in (first, second, third)] == [Accepted] * 3
            assert sender.unsettled == 0
        assert hosts.peers[1].bodies() == [1, 2, 3]


async def test_in_flight_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_uncertain="raise" who waits is told, nothing is sent twice, and the sender goes on."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting(reconnect=RAISING) as connection, connection.sender("q") as sender:
            delivery = await sender.submit(1)
            await until(lambda: hosts.peer.received)
            await hosts.cut()
            with pytest.raises(DeliveryUncertain) as caught:
                await delivery.outcome()
            assert isinstance(caught.value.__cause__, ConnectionLost)
            await sender.send(2)
        assert hosts.peers[1].bodies() == [2]


async def test_what_never_left_whole_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the session's window held back, in part or whole, was not processed: it is sent, whatever the policy."""
    async with hosting(monkeypatch) as hosts:
        hosts.session_terms = replace(hosts.session_terms, incoming_window=1)
        async with connecting(reconnect=RAISING) as connection, connection.sender("q") as sender:
            hosts.peer.stream.shut = True  # no new window from the peer
            first = await sender.submit(b"x" * 300_000)  # more than one frame
            hosts.session_terms = replace(hosts.session_terms, incoming_window=1000)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, "second")
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()
            assert type(await first.outcome()) is Accepted
        assert hosts.peers[1].bodies() == [b"x" * 300_000, "second"]


async def test_an_uncertain_one_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the sender says it: no message vanishes without an exception."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting(reconnect=RAISING) as connection:
            with pytest.raises(DeliveryUncertain):
                async with connection.sender("q") as sender:
                    await sender.submit(1)
                    await until(lambda: hosts.peer.received)
                    await hosts.cut()
                    await sender.send(2)


async def test_send_many_through_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All get there, each of them at least once, and the count is right."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        async with anyio.create_task_group() as tasks:

            async def breaker() -> None:
                for _ in range(5):
                    for _ in range(20):
                        await anyio.lowlevel.checkpoint()
                    await hosts.cut()
                    await until(lambda: connection.open)

            tasks.start_soon(breaker)
            assert await sender.send_many(range(5000), window=100) == 5000
        bodies = [body for peer in hosts.peers for body in peer.bodies()]
        assert set(bodies) == set(range(5000))


async def test_send_many_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_uncertain="raise" it ends with the first that is uncertain, and the account of all."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting(reconnect=RAISING) as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:

                async def breaker() -> None:
                    await until(lambda: len(hosts.peer.received) >= 10)
                    await hosts.cut()

                tasks.start_soon(breaker)
                with pytest.raises(DeliveryUncertain) as caught:
                    await sender.send_many(range(20), window=10)
            assert "10 messages sent, 0 accepted, 10 not accepted" in caught.value.__notes__[0]


async def test_leaving_waits_for_outcomes_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that is being left when the connection breaks gets its outcomes on the next one."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting() as connection:
            async with anyio.create_task_group() as tasks:
                async with connection.sender("q") as sender:
                    delivery = await sender.submit(1)

                    async def breaker() -> None:
                        await until(lambda: hosts.peer.received)
                        await hosts.cut()

                    tasks.start_soon(breaker)
            assert type(await delivery.outcome()) is Accepted
        assert hosts.peers[1].bodies() == [1]


async def test_a_stream_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose body is under way is not sent again: its writer is told, and the sender goes on."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        with pytest.raises(ConnectionLost):
            async with sender.stream() as body:
                await body.send(b"x" * 1000)
                await hosts.cut()
                await until(lambda: not (not connection.open or hosts.asked == ["a"]))
                await body.send(b"y")
        await sender.send("next")
        assert hosts.peers[1].bodies() == ["next"]


# Receiving


async def test_receive_waits_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """`receive` goes on waiting; the credit is granted anew."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=7) as receiver,
    ):
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()
                link = await hosts.link("q", of=1)
                await until(lambda: link.credit == 7)
                await hosts.credit("q")
                hosts.peer.send("q", "hello")

            tasks.start_soon(later)
            delivery = await receiver.receive()
        assert delivery.message.body == "hello"
        delivery.accept()


async def test_prefetched_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited here unsettled is the peer's again after a loss; what was sent settled is ours and stays."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q", settle_mode="mixed") as receiver:
            await hosts.credit("q")
            hosts.peer.send("q", "gone")
            await hosts.credit("q")
            hosts.peer.send("q", "ours", settled=True)
            await until(lambda: receiver.buffered >= 2)
            await hosts.cut()
            await hosts.link("q", of=1)
            await anyio.wait_all_tasks_blocked()
            await hosts.credit("q")
            hosts.peer.send("q", "new")
            assert [(await receiver.receive()).message.body for _ in range(2)] == ["ours", "new"]


@pytest.mark.parametrize("on_stale", ["raise", "ignore"])
async def test_a_delivery_from_before(monkeypatch: pytest.MonkeyPatch, on_stale: Any) -> None:
    """An outcome for a delivery that the peer has again raises `StaleDelivery`, at once and later, or is ignored."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=replace(QUICK, on_stale=on_stale), profile="rabbitmq") as connection:
            async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                await hosts.credit("q")
                hosts.peer.send("q", 1, 2)
                first, second = await receiver.receive(), await receiver.receive()
                first.accept()
                await hosts.cut()
                with pytest.raises(StaleDelivery) as caught:
                    await first.settled()
                assert isinstance(caught.value.__cause__, ConnectionLost)
                if on_stale == "ignore":
                    second.release()
                else:
                    for settle in (second.accept, second.release, second.reject, second.modify):
                        with pytest.raises(StaleDelivery):
                            settle()
                    with second:  # says nothing of it where the block has raised
                        second.state = Released()
                await hosts.link("q", of=1)
                await anyio.wait_all_tasks_blocked()
                assert hosts.peers[1].outcomes == []


async def test_manual_credit_is_granted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as was out, what was here and is the peer's again, and what was added meanwhile."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=0) as receiver,
    ):
        receiver.add_credit(5)
        link = hosts.peer.links["q"]
        await until(lambda: link.credit >= 5)
        await hosts.credit("q")
        hosts.peer.send("q", 1, 2)
        await receiver.receive()  # the other one nobody takes
        hosts.down = {"a"}
        await hosts.cut()
        await until(lambda: receiver._interrupted)
        receiver.add_credit(10)
        hosts.down = set()
        link = await hosts.link("q", of=1)
        await until(lambda: link.credit)
        assert link.credit == 3 + 1 + 10


async def test_drain_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain that the loss cuts off is over: there is no credit any more."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        hosts.peer.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.drain)
            await anyio.wait_all_tasks_blocked()
            await hosts.cut()
        await hosts.link("q", of=1)
        await hosts.credit("q")
        hosts.peer.send("q", "x")
        assert (await receiver.receive()).message.body == "x"


async def test_a_batch_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """`receive_batch` collects on; what it had collected unsettled is the peer's again."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await hosts.credit("q")
                hosts.peer.send("q", "before")
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()
                await hosts.link("q", of=1)
                await anyio.wait_all_tasks_blocked()
                await hosts.credit("q")
                hosts.peer.send("q", "before", "after")

            tasks.start_soon(later)
            batch = await receiver.receive_batch(2, max_wait=5)
        assert [delivery.message.body for delivery in batch] == ["before", "after"]
        for delivery in batch:
            delivery.accept()


# Links alone


async def test_a_link_that_is_detached_comes_back_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle link that the peer detaches is attached again, on the same connection, with its credit."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q", credit=9) as receiver, connection.sender("other") as other:
            events = connection.events()
            old = hosts.peer.links.pop("q")
            old.detach(error=forced())
            hosts.peer.pump.wake()
            assert isinstance(await anext(events), LinkInterrupted)
            restored = await anext(events)
            assert isinstance(restored, LinkRestored)
            assert restored.link is receiver
            assert not restored.resumed
            link = await hosts.link("q")
            await until(lambda: link.credit == 9)
            await hosts.credit("q")
            hosts.peer.send("q", "x")
            (await receiver.receive()).accept()
            await other.send("y")
        assert hosts.asked == ["a"]


async def test_a_queue_that_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the node is not there the link is refused, and tried again; then it goes on."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        refused = 0

        def count(event: Any) -> bool:
            nonlocal refused
            if isinstance(event, LinkAttached):
                refused += 1
                if refused == 3:
                    hosts.peer.refusal = None
            return False

        hosts.peer.on_event = count
        hosts.peer.refusal = forced("amqp:not-found")
        hosts.peer.links["q"].detach(error=forced("amqp:resource-deleted"))
        hosts.peer.pump.wake()
        await sender.send("x")
        assert refused == 3
        assert sender._failures == 3  # each pause was longer than the one before
        assert hosts.peer.bodies() == ["x"]


async def test_a_link_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the attempts are used up the link is over, with the peer's last word; the others are not concerned."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=replace(QUICK, attempts=2)) as connection, connection.sender("other") as other:
            async with connection.receiver("q") as receiver:
                hosts.peer.refusal = forced("amqp:not-found")
                hosts.peer.links["q"].detach(error=forced())
                hosts.peer.pump.wake()
                with pytest.raises(LinkDetached, match="not-found"):
                    await receiver.receive()
            await other.send("x")


@pytest.mark.parametrize("condition", ["amqp:link:stolen", "amqp:unauthorized-access", "amqp:not-allowed"])
async def test_a_link_that_shall_not_come_back(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    """A link that was stolen is not stolen back; what is forbidden stays so."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        hosts.peer.links["q"].detach(error=forced(condition))
        hosts.peer.pump.wake()
        with pytest.raises(LinkDetached, match=condition):
            await receiver.receive()


async def test_a_link_that_is_refused_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a node that is not there hears it at once, and not after a day of trying."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.peer.refusal = forced("amqp:not-found")
        with pytest.raises(LinkDetached, match="not-found"):
            async with connection.sender("q"):
                raise AssertionError


async def test_a_session_comes_back_with_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer ends a session: it is begun again, and its links are attached."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.sender("q") as sender, connection.receiver("r") as receiver:
            hosts.peer.links.clear()
            hosts.peer.sessions[0].end(forced("amqp:internal-error"))
            hosts.peer.pump.wake()
            await sender.send("x")
            await hosts.link("r")
            await until(lambda: hosts.peer.links["r"].credit)
            hosts.peer.send("r", "y")
            assert (await receiver.receive()).message.body == "y"
        assert len(hosts.peer.sessions) == 2
        assert hosts.asked == ["a"]


async def test_all_come_back_in_their_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 20: after a reconnect no consumer is missing: sessions and links are as they were."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.session(incoming_window=10) as session, session.receiver("a"), connection.receiver("b"):
            async with connection.sender("c"), session.sender("d"):
                await hosts.cut()
                for name in "abcd":
                    await hosts.link(name, of=1)
                peer = hosts.peer
                assert len(peer.sessions) == 2
                assert peer.links["a"].session is peer.links["d"].session
                assert peer.links["b"].session is peer.links["c"].session
                assert peer.links["a"].session.remote.incoming_window == 10


async def test_attaching_when_the_connection_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attaching goes on over the loss, and so does one that begins while there is no connection."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.peer.answers = False

        async def use(name: str) -> None:
            async with connection.sender(name) as sender:
                await sender.send(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, "a")
            await anyio.wait_all_tasks_blocked()
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: not (connection.open))
            tasks.start_soon(use, "b")
            await anyio.wait_all_tasks_blocked()
            hosts.down = set()
        assert sorted(hosts.peer.bodies()) == ["a", "b"]


async def test_leaving_a_link_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is left while it is away does not come back."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q"), connection.session() as session, session.sender("s"):
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: not (connection.open))
        events = connection.events()
        hosts.down = set()
        while type(await anext(events)) is not ConnectionRestored:
            pass
        await anyio.wait_all_tasks_blocked()
        assert hosts.peer.links == {}
        async with connection.sender("new") as sender:
            await sender.send("x")


async def test_a_name_that_was_made_up_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a peer that resumes nothing a link comes back under another name, unless the user gave it one."""
    async with hosting(monkeypatch) as hosts, connecting(profile="broker-j") as connection:
        async with connection.sender("q"), connection.sender("r", name="mine"):
            names = [hosts.peer.links[name].name for name in "qr"]
            await hosts.cut()
            again = [(await hosts.link(name, of=1)).name for name in "qr"]
            assert names[0] != again[0]
            assert names[1] == again[1] == "mine"


async def test_a_peer_that_answers_no_attach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 20: a link that hangs after a reconnect is seen: another connection is tried."""
    async with hosting(monkeypatch) as hosts:

        def deaf(peer: Any) -> None:
            peer.on_event = lambda event: isinstance(event, LinkAttached) and len(hosts.peers) == 2

        hosts.prepare = deaf
        async with connecting(reconnect=replace(QUICK, attempt_timeout=0.1)) as connection:
            async with connection.sender("q") as sender:
                await hosts.cut()
                await sender.send("x")
        assert len(hosts.peers) > 2
        assert [body for peer in hosts.peers[2:] for body in peer.bodies()] == ["x"]


# Redirects


def redirecting(hosts: Hosts, *infos: dict[str, Any]) -> None:
    """Each peer refuses the links of its first attach with the next of these."""
    left = list(infos)

    def prepare(peer: Any) -> None:
        if left:
            info = {Symbol(key): value for key, value in left.pop(0).items()}
            peer.refusal = Error(Symbol("amqp:link:redirect"), "not here", info)

    hosts.prepare = prepare


async def test_a_link_that_is_redirected(monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp:link:redirect` leads to another host and address (§2.8.18): one connection more, closed with the first."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b", "port": 5679, "address": "there"})
        async with connecting() as connection:
            async with connection.sender("q") as sender, connection.receiver("q") as receiver:
                assert sender.address == receiver.address == "there"
                await sender.send("x")
                hosts.peer.send("there", "y")
                assert (await receiver.receive()).message.body == "y"
            assert hosts.asked == ["a", "b"]
        await until(lambda: all(peer.over for peer in hosts.peers))
        assert hosts.peers[1].bodies() == ["x"]


async def test_a_redirect_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect without a host is for another address of the same one."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"address": "there"})
        async with connecting() as connection:

            def relent(event: Any) -> bool:
                if isinstance(event, LinkEnded):
                    hosts.peer.refusal = None
                return False

            hosts.peer.on_event = relent
            async with connection.sender("q") as sender:
                assert sender.address == "there"
        assert hosts.asked == ["a"]


@pytest.mark.parametrize("info", [{}, {"network-host": "b", "scheme": "http"}, {"hostname": 5, "address": "x"}])
async def test_a_redirect_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch, info: dict[str, Any]) -> None:
    """What cannot be followed is raised, with what the peer said."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, info)
        async with connecting() as connection:
            with pytest.raises(LinkDetached, match="link:redirect") as caught:
                await connection.sender("q").__aenter__()
            assert caught.value.info == info


async def test_a_redirect_to_a_host_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the other host cannot be reached is what is raised; the connection goes on."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, {"network-host": "b"})
        hosts.down = {"b"}
        async with connecting() as connection:
            with pytest.raises(ConnectionLost, match="cannot connect to amqp://b"):
                await connection.sender("q").__aenter__()
            hosts.peer.refusal = None
            async with connection.sender("q") as sender:
                await sender.send("x")


async def test_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `reconnect`, and where it says so, a redirect is an error: credentials go where the user sent them."""
    for reconnect in (None, replace(QUICK, follow_alternatives=False)):
        async with hosting(monkeypatch) as hosts:
            redirecting(hosts, {"network-host": "b"})
            async with connecting(reconnect=reconnect) as connection:
                with pytest.raises(LinkDetached, match="link:redirect"):
                    await connection.sender("q").__aenter__()
            assert hosts.asked == ["a"]


async def test_links_that_are_sent_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """A circle of redirects ends with an error."""
    async with hosting(monkeypatch) as hosts:
        redirecting(hosts, *[{"network-host": "b"}, {"network-host": "c"}, {"network-host": "b"}] * 9)
        async with connecting() as connection:
            with pytest.raises(LinkDetached, match="link:redirect"):
                await connection.sender("q").__aenter__()
        assert len(hosts.asked) <= 12


# Transactions and requests


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


async def test_no_reconnect_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `reconnect` a lost connection raises in every waiter at once."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", None)
        async with connecting(reconnect=None) as connection:
            raised: list[type] = []

            async def waits(call: Any) -> None:
                try:
                    await call()
                except ConnectionLost as error:
                    raised.append(type(error))

            async with connection.receiver("r") as receiver, connection.sender("q") as sender:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(waits, receiver.receive)
                    tasks.start_soon(waits, lambda: sender.send("x"))
                    await anyio.wait_all_tasks_blocked()
                    await hosts.cut()
            assert raised == [ConnectionLost] * 2


def test_the_settings_are_values() -> None:
    """`Reconnect` can be compared, and changed by `dataclasses.replace`."""
    assert Reconnect() == Reconnect()
    assert replace(Reconnect(), attempts=3) != Reconnect()
