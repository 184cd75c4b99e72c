"""Settlement of what was received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.client import Delivery
from amqp10.errors import DecodeError, LinkDetached, Unsupported
from amqp10.messaging import ACCEPTED, RELEASED, Accepted, Error, Message, Modified, Received, Rejected
from amqp10.profiles import profile

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("outcomes")]

Serve = Callable[..., Any]


async def one(peer: Any, receiver: Any, body: Any = "x") -> tuple[Any, Delivery]:
    await anyio.wait_all_tasks_blocked()
    (sent,) = peer.send("q", body)
    return sent, await receiver.receive()


@pytest.mark.parametrize(
    ("settle", "state"),
    [
        (lambda d: d.accept(), ACCEPTED),
        (lambda d: d.release(), RELEASED),
        (lambda d: d.reject(), Rejected()),
        (lambda d: d.reject("x:bad", "why", {"k": 1}), Rejected(Error("x:bad", "why", {"k": 1}))),
        (lambda d: d.modify(), Modified()),
        (lambda d: d.settle(ACCEPTED), ACCEPTED),
        (lambda d: d.settle(RELEASED), RELEASED),
        (lambda d: d.settle(Rejected(Error("x:bad", "why"))), Rejected(Error("x:bad", "why"))),
        (lambda d: d.settle(Modified(delivery_failed=True)), Modified(delivery_failed=True)),
        (
            lambda d: d.modify(delivery_failed=True, undeliverable_here=True, message_annotations={"x-opt-k": 1}),
            Modified(delivery_failed=True, undeliverable_here=True, message_annotations={"x-opt-k": 1}),
        ),
    ],
)
@pytest.mark.spec("3.4", "the receiver gives every message an outcome")
async def test_outcomes(serve: Serve, settle: Callable[[Delivery], None], state: Any) -> None:
    """Each call arrives at the sender as its outcome, settled."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        sent, delivery = await one(peer, receiver)
        settle(delivery)
        assert delivery.local_settled
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == state
        assert sent.remote_settled


