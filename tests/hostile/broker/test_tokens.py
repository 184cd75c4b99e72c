"""Tokens of any form on the wire, both ways: at `$cbs`, at `/auth/tokens` and by `update-secret` of 0-9-1."""

from __future__ import annotations

import json
import time
import traceback
from base64 import urlsafe_b64encode
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Literal

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10 import (
    AmqpValue,
    Anonymous,
    Connection,
    ConnectionClosed,
    LoginTokens,
    ManagementError,
    Message,
    Plain,
    SasKey,
    Symbol,
    Token,
    TokenRefused,
    TokenRenewed,
)
from amqp10.amqp091 import Native
from amqp10.broker import Broker, JwtKey, SasRule, TokenRules
from amqp10.broker.internals import memory_streams
from amqp10.engine import ConnectionTerms
from amqp10.messaging import Data
from amqp10.net import StreamFacts
from amqp10.rabbitmq import management
from amqp10.sasl import Authenticator
from amqp10.types import Decimal32, ULong

from ...kit.broker.wire import Wire
from ...kit.hostile.cbs_server import Server
from ...kit.hostile.conversations import watching
from ...kit.inside.broker import PeerTokens, Refused, Rights, VirtualHostCore
from ...kit.inside.client import supervisor
from ...kit.jumping_clock import Backend, jumping
from ...kit.steps import steps
from ...kit.token_rig import KEY, SECRET, jwt, rules, wall
from ...kit.token_rig import Source as Tokens
from ...kit.waiting import until

pytestmark = pytest.mark.capability("tokens")

AUDIENCE = "sb://ns/"


@pytest.fixture
def anyio_backend(anyio_backend: str) -> Backend:
    """The hours of tokens pass in no time."""
    return jumping(anyio_backend)


# At `$cbs` of the broker


class Putting(Wire):
    """A peer of a broker that takes tokens, and its links to `$cbs`."""

    def __init__(self) -> None:
        vhost = VirtualHostCore(clock=lambda: 0.0)
        super().__init__(vhost, tokens=PeerTokens(TokenRules([SasRule("policy", KEY)], [JwtKey(SECRET)])))
        self.answers = self.receive_from("$cbs", credit=10_000)
        self.requests = self.send_to("$cbs")
        self.token = SasKey("policy", KEY).sign(AUDIENCE, int(time.time()) + 600).value

    def put(self, body: Any, **said: Any) -> int:
        """The status of an answer; the peer is still there."""
        properties = {"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": AUDIENCE} | said
        self.requests.send(Message(body, application_properties=properties).encode(), settled=True)
        self.turn()
        assert not self.over
        [answer] = self.answers.incoming
        self.answers.incoming.clear()
        status = Message.decode(answer.payload).application_properties["status-code"]
        assert isinstance(status, int)
        return status


@pytest.mark.parametrize("field", ["operation", "type", "name"])
def test_put_token_of_any_type(field: str) -> None:
    """What is no text says no operation, type or audience; the peer may go on and say it."""
    peer = Putting()
    for odd in (None, True, 2**63 - 1, float("nan"), Decimal32("sNaN"), b"\xff", "", "\0", "x" * 100_000, Symbol("x")):
        assert peer.put(AmqpValue(peer.token), **{field: odd}) in (400, 401)
    assert peer.put(AmqpValue(peer.token)) == 202


def test_bodies_that_are_no_token() -> None:
    peer = Putting()
    odd: list[Any] = [None, b"x", ULong(1), ["x"], {"x": 1}, Decimal32("sNaN"), "", "\0" * 9, "x" * 100_000]
    for body in (*map(AmqpValue, odd), Data(peer.token.encode())):
        assert peer.put(body) in (400, 401)
    assert peer.put(AmqpValue(peer.token)) == 202


def test_long_audiences() -> None:
    """An audience is kept as long as its token: a thousand of a megabyte each would be more than a broker has."""
    peer = Putting()
    assert peer.put(AmqpValue(peer.token), name=AUDIENCE + "x" * 1000) == 202
    assert peer.put(AmqpValue(peer.token), name=AUDIENCE + "x" * 3000) == 401
    assert peer.put(AmqpValue(peer.token), name=AUDIENCE + "/" * 3000) == 401


