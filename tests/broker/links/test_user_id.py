"""Messages that say whose they are: taken from him, and from nobody else where the broker looks."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10 import Connection, DecodeError, LinkDetached, Message, MessageRejected, Rejected, SessionEnded
from amqp10.broker import Broker
from amqp10.broker._links.user_id import check_user_id
from amqp10.dialects.fast.wire.values import write_table
from amqp10.engine import dialect_names
from amqp10.messaging import AmqpValue, Target
from amqp10.testing.strategies import messages
from amqp10.types import ULong

from ...kit.broker.wire import Wire, queue_of
from ...kit.inside.broker import VirtualHostCore, VirtualHostSettings

OLDER = ("0-10", "0-9", "0-9-1", "0-9-draft")
REFUSED: dict[str, tuple[type[Any], str]] = {
    "0-10": (SessionEnded, "amqp:unauthorized-access"),
    **dict.fromkeys(("0-9", "0-9-1", "0-9-draft"), (LinkDetached, "amqp:precondition-failed")),
    **dict.fromkeys(("1.0", "fast"), (MessageRejected, "amqp:unauthorized-access")),
}


@given(messages(), st.sampled_from([None, b"", b"me", b"you", b"\xff"]))
@pytest.mark.slow
def test_claims(message: Message, user_id: bytes | None) -> None:
    """Whatever else a message says, it is forged if its user-id is another one."""
    payload = message.replace(user_id=user_id).encode()
    assert (check_user_id(payload, "me") is not None) is (user_id not in (None, b"me"))
    assert (check_user_id(payload, None) is not None) is bool(user_id)


@pytest.mark.parametrize("message_id", [None, 0, ULong(7), 2**63, "m", "m" * 300, b"m", b"m" * 300])
def test_claims_behind_ids(message_id: Any) -> None:
    """The user-id comes behind a message-id, of whatever kind that is."""
    for user_id in (None, b"you"):
        message = Message(b"x", message_id=message_id, user_id=user_id, subject="s", durable=True)
        assert (check_user_id(message.encode(), "me") is not None) is (user_id is not None)


@pytest.mark.anyio
@pytest.mark.parametrize("checks", [None, True, False])
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_users(dialect: str, checks: bool | None) -> None:
    """Where clients have names all are asked for the truth, unless the broker says no."""
    asked = checks is not False
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
            with anyio.fail_after(60), pytest.raises((LinkDetached, SessionEnded), match="authenticated user"):
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


WHOLE = Message(b"x", user_id=b"you").encode()
MADE_UP: dict[str, Message] = {
    "a header of Fast": Message(
        b"x", message_annotations={"x-opt-fast": write_table({"headers": {"x-opt-amqp10-user-id": "you"}})}
    ),
    "a whole message in Fast": Message(
        WHOLE, message_annotations={"x-opt-fast": write_table({"mime-type": "application/vnd.amqp10"})}
    ),
    "sections in Fast": Message(
        WHOLE,
        message_annotations={"x-opt-fast": write_table({"mime-type": "application/vnd.amqp10; section=amqp-value"})},
    ),
    "a whole message in 0-9-1": Message(WHOLE, message_annotations={"x-opt-0-9-1": {"type": "amqp-1.0"}}),
    "a property of 0-9-1": Message(b"x", message_annotations={"x-opt-0-9-1": {"user-id": "you", "user_id": "you"}}),
    "what found no place in 0-9-1": Message(
        b"x", message_annotations={"x-opt-0-9-1": {"headers": {"x-opt-amqp10": WHOLE}}}
    ),
    "another spelling": Message(
        b"x", user_id="Ã©".encode(), message_annotations={"x-opt-0-9-1": {"latin-1": ["user_id"]}}
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("message", MADE_UP.values(), ids=MADE_UP)
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_made_up(dialect: str, message: Message) -> None:
    """What an older dialect keeps in annotations of 1.0, whoever writes it, makes nobody the sender."""
    async with Broker(users={"Ã©": "secret", "you": "secret", "é": "secret"}) as broker:
        url = broker.url.replace("//", "//%C3%83%C2%A9:secret@")
        async with Connection(url) as connection, connection.sender("q") as sender:
            await sender.send(message)
        async with Connection(url, dialect=dialect) as connection, connection.receiver("q") as receiver:
            assert (await receiver.receive()).message.user_id == message.user_id


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", OLDER)
async def test_without_names(dialect: str) -> None:
    """Where nobody has a name, all may say what they want."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        async with connection.sender("q") as sender:
            await sender.send(Message("x", user_id=b"you"))
        assert broker.queue("q").depth == 1


