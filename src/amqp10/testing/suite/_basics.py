"""What every dialect must do: deliver messages unchanged and in order, each with an outcome, within the credit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import anyio
import pytest

from ...errors import AuthenticationFailed, LinkDetached
from ...messaging import AmqpSequence, AmqpValue, Message
from ...types import Int, Symbol, UInt
from ._contract import Contract

EVERYTHING = Message(
    b"body",
    durable=True,
    priority=7,
    ttl=timedelta(minutes=5),
    message_id="id",
    subject="subject",
    reply_to="replies",
    correlation_id=UUID(int=5),
    content_type="text/plain",
    content_encoding="gzip",
    absolute_expiry_time=datetime(2100, 1, 1, tzinfo=UTC),
    creation_time=datetime(2024, 5, 6, 7, 8, 9, 250_000, tzinfo=UTC),
    group_id="group",
    group_sequence=UInt(3_000_000_000),
    reply_to_group_id="others",
    application_properties={
        "text": "t",
        "int": Int(-5),
        "long": 1 << 40,
        "float": 1.5,
        "yes": True,
        "none": None,
        "octets": b"\xff\0",
        "decimal": Decimal("1.50"),
        "uuid": UUID(int=7),
        "moment": datetime(2024, 1, 1, tzinfo=UTC),
    },
    message_annotations={Symbol("x-text"): "t", Symbol("x-list"): [1, "two"]},
)
"""A message with a value in every field that is not limited to one hop."""


class Basics(Contract):
    """Tests of what every dialect must do."""

    async def test_names_itself(self) -> None:
        """Check that a connection names its dialect, its capabilities and the container of the peer."""
        async with self.connected() as connection:
            assert connection.dialect == self.dialect
            assert connection.capabilities == self.capabilities
            assert connection.remote.container_id is not None

    async def test_in_order(self) -> None:
        """Check that messages arrive once, in the order in which they were sent, and that each gets its outcome."""
        async with self.connected() as connection:
            async with (
                connection.sender(self.q) as sender,
                connection.receiver(self.q) as receiver,
            ):
                sent = [await sender.submit(Message(number)) for number in range(500)]
                for number in range(500):
                    delivery = await receiver.receive()
                    assert delivery.message.body == number
                    delivery.accept()
                for each in sent:
                    assert type(await each.outcome()).__name__ == "Accepted"
                assert receiver.buffered == 0

    async def test_settled(self) -> None:
        """Check that messages sent settled arrive, and are settled at both ends without an outcome."""
        async with (
            self.connected() as connection,
            connection.sender(self.q, settle_mode="settled") as sender,
            connection.receiver(self.q, settle_mode="settled") as receiver,
        ):
            for number in range(150):
                assert (await sender.submit(Message(number))).local_settled
            for number in range(150):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                assert delivery.local_settled

    async def test_every_field(self) -> None:
        """Check that a message arrives with all its fields, in their types."""
        async with self.connected() as connection:
            async with (
                connection.sender(self.q) as sender,
                connection.receiver(self.q) as receiver,
            ):
                sent = EVERYTHING.replace(user_id=self.login[0].encode())  # some servers accept only the login's name
                await sender.send(sent)
                delivery = await receiver.receive()
                message = delivery.message
                assert message.ttl is not None
                assert message.ttl <= timedelta(minutes=5)
                for name in ("x-exchange", "x-routing-key"):  # added by servers that have exchanges
                    message.message_annotations.pop(Symbol(name), None)
                assert message.replace(ttl=None, to=None, first_acquirer=None) == sent.replace(ttl=None)
                kinds = {name: type(value) for name, value in message.application_properties.items()}
                expected = Message.decode(sent.encode()).application_properties
                assert kinds == {name: type(value) for name, value in expected.items()}
                delivery.accept()

    @pytest.mark.parametrize(
        "body",
        [b"", b"data", "text", 5, None, {"a": [1, 2]}, AmqpValue(b"binary"), AmqpSequence([1, "two"], [3])],
        ids=repr,
    )
    async def test_bodies(self, body: object) -> None:
        """Check that a body of each kind arrives unchanged."""
        async with self.connected() as connection:
            async with (
                connection.sender(self.q) as sender,
                connection.receiver(self.q) as receiver,
            ):
                await sender.send(Message(body))
                delivery = await receiver.receive()
                assert delivery.message.body == Message.decode(Message(body).encode()).body
                delivery.accept()

    async def test_large(self) -> None:
        """Check that a message larger than a frame arrives whole, at the server and at the client."""
        async with self.connected(max_frame_size=8192) as connection:
            async with (
                connection.sender(self.q) as sender,
                connection.receiver(self.q) as receiver,
            ):
                body = bytes(range(256)) * 4000
                await sender.send(Message(body))
                delivery = await receiver.receive()
                assert delivery.message.body == body
                delivery.accept()

    async def test_credit(self) -> None:
        """Check that a receiver gets only as many messages as it has credit, and another receiver can take the rest."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            for number in range(5):
                await sender.send(Message(number))
            async with connection.receiver(self.q, credit=0) as receiver:
                receiver.add_credit(2)
                first, second = await receiver.receive(), await receiver.receive()
                assert [first.message.body, second.message.body] == [0, 1]
                async with connection.receiver(self.q, credit=1) as other:
                    third = await other.receive()
                    assert third.message.body == 2
                    third.accept()
                first.accept()
                second.accept()
                assert receiver.buffered == 0

    async def test_left_unsettled(self) -> None:
        """Check that unsettled messages come again after their receiver has left, and accepted messages do not."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            for number in range(4):
                await sender.send(Message(number))
            async with connection.session() as session, session.receiver(self.q) as receiver:
                (await receiver.receive()).accept()
                await receiver.receive()
            async with connection.receiver(self.q) as receiver:
                left = set()
                for _ in range(3):
                    delivery = await receiver.receive()
                    left.add(delivery.message.body)
                    delivery.accept()
                assert left == {1, 2, 3}

    async def test_competing(self) -> None:
        """Check that the receivers of one queue share its messages, and each message comes to one of them only."""
        async with self.connected() as connection:
            seen: list[object] = []
            async with (
                connection.sender(self.q) as sender,
                connection.receiver(self.q, credit=5) as one,
                connection.receiver(self.q, credit=5) as two,
                anyio.create_task_group() as tasks,
            ):

                async def take(receiver: object) -> None:
                    while True:
                        delivery = await receiver.receive()  # type: ignore[attr-defined]
                        seen.append(delivery.message.body)
                        delivery.accept()
                        if len(seen) == 100:
                            tasks.cancel_scope.cancel()

                tasks.start_soon(take, one)
                tasks.start_soon(take, two)
                for number in range(100):
                    await sender.send(Message(number))
                await anyio.sleep_forever()
            assert sorted(seen) == list(range(100))  # type: ignore[type-var]

    async def test_not_there(self) -> None:
        """Check that a link to a missing node is refused with amqp:not-found, and that the connection stays open."""
        with anyio.fail_after(self.patience):
            async with self.server(auto_create=False) as url, self.connected(url) as connection:
                for _ in range(2):
                    with pytest.raises(LinkDetached) as caught:
                        async with connection.receiver(self.address("nowhere")):
                            pass
                    assert caught.value.condition == "amqp:not-found"
                assert connection.open

    async def test_login(self) -> None:
        """Check that the right password opens a connection, and a wrong one raises `AuthenticationFailed`."""
        with anyio.fail_after(self.patience):
            name, password = self.login
            async with self.server(users={name: password}) as url:
                async with self.connected(url.replace("//", f"//{name}:{password}@")) as connection:
                    assert connection.mechanism is not None
                with pytest.raises(AuthenticationFailed):
                    async with self.connected(url.replace("//", f"//{name}:wrong@")):
                        pass