@pytest.mark.parametrize("audience", ["sb://ns/{}", "sb://{}/", "sb://ns/" + "a/" * 20 + "{}"])
def test_many_audiences(audience: str) -> None:
    """To check a right costs the same, however many tokens a peer has put for other entities, or for other hosts."""
    costs = []
    for count in (2, 500):
        tokens = PeerTokens(TokenRules([], [JwtKey(SECRET)], clock=lambda: 0.0))
        for name in ("q", *range(count)):
            tokens.put(audience.format(name), jwt({"exp": 60, "scope": "read:*/q read:*/s write:*/o*"}))
        rights = tokens.rights_in("/", None)
        assert rights is not None
        name = audience.removeprefix("sb://ns/").format("q") if "ns" in audience else "q"
        with pytest.raises(Refused):
            rights.check("configure", name)  # the first check after a change looks at all of them
        costs.append(steps(partial(_refused, rights, name)))
    assert costs[1] <= costs[0] + 100


def _refused(rights: Rights, name: str, action: Literal["configure", "read"] = "configure") -> None:
    with pytest.raises(Refused):
        rights.check(action, name)


def test_patterns_that_take_long() -> None:
    """Nor does a check become slow by many different patterns in a token."""
    scope = " ".join(f"read:*/*{'a*' * 20}{number}" for number in range(300))
    tokens = PeerTokens(TokenRules([], [JwtKey(SECRET)], clock=lambda: 0.0))
    tokens.put(AUDIENCE, jwt({"exp": 60, "scope": scope}))
    rights = tokens.rights_in("/", None)
    assert rights is not None
    rights.check("read", "a" * 100 + "299")
    assert steps(partial(_refused, rights, "a" * 2000, "read")) < 300 * 700


def test_many_links_to_check() -> None:
    """A peer whose tokens change has its links looked at a few at a time: others have their turn between them."""
    peer = Putting()
    assert peer.put(AmqpValue(peer.token)) == 202
    for number in range(100):
        peer.receive_from("q", name=str(number))
    assert len(list(peer.peer.check_rights())) >= 10


@pytest.mark.anyio
async def test_a_token_while_links_are_checked() -> None:
    """The links that were looked at before it came are looked at again."""
    async with Broker(None, tokens=rules(), queues=["q"]) as broker, broker.connect(idle_timeout=None) as connection:
        async with connection.requester("$cbs", reply_to="$cbs") as requester, AsyncExitStack() as stack:

            async def put(scope: str) -> None:
                said = {"operation": "put-token", "type": "jwt", "name": AUDIENCE}
                token = jwt({"exp": wall() + 600, "scope": scope})
                answer = await requester.request(Message(AmqpValue(token), application_properties=said))
                assert answer.application_properties["status-code"] == 202

            await put("read:*/*")
            for _ in range(400):
                await stack.enter_async_context(connection.receiver("q", credit=0))
            assert broker.queue("q").consumers == 400
            await put("read:*/* write:*/*")
            await put("write:*/*")
            await until(lambda: not broker.queue("q").consumers)


# For that of a login