CLAIM = b"\0\x53\x73\xc0\x09\x02\x40\xa0\x05alice"  # properties with a user-id
NOTHING = b"\0\x53\x73\x45"
WIDE = b"\0\x80\0\0\0\0\0\0\0\x73" + CLAIM[3:]
NAMED = b"\0\xa3\x14amqp:properties:list" + CLAIM[3:]
APPLICATION = b"\0\x53\x74\xc1\x01\x00"
BODY = b"\0\x53\x75\xa0\x01x"
VALUE = b"\0\x53\x77\x45"
HIDING_MAP = b"\0\x53\x72\xc1" + bytes((1 + len(CLAIM), 0)) + CLAIM  # whose entries end before it does
HIDING_LIST = b"\0\x53\x76\xc0" + bytes((1 + len(CLAIM), 0)) + CLAIM
INNER = b"\0\x53\x75\xa0" + bytes((len(CLAIM + BODY),)) + CLAIM + BODY


@pytest.mark.parametrize(
    "payload",
    [
        APPLICATION + CLAIM + BODY,
        BODY + CLAIM,
        NOTHING + CLAIM + BODY,
        NOTHING + BODY + CLAIM,
        NOTHING + BODY + WIDE,
        NOTHING + BODY + NAMED,
        CLAIM + NOTHING + BODY,
        b"\xa0\x01x" + CLAIM + BODY,
        b"\0\x53\x24\x45" + CLAIM + BODY,
        HIDING_MAP + NOTHING + BODY,
        NOTHING + HIDING_LIST,
        BODY + VALUE + CLAIM,
        CLAIM[:-1],
        NOTHING[:-1] + b"\xa0\x00" + CLAIM,
        BODY[:-2] + b"\xff" + CLAIM,
    ],
)
@pytest.mark.parametrize("message_format", [0, 1, 0x8001_3700])
def test_doubtful(payload: bytes, message_format: int) -> None:
    """A user-id that some decoder might find is not passed on, wherever it stands."""
    with pytest.raises(DecodeError):
        check_user_id(payload, "bob", message_format)


@pytest.mark.parametrize(
    "descriptor",
    [
        *(b"\x50s", b"\x51s", b"\x52s", b"\x54s", b"\x55s", b"\x60\0s", b"\x61\0s", b"\x70\0\0\0s", b"\x71\0\0\0s"),
        *(b"\x81\0\0\0\0\0\0\0s", b"\x72\x42\xe6\0\0", b"\x82\x40\x5c\xc0\0\0\0\0\0", b"\xa1\x03115"),
    ],
)
def test_numbers_for_descriptors(descriptor: bytes) -> None:
    """A number of another type, or a text, is no descriptor: what has one is refused, for some take it for one."""
    claim = b"\0" + descriptor + CLAIM[3:]
    for payload in (claim + BODY, NOTHING + claim + BODY, BODY + claim, APPLICATION + claim):
        with pytest.raises(DecodeError):
            check_user_id(payload, "bob")


@pytest.mark.parametrize("body", [None, True, 1, 1.5, "x", {"a": [1]}, [b"x" * 300], "x" * 300])
def test_bodies_of_all_kinds(body: Any) -> None:
    """A value of any kind is no claim."""
    assert check_user_id(Message(AmqpValue(body), durable=True).encode(), "bob") is None


@pytest.mark.parametrize("claim", [CLAIM, WIDE, NAMED])
def test_descriptors(claim: bytes) -> None:
    """Properties are found by each of their descriptors, in a message of another format too."""
    assert check_user_id(claim + BODY, "bob") is not None
    assert check_user_id(claim + BODY, "alice") is None
    assert check_user_id(claim + BODY, "bob", 1) is not None


def test_formats() -> None:
    """Another format is taken where it has no properties but plain ones; what is in its body may be a message."""
    assert check_user_id(b"anything", "bob", 1) is None
    assert check_user_id(NOTHING + BODY, "bob", 1) is None
    assert check_user_id(INNER, "bob", 0x8001_3700) is not None
    assert check_user_id(INNER, "bob") is None


def test_formats_are_refused() -> None:
    """A sender's message-format, or order of sections, does not get a forged user-id past the broker."""
    wire = Wire(VirtualHostCore(VirtualHostSettings(check_user_id=True), clock=lambda: 0.0))
    for address in ("q", None):
        link = wire.send_to(Target(address=address))
        for payload, message_format in ((CLAIM + BODY, 1), (BODY + CLAIM, 0), (NOTHING + BODY + CLAIM, 0)):
            delivery = link.send(payload, message_format=message_format)
            wire.turn()
            assert isinstance(delivery.remote_state, Rejected)
    link = wire.send_to("q", name="another")
    link.send(BODY, message_format=1)
    wire.turn()
    assert queue_of(wire.vhost, "q").depth == 1