@pytest.mark.parametrize("state", [None, "accepted", Received(0, 0), Accepted])
async def test_settles_with_an_outcome_only(serve: Serve, state: Any) -> None:
    """An object that is not an outcome is refused, and the delivery stays as it was."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        _, delivery = await one(peer, receiver)
        with pytest.raises(TypeError, match="outcome must be Accepted, Rejected, Released or Modified, not "):
            delivery.settle(state)
        assert not delivery.local_settled
        delivery.accept()


FAILED, ELSEWHERE = Modified(delivery_failed=True), Modified(delivery_failed=True, undeliverable_here=True)


@pytest.mark.parametrize(
    ("settle", "listed", "default", "state"),
    [
        (lambda d: d.reject("x:bad"), ["rejected"], None, Rejected(Error("x:bad"))),
        (lambda d: d.reject("x:bad"), ["accepted", "released", "modified"], None, ELSEWHERE),
        (lambda d: d.reject("x:bad"), ["accepted", "released"], RELEASED, RELEASED),
        (lambda d: d.modify(delivery_failed=True), ["accepted", "rejected", "released"], None, RELEASED),
        (lambda d: d.modify(delivery_failed=True), ["accepted", "rejected"], Rejected(), Rejected()),
        (lambda d: d.release(), ["accepted", "modified"], None, Modified()),
        (lambda d: d.release(), ["accepted"], FAILED, FAILED),
    ],
)
@pytest.mark.spec("3.5.3", "outcomes: a receiver chooses of those that the source lists, or its default outcome")
async def test_listed_outcomes(
    serve: Serve, settle: Callable[[Delivery], None], listed: list[str], default: Any, state: Any
) -> None:
    """The nearest listed outcome stands in for one that is not listed."""
    async with serve() as (peer, connection), connection:
        peer.source = {"outcomes": [f"amqp:{name}:list" for name in listed], "default_outcome": default}
        async with connection.receiver("q") as receiver:
            sent, delivery = await one(peer, receiver)
            settle(delivery)
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state == state


@pytest.mark.parametrize("stream", [False, True])
async def test_accepted_is_not_listed(stream: bool, serve: Serve) -> None:
    """Nothing else tells that a message was processed: `accept` says what is listed, and the message goes back."""
    async with serve() as (peer, connection), connection:
        peer.source = {"outcomes": ["amqp:released:list", "amqp:rejected:list"], "default_outcome": RELEASED}
        async with connection.receiver("q", stream=stream) as receiver:
            sent, delivery = await one(peer, receiver)
            with pytest.raises(Unsupported, match=r"accepted is not one of .* amqp:released:list, amqp:rejected"):
                delivery.accept()
            with pytest.raises(Unsupported, match="accepted is not one of"):
                delivery.__exit__(None, None, None)
            assert not delivery.local_settled
            delivery.release()
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state == RELEASED
        peer.source["default_outcome"] = ACCEPTED
        async with connection.receiver("q") as receiver:
            sent, delivery = await one(peer, receiver)
            delivery.accept()
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state == ACCEPTED


async def test_applied_though_not_listed(serve: Serve) -> None:
    """A broker whose profile says so is told `modified`, which its sources do not list: so it counts the failure."""
    async with serve(profile=profile("broker-j")) as (peer, connection), connection:
        peer.source = {"outcomes": ["amqp:accepted:list", "amqp:released:list"], "default_outcome": None}
        async with connection.receiver("q") as receiver:
            sent, delivery = await one(peer, receiver)
            delivery.modify(delivery_failed=True)
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state == FAILED


@pytest.mark.spec("3.5.3", "outcomes: nothing else than what the source lists is chosen for a receiver, either")
async def test_implicit_outcomes(serve: Serve) -> None:
    """By an exception, or for what was prefetched; never `accepted` for what was not done."""
    async with serve() as (peer, connection), connection:
        peer.source = {"outcomes": ["amqp:accepted:list", "amqp:released:list"], "default_outcome": ACCEPTED}
        async with connection.receiver("q") as receiver:
            sent, delivery = await one(peer, receiver)
            with pytest.raises(ValueError, match="failed"), delivery:
                raise ValueError("failed")
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state == RELEASED
        peer.source["outcomes"] = ["amqp:accepted:list"]
        async with connection.receiver("q") as receiver:
            sent, delivery = await one(peer, receiver)
            (prefetched,) = peer.send("q", "y")
            with pytest.raises(ValueError, match="failed"), delivery:
                raise ValueError("failed")
            with pytest.raises(Unsupported, match=r"released is not one of .* amqp:accepted:list"):
                delivery.release()
            assert not delivery.local_settled
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state is None
        assert prefetched.remote_state is None


async def test_settling_twice_does_nothing(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The first outcome counts. Another one is told in the log; the same, or `release`, which cleans up, is not."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        sent, delivery = await one(peer, receiver)
        delivery.accept()
        delivery.accept()
        delivery.release()
        assert not caplog.records
        delivery.reject()
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert "Rejected() does nothing, for the first outcome counts: Accepted()" in record.getMessage()
        delivery.reject("shop:broken", "a traceback" * 1000)
        assert len(caplog.records[-1].getMessage()) < 500
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == ACCEPTED
        assert len(peer.outcomes) == 1


@pytest.mark.parametrize("condition", ["nobody can read this", "", "amqp: decode-error"])
async def test_text_as_condition(serve: Serve, condition: str) -> None:
    """A text for people in place of the condition of a rejection is refused, and the delivery can still be settled."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        sent, delivery = await one(peer, receiver)
        with pytest.raises(ValueError, match=r"condition must be one word .*; a text for people is description="):
            delivery.reject(condition)
        assert not peer.outcomes
        delivery.reject("amqp:decode-error", "nobody can read this")
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == Rejected(Error("amqp:decode-error", "nobody can read this"))


def test_text_as_error() -> None:
    """A text in place of the error of a rejection is refused where it is written, not when it is sent."""
    with pytest.raises(TypeError, match=r"error must be an Error, such as Error.*, or None, not a str"):
        Rejected("nobody can read this")  # type: ignore[arg-type]


