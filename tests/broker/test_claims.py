"""Messages that say whose they are: taken from him, and from nobody else where the broker looks."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10 import Connection, LinkDetached, Message, MessageRejected, SessionEnded
from amqp10.broker import Broker
from amqp10.broker._claims import forged
from amqp10.engine import dialect_names
from amqp10.testing.strategies import messages
from amqp10.types import ULong

OLDER = ("0-10", "0-9", "0-9-1", "0-9-draft")
REFUSED: dict[str, tuple[type[Any], str]] = {
    "0-10": (SessionEnded, "amqp:unauthorized-access"),
    **dict.fromkeys(("0-9", "0-9-1", "0-9-draft"), (LinkDetached, "amqp:precondition-failed")),
    **dict.fromkeys(("1.0", "fast"), (MessageRejected, "amqp:unauthorized-access")),
}


@given(messages(), st.sampled_from([None, b"", b"me", b"you", b"\xff"]))
def test_claims(message: Message, user_id: bytes | None) -> None:
    """Whatever else a message says, it is forged if its user-id is another one."""
    payload = message.replace(user_id=user_id).encode()
    assert (forged(payload, "me") is not None) is (user_id not in (None, b"me"))
    assert (forged(payload, None) is not None) is bool(user_id)


@pytest.mark.parametrize("message_id", [None, 0, ULong(7), 2**63, "m", "m" * 300, b"m", b"m" * 300])
def test_claims_behind_ids(message_id: Any) -> None:
    """The user-id comes behind a message-id, of whatever kind that is."""
    for user_id in (None, b"you"):
        message = Message(b"x", message_id=message_id, user_id=user_id, subject="s", durable=True)
        assert (forged(message.encode(), "me") is not None) is (user_id is not None)


@pytest.mark.anyio
@pytest.mark.parametrize("checks", [None, True, False])
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_users(dialect: str, checks: bool | None) -> None:
    """Older AMQPs are asked for the truth by default, all are if the broker says so, none if it says no."""
    asked = checks if checks is not None else dialect in OLDER
    async with Broker(users={"me": "secret"}, anonymous=True, check_user_id=checks) as broker:
        for login in ("me:secret@", ""):
            mine = b"me" if login else None
            url = broker.url.replace("//", f"//{login}")
            async with Connection(url, dialect=dialect) as connection, connection.sender("q") as sender:
                await sender.send(Message("mine", user_id=mine))
                if not asked:
                    await sender.send(Message("another's", user_id=b"you"))
                    continue
                kind, condition = REFUSED[dialect]
                with pytest.raises(kind, match="authenticated user") as refused:
                    await sender.send(Message("another's", user_id=b"you"))
                assert refused.value.condition == condition
        assert broker.queue("q").depth == (2 if asked else 4)


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_settled(dialect: str) -> None:
    """What is sent settled is not dropped in silence: there is no sending on."""
    async with Broker(users={"me": "secret"}, check_user_id=True) as broker:
        url = broker.url.replace("//", "//me:secret@")
        async with (
            Connection(url, dialect=dialect) as connection,
            connection.sender("q", settle_mode="settled") as sender,
        ):
            await sender.send(Message("another's", user_id=b"you"))
            with anyio.fail_after(30), pytest.raises((LinkDetached, SessionEnded), match="authenticated user"):
                while True:
                    await sender.send("mine")
        assert broker.queue("q").depth == 0


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", OLDER)
async def test_hidden(dialect: str) -> None:
    """A name in no property of the older AMQP, but where this package keeps what fits in none, is looked at, too."""
    long = b"y" * 70_000 if dialect == "0-10" else b"\xff"
    async with Broker(users={"me": "secret"}) as broker:
        url = broker.url.replace("//", "//me:secret@")
        async with Connection(url, dialect=dialect) as connection, connection.sender("q") as sender:
            with pytest.raises((LinkDetached, SessionEnded), match="authenticated user"):
                await sender.send(Message("another's", user_id=long))
        assert broker.queue("q").depth == 0


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", OLDER)
async def test_without_names(dialect: str) -> None:
    """Where nobody has a name, all may say what they want."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender:
            await sender.send(Message("x", user_id=b"you"))
        assert broker.queue("q").depth == 1
