"""Messages that end the link they are sent on, whenever it comes back: it does not come back for ever."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    ConnectionClosed,
    Error,
    LinkDetached,
    LinkRestored,
    Message,
    MessageRejected,
    SessionEnded,
    Symbol,
)
from amqp10.broker import Broker
from amqp10.client._recovery.restorer import MAX_FRUITLESS
from amqp10.engine import ConnectionTerms, DeliveriesReceived, LinkAttached, ReceiverLink, SessionTerms
from amqp10.messaging import ACCEPTED

from ...kit.client.hosts import QUICK, connecting, detach, hosting
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

ENDS = {"detach": LinkDetached, "end": SessionEnded, "close": ConnectionClosed}


def spoiled_by(body: Any, condition: str, how: str) -> Any:
    """Prepares a peer that ends the link, its session or the connection when that message comes, and accepts others."""

    def prepare(peer: Any) -> None:
        def on_event(event: Any) -> bool:
            if not isinstance(event, DeliveriesReceived):
                return False
            while event.link.incoming:
                delivery = event.link.incoming.popleft()
                peer.received.append(delivery.payload)
                if Message.decode(delivery.payload).body != body:
                    event.link.settle(delivery, ACCEPTED)
                    continue
                error = Error(Symbol(condition), "no such address")
                ends = {"detach": event.link.detach, "end": event.link.session.end, "close": peer.engine.close}
                ends[how](error=error)
                break
            return True

        peer.on_event = on_event

    return prepare


@pytest.mark.parametrize("how", ["detach", "end", "close"])
async def test_a_message_that_ends_its_link(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A waiting task gets the peer's reason after some rounds. Other links continue."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = spoiled_by("bad", "amqp:not-found", how)
        async with connecting() as connection, connection.sender("other") as other:
            async with connection.session() as session, session.sender(None) as sender:
                await sender.send("good")
                deliveries = [await sender.submit(body) for body in ("bad", "behind it")]
                calls: list[Any] = [*[delivery.outcome for delivery in deliveries], lambda: sender.send("later")]
                for call in calls:
                    with pytest.raises(ENDS[how], match="no such address") as caught:
                        await call()
                    (note,) = caught.value.__notes__
                    assert f"so did {MAX_FRUITLESS} attachments before" in note
            await other.send("x")
        bodies = [body for peer in hosts.peers for body in peer.bodies()]
        assert bodies.count("bad") == MAX_FRUITLESS + 1
        assert bodies[-1] == "x"


async def test_a_link_that_ends_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time over another message: the link comes back as often."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        events = connection.events()
        for number in range(2 * MAX_FRUITLESS):
            hosts.peer.outcome = None
            delivery = await sender.submit(number)
            await until(lambda: len(hosts.peer.bodies()) == 2 * number + 1)  # noqa: B023 - called before the next turn
            hosts.peer.outcome = ACCEPTED
            hosts.peer.links["q"].detach(error=Error(Symbol("amqp:resource-deleted"), "and made again"))
            hosts.peer.pump.wake()
            assert await delivery.outcome() == ACCEPTED
            while type(await anext(events)) is not LinkRestored:
                pass


@pytest.mark.parametrize("address", ["q", None])
async def test_a_peer_in_trouble(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    """An error that does not concern the address is retried without limit, although no message arrives."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender(address) as sender:
        hosts.peer.outcome = None
        delivery = await sender.submit("x")
        for often in range(1, 3 * MAX_FRUITLESS):
            await until(lambda: len(hosts.peer.received) == often)  # noqa: B023 - called before the next turn
            if often == 3 * MAX_FRUITLESS - 1:
                hosts.peer.outcome = ACCEPTED
            detach(hosts, str(address), "amqp:internal-error")
        assert await delivery.outcome() == ACCEPTED


