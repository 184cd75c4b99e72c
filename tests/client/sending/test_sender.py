"""Sending: outcomes, settle modes, ends of the link, and what is left at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Connection
from amqp10.broker import Broker
from amqp10.engine import DeliveriesReceived, SessionTerms
from amqp10.errors import (
    ConnectionLost,
    EncodeError,
    LinkDetached,
    LocalProtocolError,
    MessageModified,
    MessageRejected,
    MessageReleased,
    Unsupported,
)
from amqp10.messaging import ACCEPTED, RELEASED, Accepted, Error, Message, Modified, Received, Rejected, Source, Target

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]


async def test_send_waits_for_the_outcome(serve: Serve) -> None:
    """`send` returns when the receiver has accepted, and not before."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        done = False

        async def send() -> None:
            nonlocal done
            await sender.send(Message("hello"))
            done = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            assert peer.bodies() == ["hello"]
            assert not done
            assert sender.unsettled == 1
            link = peer.links["q"]
            link.settle(next(iter(link.unsettled.values())), ACCEPTED)
            peer.pump.wake()
        assert done
        assert sender.unsettled == 0


async def test_a_bare_body_is_a_message(serve: Serve) -> None:
    """Whatever is not a Message is sent as the body of one."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        await sender.send("text")
        await sender.send(b"bytes")
        await sender.send({"k": 1})
        assert peer.bodies() == ["text", b"bytes", {"k": 1}]


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Rejected(Error("amqp:decode-error", "why", {"k": 1})), MessageRejected),
        (Rejected(), MessageRejected),
        (RELEASED, MessageReleased),
        (Modified(delivery_failed=True), MessageModified),
    ],
)
@pytest.mark.spec("3.4", "outcomes other than accepted are visible to the sender")
async def test_other_outcomes_raise(serve: Serve, outcome: Any, error: type[Exception]) -> None:
    """Whatever is not accepted raises, with the receiver's words and the outcome itself."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = outcome
        with pytest.raises(error) as caught:
            await sender.send(Message("x"))
        assert caught.value.outcome == outcome  # type: ignore[attr-defined]
        if isinstance(outcome, Rejected) and outcome.error is not None:
            assert caught.value.condition == "amqp:decode-error"  # type: ignore[attr-defined]
            assert caught.value.description == "why"  # type: ignore[attr-defined]
            assert caught.value.info == {"k": 1}  # type: ignore[attr-defined]


async def test_submit_does_not_wait_for_the_outcome(serve: Serve) -> None:
    """Pipelining: many deliveries out at once, each with its own outcome later."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        deliveries = [await sender.submit(Message(n)) for n in range(10)]
        assert sender.unsettled == 10
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        for n, delivery in enumerate(list(link.unsettled.values())):
            link.settle(delivery, ACCEPTED if n % 2 else RELEASED)
        peer.pump.wake()
        assert [type(await delivery.outcome()).__name__ for delivery in deliveries] == ["Released", "Accepted"] * 5


async def test_progress_is_no_outcome(serve: Serve) -> None:
    """A `received` state wakes nobody for good (§3.4.1)."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = Received(0, 1)
        delivery = await sender.submit(Message("x"))
        link = peer.links["q"]
        peer.outcome = None
        peer.on_event = lambda event: isinstance(event, DeliveriesReceived)
        await anyio.wait_all_tasks_blocked()
        one = link.incoming.popleft()
        link.settle(one, Received(0, 1), settled=False)
        peer.pump.wake()
        outcomes = []

        async def wait() -> None:
            outcomes.append(await delivery.outcome())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert outcomes == []
            link.settle(one, ACCEPTED)
            peer.pump.wake()
        assert outcomes == [Accepted()]


async def test_many_tasks_wait_for_one_outcome(serve: Serve) -> None:
    """Each of them gets it."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        delivery = await sender.submit(Message("x"))
        outcomes = []

        async def wait() -> None:
            outcomes.append(await delivery.outcome())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]
            link.settle(next(iter(link.unsettled.values())), ACCEPTED)
            peer.pump.wake()
        assert outcomes == [Accepted()] * 3


@pytest.mark.spec("3.5.3", "the source's default outcome holds for what is settled without one")
async def test_settled_without_a_state(serve: Serve) -> None:
    """The source's default outcome holds; without one it is not known, which is not "accepted"."""
    async with serve() as (_, connection), connection:
        for source, expected in ((Source(default_outcome=RELEASED), RELEASED), (None, Modified(delivery_failed=True))):
            async with connection.sender(f"q-{source is None}", source=source) as sender:
                delivery = await sender.submit(Message("x"))
                delivery.remote_state = None
                delivery.remote_settled = True
                assert await delivery.outcome() == expected