async def test_what_the_sender_settled_has_no_outcome(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Programs settle what comes in any mode: nothing is said of a delivery that was sent settled."""
    async with (
        serve() as (peer, connection),
        connection,
        connection.receiver("q", settle_mode="settled") as receiver,
    ):
        await anyio.wait_all_tasks_blocked()
        peer.send("q", "x", settled=True)
        delivery = await receiver.receive()
        delivery.accept()
        delivery.reject()
        assert not caplog.records


async def test_the_message_is_decoded_once(serve: Serve) -> None:
    """`message` is one object, whoever asks."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        _, delivery = await one(peer, receiver, Message("x", subject="s").encode())
        assert delivery.message is delivery.message
        assert delivery.message.subject == "s"
        assert delivery.message.body == "x"


async def test_with_accepts(serve: Serve) -> None:
    """The block's end accepts, an outcome given in the block stands."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        first, delivery = await one(peer, receiver, "a")
        with delivery as message:
            assert message.body == "a"
        second, delivery = await one(peer, receiver, "b")
        with delivery:
            delivery.release()
        await anyio.wait_all_tasks_blocked()
        assert (first.remote_state, second.remote_state) == (ACCEPTED, RELEASED)


async def test_with_an_exception(serve: Serve) -> None:
    """An exception is a failed attempt; a group with one in it too."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        sent, delivery = await one(peer, receiver)
        with pytest.raises(KeyError), delivery:
            raise KeyError
        group, delivery = await one(peer, receiver)
        with pytest.raises(BaseExceptionGroup), delivery:
            raise BaseExceptionGroup("both", [KeyError(), KeyboardInterrupt()])
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == group.remote_state == Modified(delivery_failed=True)


async def test_with_a_cancellation(serve: Serve) -> None:
    """A cancellation gives the message back as if it had never come."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        sent, delivery = await one(peer, receiver)
        with anyio.move_on_after(0), delivery:
            await anyio.sleep_forever()
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == RELEASED


async def test_undecodable(serve: Serve) -> None:
    """A payload that is no message raises where it is looked at, and can be rejected; `with` does that by itself."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        first, delivery = await one(peer, receiver, b"\x00\x53\x77\xff")
        with pytest.raises(DecodeError):
            _ = delivery.message.body
        delivery.reject("amqp:decode-error")
        second, delivery = await one(peer, receiver, b"garbage")
        with pytest.raises(DecodeError), delivery:
            pytest.fail("the block must not run")
        await anyio.wait_all_tasks_blocked()
        assert first.remote_state == Rejected(Error("amqp:decode-error"))
        assert second.remote_state.error.condition == "amqp:decode-error"


@pytest.mark.spec("2.8.3", "rcv-settle-mode second: the receiver settles after the sender")
async def test_settle_second(serve: Serve) -> None:
    """In mode "second" the outcome is provisional until the sender has settled."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", receiver_settle_mode="second") as receiver:
            assert receiver.receiver_settle_mode == "second"
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].auto_settle = False
            sent, delivery = await one(peer, receiver)
            delivery.accept()
            settled = False

            async def wait() -> None:
                nonlocal settled
                await delivery.wait_settled()
                settled = True

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                assert not settled
                assert not delivery.local_settled
                assert sent.remote_state == ACCEPTED
                assert not sent.remote_settled
                peer.links["q"].settle(sent, ACCEPTED)
                peer.pump.wake()
            assert settled
            assert receiver.unsettled == 0


@pytest.mark.spec("2.8.3", "rcv-settle-mode second: the receiver settles after the sender")
async def test_close_after_an_outcome_in_mode_second(serve: Serve) -> None:
    """A receiver that closes ends as soon as the sender has settled: nothing else has to happen for that."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        receiver = await connection.receiver("q", receiver_settle_mode="second").__aenter__()
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        link.auto_settle = False
        sent, delivery = await one(peer, receiver)
        delivery.accept()
        tasks.start_soon(receiver.close)
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == ACCEPTED
        assert link.attached
        link.settle(sent, ACCEPTED)
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert not link.attached


async def test_settled_returns_at_once_in_mode_first(serve: Serve) -> None:
    """In mode "first" the outcome settles."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        _, delivery = await one(peer, receiver)
        delivery.accept()
        await delivery.wait_settled()
        assert delivery.local_settled


async def test_settled_on_a_link_that_dies(serve: Serve) -> None:
    """A task that waits for the sender to settle gets the cause."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", receiver_settle_mode="second") as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].auto_settle = False
            _, delivery = await one(peer, receiver)
            delivery.accept()
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    with pytest.raises(LinkDetached, match="gone"):
                        await delivery.wait_settled()

                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
                peer.pump.wake()


async def test_settling_on_a_link_that_is_gone(serve: Serve) -> None:
    """It never hangs: it raises the cause, or that the receiver was closed here (pitfall 10)."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q") as receiver:
            _, delivery = await one(peer, receiver)
            peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(LinkDetached, match="gone"):
                delivery.accept()
        async with connection.receiver("q") as receiver:
            _, delivery = await one(peer, receiver)
        with pytest.raises(anyio.ClosedResourceError):
            delivery.accept()
        with pytest.raises(KeyError), delivery:  # the exception of the block goes first
            raise KeyError


async def test_ranges(serve: Serve) -> None:
    """Outcomes of neighbors go out as one disposition (§2.7.6)."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(50))
        events: list[Any] = []
        peer.on_event = lambda event: events.append(event) or False  # type: ignore[func-returns-value]
        for _ in range(50):
            (await receiver.receive()).accept()
        await anyio.wait_all_tasks_blocked()
        assert len(peer.outcomes) == 50
        assert len([event for event in events if type(event).__name__ == "OutcomesReceived"]) <= 2