async def test_a_message_that_is_not_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be why the link ends, so it is sent again each time."""

    def unread(event: Any) -> bool:
        if isinstance(event, LinkAttached) and isinstance(event.link, ReceiverLink):
            event.link.streaming = True  # nobody reads what comes, so the session's window stays closed
        return isinstance(event, DeliveriesReceived)

    async with hosting(monkeypatch) as hosts:
        hosts.terms = ConnectionTerms("peer", max_frame_size=512)
        hosts.session_terms = SessionTerms(incoming_window=1)
        hosts.prepare = lambda peer: setattr(peer, "on_event", unread)
        async with connecting() as connection, connection.sender(None) as sender, anyio.create_task_group() as tasks:
            core: Any = sender._core
            tasks.start_soon(sender.send, bytes(2000))
            for often in range(2 * MAX_FRUITLESS):
                await anyio.wait_all_tasks_blocked()
                link = hosts.peer.links["None"]
                assert [delivery.on_wire for delivery in core.engine_link.unsettled.values()] == [False]
                if often == 2 * MAX_FRUITLESS - 1:
                    hosts.peer.on_event = lambda event: False
                detach(hosts, "None", "amqp:not-found")
                await until(lambda: hosts.peer.links["None"] is not link)  # noqa: B023 - called before the next turn
        assert hosts.peer.bodies() == [bytes(2000)]


@pytest.mark.parametrize("address", ["good", None])
async def test_who_is_not_to_blame(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    """A sender goes on whose session is ended by another's message, though its own has no outcome for as long."""
    under_way: list[Any] = []

    def prepare(peer: Any) -> None:
        def on_event(event: Any) -> bool:
            if not isinstance(event, DeliveriesReceived):
                return False
            while event.link.incoming:
                delivery = event.link.incoming.popleft()
                if Message.decode(delivery.payload).body == "bad":
                    event.link.session.end(error=Error(Symbol("amqp:not-found"), "no such address"))
                    break
                under_way.append(delivery)
            return True

        peer.on_event = on_event

    async with hosting(monkeypatch) as hosts:
        hosts.prepare = prepare
        async with connecting() as connection, connection.sender(address) as sender, connection.sender(None) as other:
            good = await sender.submit("good")
            with pytest.raises(SessionEnded, match="no such address"):
                await other.send("bad")
            await until(lambda: sender.open and under_way[-1].link.attached)
            hosts.peer.on_event = lambda event: False
            under_way[-1].link.settle(under_way[-1], ACCEPTED)
            hosts.peer.pump.wake()
            assert await good.outcome() == ACCEPTED
            await sender.send("after")
        assert len(hosts.peers) == 1


async def test_an_address_that_is_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer may say only when a message comes that the queue of the link is not there: it may be made again."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.peer.outcome = None
        delivery = await sender.submit("x")
        for often in range(1, 3 * MAX_FRUITLESS):
            await until(lambda: len(hosts.peer.received) == often)  # noqa: B023 - called before the next turn
            if often == 3 * MAX_FRUITLESS - 1:
                hosts.peer.outcome = ACCEPTED
            detach(hosts, "q", "amqp:not-found")
        assert await delivery.outcome() == ACCEPTED


async def test_requests_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was another message: the link comes back as often as it ends over one of them."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.requester(None, reply_to="replies") as requester,
    ):
        hosts.peer.outcome = None
        for number in range(2 * MAX_FRUITLESS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(requester.request, Message(number, to="somewhere"))
                await until(lambda: number in hosts.peer.bodies())  # noqa: B023 - called before the next turn
                tasks.cancel_scope.cancel()
            link = hosts.peer.links["None"]
            detach(hosts, "None", "amqp:not-found")
            await until(lambda: hosts.peer.links["None"] is not link)  # noqa: B023 - the same
            await until(lambda: requester.sender.credit)
        assert hosts.peer.bodies() == list(range(2 * MAX_FRUITLESS))


async def test_a_request_that_ends_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is sent again as another delivery, but it is the same request."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = spoiled_by("bad", "amqp:not-found", "detach")
        async with connecting() as connection, connection.requester(None, reply_to="replies") as requester:
            with pytest.raises(LinkDetached, match="no such address"):
                await requester.request(Message("bad", to="nowhere"))
        assert hosts.peer.bodies() == ["bad"] * (MAX_FRUITLESS + 1)


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10"])
async def test_an_exchange_that_is_not_there(dialect: str) -> None:
    """Where the peer ends the link or session for it, and does not reject the one message, sending ends with that."""
    async with Broker() as broker:
        async with Connection(broker.url, dialect=dialect, reconnect=QUICK) as connection:
            async with connection.sender("q") as other:
                async with connection.sender(None) as sender:
                    with pytest.raises(MessageRejected if dialect == "1.0" else (LinkDetached, SessionEnded)):
                        await sender.send(Message("bad", to="/exchanges/none/x"))
                await other.send("x")