def forged() -> list[bytes]:
    """Tokens that count for nothing, or are another user's."""

    def part(value: object) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": "ann", "exp": wall() + 60}
    unsigned = [f"{part({'alg': algorithm})}.{part(claims)}." for algorithm in ("none", "None", "HS512", "", 7, [1])]
    valid = jwt(claims)
    ends: list[Any] = [0, wall() - 1, -1e300, "soon", None, 10**400, []]
    users: list[Any] = ["eve", "", None, ["ann"], "Ann", "ann\0", "\ud800"]
    return [
        *(each.encode() for each in unsigned),
        *(b"", b".", b"..", b"\0", b"\xff\xfe", b"x" * 100_000, b"." * 60_000, valid.encode() + b"A"),
        valid.swapcase().encode(),
        valid.encode("utf-16"),
        jwt(claims, "another secret").encode(),
        *(jwt(claims | {"exp": end}).encode() for end in ends),
        *(jwt(claims | {"sub": user}).encode() for user in users),
        jwt(claims | {"nbf": wall() + 50}).encode(),
        ("[" * 30_000).encode(),
        f"{'W' * 30_000}.{'W' * 30_000}.".encode(),
        SasKey("policy", KEY).sign(AUDIENCE, int(wall()) + 60).value.encode(),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1"])
async def test_renewals_of_any_form(dialect: str) -> None:
    """None counts; messages of this connection (1.0) and of others go on, and nobody's secret is in what is said."""
    async with watching() as faults, Broker(None, tokens=rules(), users={"bob": "b"}, queues=["q", "r"]) as broker:
        good = Plain("a", (await Tokens(3600).get_token("")).value)
        async with broker.connect("amqp://bob:b@h") as other, other.sender("r") as beside, other.receiver("r") as back:
            for number, token in enumerate(forged()):
                async with broker.connect(dialect=dialect, sasl=good) as connection, connection.sender("q") as sender:
                    await sender.send(Message(number))
                    with pytest.raises(ManagementError if dialect == "1.0" else ConnectionClosed) as error:
                        if dialect == "1.0":
                            async with management(connection) as manager:
                                await manager.request("PUT", "/auth/tokens", AmqpValue(token))
                        else:
                            native: Native = connection.native
                            await native.update_secret(token.decode("latin-1"), "a test")
                    text = "".join(traceback.format_exception(error.value))
                    assert SECRET not in text
                    assert KEY not in text
                    if dialect == "1.0":
                        await sender.send(Message(number))
                await beside.send(Message(number))
                delivery = await back.receive()
                assert delivery.message.body == number
                delivery.accept()
        assert broker.queue("q").depth == len(forged()) * (2 if dialect == "1.0" else 1)
    assert not faults.seen


@pytest.mark.anyio
async def test_anonymous_renewals() -> None:
    """Who did not log in by a token does not become somebody by one."""
    async with Broker(None, tokens=rules()) as broker, broker.connect(sasl=Anonymous()) as connection:
        token = (await Tokens(3600).get_token("")).value
        async with management(connection) as manager:
            with pytest.raises(ManagementError, match="not opened with a token"):
                await manager.request("PUT", "/auth/tokens", AmqpValue(token.encode()))


# Of a server that answers anything


class Management(Server):
    """A server like RabbitMQ 4.1 that takes logins by any token, and answers at its management node as a test says."""

    def __init__(self, answer: Any) -> None:
        offers = {Symbol("product"): "RabbitMQ", Symbol("version"): "4.1." + "0" * 5000}
        super().__init__(
            lambda request: [] if answer is None else [answer(request)],
            ConnectionTerms("hostile", offered_capabilities=("LINK_PAIR_V1_0",), properties=offers),
            Authenticator(None, tokens=lambda user, token: "ann", allow_insecure=True).for_connection(
                secure=True, tokens=lambda user, token: "ann"
            ),
        )


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    [
        None,
        lambda request: b"\xff",
        lambda request: Message("no status", correlation_id=request.message_id),
        lambda request: Message("x" * 100_000, subject="403", correlation_id=request.message_id),
        lambda request: Message("x", subject="9" * 5000, correlation_id=request.message_id),
        lambda request: Message("x", subject="\u00b2\u00b2", correlation_id=request.message_id),
        lambda request: Message(request.body, subject="401", correlation_id=request.message_id),
        lambda request: Message(AmqpValue(Decimal32("sNaN")), subject="-204", correlation_id=request.message_id),
        lambda request: Message(None, subject="204", correlation_id=b"another's"),
    ],
    ids=["never", "no message", "no status", "long", "digits", "no digits", "the token", "sNaN", "another's"],
)
async def test_servers_that_refuse_renewals(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes on to the token's end; each refusal is told, with no more than somebody reads of it."""
    events: list[Any] = []
    given: list[str] = []

    async def give(scope: str) -> Token:
        given.append(f"the-secret-token-{len(given)}")
        return Token(given[-1], wall() + 600)

    async def connect(*_: Any) -> tuple[ByteStream, StreamFacts]:
        ours, theirs = memory_streams()
        tasks.start_soon(Management(answer).serve, ours)
        return theirs, StreamFacts(secure=True)

    async def watch() -> None:
        async for event in connection.events():
            events.append(event)

    monkeypatch.setattr(supervisor, "connect", connect)
    async with watching() as faults, anyio.create_task_group() as tasks:
        tokens = LoginTokens(give, clock=wall, timeout=20)
        async with Connection("amqp://hostile", tokens=tokens, idle_timeout=None, close_timeout=1) as connection:
            tasks.start_soon(watch)
            await anyio.sleep(580)
            assert connection.open
            health = connection.health()
            assert 0 < (health.token_expires_in or 0) < 60
        tasks.cancel_scope.cancel()
    refused = [event for event in events if isinstance(event, TokenRefused)]
    assert refused
    assert not [event for event in events if isinstance(event, TokenRenewed)]
    assert all(len(str(event.cause)) < 2000 and "the-secret-token" not in str(event) for event in refused)
    assert not faults.seen
