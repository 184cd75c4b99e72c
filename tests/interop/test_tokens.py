"""Tokens that renew at RabbitMQ, with its OAuth 2 plugin and a key that is made here."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from amqp10 import (
    AuthenticationFailed,
    Connection,
    ConnectionRestored,
    LoginTokens,
    Message,
    Plain,
    Reconnect,
    Token,
    TokenRenewed,
)
from amqp10.rabbitmq import management, queue_address

from ..kit.unavailable import unavailable
from .brokers import NEWEST, STABLE, Unavailable, mortal_rabbitmq
from .brokers._rabbitmq import MortalRabbitMQ

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.capability("tokens"),
    pytest.mark.xdist_group("tokens"),
]

LIFE = 4.0  # seconds
SLACK = 5.0  # seconds that a process may be held up, on a busy machine, between a renewal and the end of a token
_numbers = count()


class Issuer:
    """Signs tokens that live for some seconds."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    async def get_token(self, scope: str) -> Token:
        return self.sign(scope, LIFE)

    def sign(self, scope: str, life: float) -> Token:
        end = int(time.time() + life)
        claims = {"sub": "ann", "aud": "rabbitmq", "exp": end, "jti": next(_numbers), "scope": scope.split()}
        parts = [
            base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
            for each in ({"alg": "RS256", "typ": "JWT", "kid": "key"}, claims)
        ]
        signature = self._key.sign(b".".join(parts), padding.PKCS1v15(), SHA256())
        return Token(b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode(), float(end))


SCOPE = "rabbitmq.read:*/* rabbitmq.write:*/* rabbitmq.configure:*/*"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module", params=[STABLE, NEWEST])
def rabbit(
    authority: Path, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MortalRabbitMQ]:
    """One of its own, 4.0 or 4.3, that takes the issuer's tokens."""
    key = tmp_path_factory.mktemp("issuer") / "key.pem"
    key.write_bytes(issuer.public_key())
    try:
        with mortal_rabbitmq(authority, token_key=key, suite=request.param) as broker:
            yield broker
    except Unavailable as error:
        unavailable(f"no rabbitmq: {error}")


def bare(rabbit: MortalRabbitMQ) -> str:
    """Its URL without credentials."""
    return f"amqp://127.0.0.1:{rabbit.server.ports['amqp']}"


@pytest.mark.parametrize(
    ("rabbit", "dialect", "tokens_outlived", "anyio_backend"),
    [
        (STABLE, "0-9-1", 4, "trio"),
        (STABLE, "0-9-1", 4, "asyncio"),
        (NEWEST, "0-9-1", 10, "trio"),
        (NEWEST, "1.0", 10, "asyncio"),
    ],
    indirect=["rabbit"],
)
async def test_renewed(rabbit: MortalRabbitMQ, issuer: Issuer, dialect: str, tokens_outlived: int) -> None:
    """A connection outlives its tokens with messages on their way, and loses none.

    In 0-9-1 by `connection.update-secret`, in 1.0 by `PUT /auth/tokens`, which RabbitMQ has since 4.1.
    """
    ends: list[float] = []

    async def early(scope: str) -> Token:
        """It is said to end sooner than it does."""
        token = issuer.sign(scope, LIFE + SLACK)
        assert token.expires_on is not None
        ends.append(token.expires_on)
        return Token(token.value, token.expires_on - SLACK)

    tokens = LoginTokens(early, SCOPE)
    async with Connection(bare(rabbit), dialect=dialect, tokens=tokens) as connection:
        renewed: list[TokenRenewed] = []

        async def watch() -> None:
            async for event in connection.events():
                assert isinstance(event, TokenRenewed), event
                renewed.append(event)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            name = f"q-{secrets.token_hex(4)}"
            if dialect == "1.0":
                async with management(connection) as manager:
                    await manager.declare_queue(name, "classic", exclusive=True)
                name = queue_address(name)
            else:
                await connection.native.declare_queue(name, exclusive=True)
            async with connection.sender(name) as sender, connection.receiver(name) as receiver:
                sent = 0
                with anyio.fail_after(300):
                    while sum(end < time.time() for end in ends) < tokens_outlived:
                        await sender.send(Message(sent))
                        delivery = await receiver.receive()
                        assert delivery.message.body in (sent, str(sent).encode())
                        delivery.accept()
                        sent += 1
                        await anyio.sleep(0.02)
            assert sent > 10
            assert len(renewed) >= tokens_outlived
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("dialect", ["1.0", "0-9-1"])
async def test_without_renewal(rabbit: MortalRabbitMQ, issuer: Issuer, dialect: str) -> None:
    """Without another token RabbitMQ closes, or refuses, when the first one has ended, which is said so."""
    given = False

    async def once(scope: str) -> Token:
        nonlocal given
        if given:
            raise OSError("the issuer is away")
        given = True
        return await issuer.get_token(scope)

    tokens = LoginTokens(once, SCOPE)
    async with Connection(bare(rabbit), dialect=dialect, tokens=tokens) as connection:
        with anyio.fail_after(60), pytest.raises(AuthenticationFailed, match="ran out"):
            await forever(connection)


async def forever(connection: Connection) -> None:
    """Receive from a queue of its own in which nothing comes."""
    name = f"q-{secrets.token_hex(4)}"
    if connection.dialect == "1.0":
        async with management(connection) as manager:
            await manager.declare_queue(name, "classic", exclusive=True)
        async with connection.receiver(queue_address(name)) as receiver:
            await receiver.receive()
    else:
        await connection.native.declare_queue(name, exclusive=True)
        async with connection.receiver(name) as receiver:
            await receiver.receive()


@pytest.mark.parametrize("rabbit", [STABLE], indirect=True)
async def test_reconnects(rabbit: MortalRabbitMQ, issuer: Issuer) -> None:
    """With `reconnect` another token logs in anew when the first one has ended: 4.0 can be told none in 1.0."""
    name = f"q-{secrets.token_hex(4)}"
    async with Connection(rabbit.server.url(), sasl=Plain("user", "secret")) as owner, management(owner) as manager:
        await manager.declare_queue(name, "classic")
        tokens = LoginTokens(issuer, SCOPE)
        async with (
            Connection(bare(rabbit), tokens=tokens, reconnect=Reconnect()) as connection,
            connection.sender(queue_address(name)) as sender,
        ):
            with anyio.fail_after(60):
                async for event in connection.events():
                    if isinstance(event, ConnectionRestored):
                        break
                await sender.send(Message("after"))
        assert await manager.purge_queue(name) == 1
        await manager.delete_queue(name)