async def test_large_messages(serve: Serve) -> None:
    """Messages of many frames go through a small window whole."""
    body = bytes(range(256)) * 4096
    async with serve(session=SessionTerms(incoming_window=4)) as (peer, connection), connection:
        async with connection.sender("q") as sender:
            await sender.send(body)
            await sender.send(b"small")
            assert peer.bodies() == [body, b"small"]


@pytest.mark.spec("2.8.2", "snd-settle-mode settled: all deliveries are sent settled")
async def test_settled_senders(serve: Serve) -> None:
    """At most once: no outcome to wait for, and all are at the peer when the link is closed."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("q", settle_mode="settled") as sender:
            for n in range(10):
                await sender.send(n)
            delivery = await sender.submit("last")
            assert await delivery.outcome() == Accepted()
            assert sender.unsettled == 0
            assert await sender.send_many(range(3)) == 3
        assert peer.bodies() == [*range(10), "last", 0, 1, 2]


@pytest.mark.spec("2.8.2", "snd-settle-mode mixed: each delivery says")
async def test_mixed_senders(serve: Serve) -> None:
    """With "mixed" each message says; with "unsettled" none may be sent settled."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("q", settle_mode="mixed") as sender:
            peer.outcome = None
            await sender.send("settled", settled=True)
            delivery = await sender.submit("unsettled")
            assert sender.unsettled == 1
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]
            link.settle(next(iter(link.unsettled.values())), ACCEPTED)
            peer.pump.wake()
            assert await delivery.outcome() == Accepted()
        async with connection.sender("r") as sender:
            with pytest.raises(LocalProtocolError, match='make the sender with settle_mode="settled" or "mixed"'):
                await sender.submit("x", settled=True)


async def test_what_cannot_be_encoded_is_not_sent(serve: Serve) -> None:
    """An EncodeError costs no credit."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        credit = sender.credit
        with pytest.raises(EncodeError):
            await sender.send(Message(object()))
        assert sender.credit == credit
        await sender.send("fine")
        assert peer.bodies() == ["fine"]


@pytest.mark.spec("2.6.3", "a refused link: attach with a null terminus, then a detach with the reason")
async def test_refused(serve: Serve) -> None:
    """The peer's reason comes out of `async with`, and the connection lives on."""
    async with serve() as (peer, connection), connection:
        peer.refusal = Error("amqp:not-found", "no such queue", {"k": 1})
        with pytest.raises(LinkDetached, match="no such queue") as caught:
            async with connection.sender("q"):
                pytest.fail("the block must not run")
        assert caught.value.condition == "amqp:not-found"
        assert caught.value.info == {"k": 1}
        peer.refusal = None
        async with connection.sender("q") as sender:
            await sender.send("x")


async def test_the_peer_detaches(serve: Serve) -> None:
    """Every waiter gets the cause, and so does every later call: waiting for credit, outcomes, send_many."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        peer.credit = 0
        delivery = await sender.submit("x")
        await anyio.wait_all_tasks_blocked()
        peer.links["q"].flow(0)
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        causes: list[str | None] = []

        async def expect(call: Callable[..., Any], *args: Any) -> None:
            with pytest.raises(LinkDetached) as caught:
                await call(*args)
            causes.append(caught.value.condition)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect, sender.send, "y")
            tasks.start_soon(expect, delivery.outcome)
            tasks.start_soon(expect, sender.send_many, ["z"])
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
            peer.pump.wake()
        await expect(sender.send, "later")
        await expect(delivery.outcome)
        assert causes == ["amqp:resource-deleted"] * 5


async def test_leaving_waits_for_outcomes(serve: Serve) -> None:
    """Closing does not cut off what is in flight."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        peer.outcome = None

        async def late() -> None:
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]
            assert link.attached
            for delivery in list(link.unsettled.values()):
                link.settle(delivery, ACCEPTED)
            peer.pump.wake()

        async with connection.sender("q") as sender:
            deliveries = [await sender.submit(n) for n in range(5)]
            tasks.start_soon(late)
        assert [await delivery.outcome() for delivery in deliveries] == [Accepted()] * 5
        assert peer.ended[0].closed


async def test_leaving_is_bounded_and_says_what_is_open(serve: Serve) -> None:
    """A peer that never settles cannot hold the exit up; deliveries without an outcome are not passed over."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        peer.outcome = None
        with pytest.raises(TimeoutError, match="2 deliveries"):
            async with connection.sender("q") as sender:
                delivery = await sender.submit(1)
                await sender.submit(2)
        with pytest.raises(anyio.ClosedResourceError):
            await delivery.outcome()


async def test_leaving_with_an_exception(serve: Serve) -> None:
    """The block's own exception goes first."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        peer.outcome = None
        with pytest.raises(KeyError):
            async with connection.sender("q") as sender:
                await sender.submit(1)
                raise KeyError


