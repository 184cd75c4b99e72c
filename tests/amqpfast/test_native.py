"""What AMQP/Fast alone can do: list the messages of a queue by numbers, and show one of them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from amqp10 import Connection, Message
from amqp10.amqpfast import Native
from amqp10.broker import Broker
from amqp10.engine import DeclareQueue
from amqp10.errors import LocalProtocolError, RequestRefused, Unsupported
from amqp10.messaging import Selector

pytestmark = pytest.mark.anyio


async def test_list_and_show() -> None:
    """Numbers stand for messages, whole ones of any size, that stay where they are."""
    with anyio.fail_after(60):
        async with Broker() as broker, Connection(broker.url, dialect="fast") as connection:
            native: Native = connection.native
            async with connection.sender("q") as sender:
                for number in range(3):
                    await sender.send(Message(bytes([number]) * 300_000, application_properties={"n": number}))
            index = await native.list("q")
            assert (index.numbers, index.after) == ((1, 2, 3), 0)
            assert (await native.show("q", 2)).body == b"\x01" * 300_000
            assert (await native.show("q", 2)).application_properties == {"n": 1}
            with pytest.raises(RequestRefused) as caught:
                await native.show("q", 9)
            assert caught.value.info == {"reply-code": 310}
            two = Selector("n = 2")
            chosen = await native.list("q", selector=two)
            assert len(chosen.numbers) == 1
            assert (await native.show("q", chosen.numbers[0], selector=two)).application_properties == {"n": 2}
            assert (await native.list("q", after=3)).numbers == ()
            again = await native.list("q")
            assert again.numbers == (4, 5, 6)
            async with connection.receiver("q") as receiver:
                assert (await receiver.receive()).message.application_properties == {"n": 0}


async def test_many_at_once() -> None:
    """Questions from several tasks are each answered."""
    with anyio.fail_after(60):
        async with Broker() as broker, Connection(broker.url, dialect="fast") as connection:
            async with connection.sender(None) as sender:
                for number in range(12):
                    await sender.send(Message(number, to=f"q{number}"))
            shown = []

            async def look(number: int) -> None:
                index = await connection.native.list(f"q{number}")
                shown.append((await connection.native.show(f"q{number}", index.numbers[0])).body)

            for _ in range(2):
                async with anyio.create_task_group() as tasks:
                    for number in range(12):
                        tasks.start_soon(look, number)
            assert sorted(shown) == sorted(list(range(12)) * 2)


@pytest.mark.parametrize(
    ("number", "error", "rule"),
    [
        (-1, LocalProtocolError, "must be in 0..4294967295, not -1"),
        (2**32, LocalProtocolError, "must be in 0..4294967295, not 4294967296"),
        (1.5, TypeError, "must be an int.*, not 1.5"),
    ],
)
async def test_no_number_of_a_message(number: Any, error: type[Exception], rule: str) -> None:
    """A wrong number is refused before anything is sent, and the next question is answered."""
    with anyio.fail_after(60):
        async with Broker() as broker, Connection(broker.url, dialect="fast") as connection:
            native: Native = connection.native
            async with connection.sender("q") as sender:
                await sender.send(b"x")
            for asked in (lambda: native.show("q", number), lambda: native.list("q", after=number)):
                with pytest.raises(error, match=rule):
                    await asked()
                index = await native.list("q")
                assert (await native.show("q", index.numbers[0])).body == b"x"


async def test_refused() -> None:
    """A queue that is not there is refused; a request of another dialect raises, and nothing is written."""
    with anyio.fail_after(60):
        async with Broker(auto_create=False) as broker, Connection(broker.url, dialect="fast") as connection:
            with pytest.raises(RequestRefused) as caught:
                await connection.native.list("none")
            assert caught.value.condition == "amqp:not-found"
            with pytest.raises(Unsupported):
                await connection._core.default_session().request(DeclareQueue("q"))