async def test_leaving_after_the_link_died(serve: Serve) -> None:
    """Deliveries lost with the link raise its cause at the exit, unless a call has raised it already."""
    async with serve() as (peer, connection), connection:
        peer.outcome = None
        with pytest.raises(LinkDetached, match="gone"):
            async with connection.sender("q") as sender:
                await sender.submit(1)
                await anyio.wait_all_tasks_blocked()
                peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
                peer.pump.wake()
                await anyio.wait_all_tasks_blocked()
        async with connection.sender("r") as sender:
            await sender.submit(1)
            await anyio.wait_all_tasks_blocked()
            peer.links["r"].detach(error=Error("amqp:resource-deleted", "gone"))
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(LinkDetached):
                await sender.submit(2)


async def test_closed_here(serve: Serve) -> None:
    """Calls after one's own closing, and those that wait, raise ClosedResourceError; closing again does nothing."""
    async with serve() as (peer, connection), connection:
        peer.credit = 0
        async with connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    with pytest.raises(anyio.ClosedResourceError):
                        await sender.send("x")

                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                await sender.close()
            with pytest.raises(anyio.ClosedResourceError):
                await sender.send("y")
            await sender.close()
        assert peer.received == []


async def test_not_entered(serve: Serve) -> None:
    """A sender is attached by `async with`, once."""
    async with serve() as (_, connection), connection:
        sender = connection.sender("q")
        with pytest.raises(LocalProtocolError, match="async with"):
            await sender.send("x")
        async with sender:
            pass
        with pytest.raises(LocalProtocolError, match="once"):
            await sender.__aenter__()


async def test_the_connection_is_lost(serve: Serve) -> None:
    """Every waiter and every later call gets ConnectionLost."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        delivery = await sender.submit("x")
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(ConnectionLost):
                    await delivery.outcome()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await peer.stream.aclose()
        with pytest.raises(ConnectionLost):
            await sender.send("y")


async def test_anonymous(serve: Serve) -> None:
    """A sender to no address: messages say where they go."""
    async with serve() as (peer, connection), connection, connection.sender(None) as sender:
        await sender.send(Message("x", to="orders"))
        assert Message.decode(peer.received[0]).to == "orders"
        assert sender.address is None


async def test_facts(serve: Serve) -> None:
    """Names, addresses, modes, and what the peer said."""
    async with serve() as (_, connection), connection:
        async with connection.sender(Target("q", capabilities=("queue",)), name="mine") as sender:
            assert sender.name == "mine"
            assert sender.address == "q"
            assert sender.credit == 100
            assert sender.settle_mode == "unsettled"
            assert sender.receiver_settle_mode == "first"
            assert sender.remote.target == Target("q", capabilities=("queue",))


@pytest.mark.spec("2.6.4", "a durable terminus outlives the link: detach, not close")
async def test_lasting_termini_are_detached_from(serve: Serve) -> None:
    """Leaving closes a link, but only detaches from a terminus that is meant to last; `close` ends that too."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("a"):
            pass
        async with connection.sender(Target("b", durable="unsettled-state")):
            pass
        async with connection.sender(Target("c", expiry_policy="never")) as sender:
            await sender.close()
        assert [event.closed for event in peer.ended] == [True, False, True]


async def test_an_encoded_message_goes_as_it_is(serve: Serve) -> None:
    """With the message-format that it is said to have; an outcome that is not accepted raises as for `send`."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        formats: list[int] = []

        def note(event: Any) -> bool:
            if isinstance(event, DeliveriesReceived):
                formats.extend(each.message_format for each in event.link.unsettled.values())
            return False

        peer.on_event = note
        await sender.send_encoded(Message("x").encode(), message_format=0x8001_3700)
        await sender.send_encoded(Message("y").encode())
        assert peer.bodies() == ["x", "y"]
        assert formats == [0x8001_3700, 0]
        assert sender.unsettled == 0
        peer.outcome = Rejected(Error("amqp:not-allowed", "no"))
        with pytest.raises(MessageRejected, match="no"):
            await sender.send_encoded(Message("z").encode())


async def test_only_amqp_1_0_has_message_formats() -> None:
    async with Broker(queues=["q"]) as broker, Connection(broker.url, dialect="0-9-1") as connection:
        async with connection.sender("/queues/q") as sender, connection.receiver("/queues/q") as receiver:
            with pytest.raises(Unsupported, match="no message-format"):
                await sender.send_encoded(Message("x").encode(), message_format=1)
            await sender.send_encoded(Message(b"x").encode())
            with await receiver.receive() as message:
                assert message.body == b"x"
