"""Tokens that renew, on the test's clock: to log in with in every dialect, and at `$cbs`."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import anyio
import pytest

from amqp10 import (
    AuthenticationFailed,
    CbsTokens,
    Connection,
    ConnectionClosed,
    ConnectionRestored,
    InsecureTransport,
    LinkDetached,
    LoginTokens,
    Message,
    OAuthBearer,
    Plain,
    Reconnect,
    Token,
    TokenRefused,
    TokenRenewed,
    Unsupported,
    XOAuth2,
)
from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.internals import memory_streams
from amqp10.engine import dialect_names
from amqp10.types import Int

from ...kit.hostile.cbs_server import Server
from ...kit.token_rig import EPOCH, KEY, Network, Source, logins, rules, sas_key, wall

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("tokens")]

NAMES = sorted(dialect_names())
QUICK = Reconnect(initial_delay=0.1, max_delay=1.0)
RENEWING = ("1.0", "0-9-1")


class Watch:
    """The events of a connection about tokens."""

    def __init__(self, connection: Connection) -> None:
        self.events: list[Any] = []
        self._observer = connection.events()

    async def run(self) -> None:
        async for event in self._observer:
            self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


# To log in with


async def test_a_clock_that_leaps() -> None:
    """When the time is set anew, or the machine was suspended, the next token is asked for within a minute."""
    ahead = 0.0

    def clock() -> float:
        return wall() + ahead

    source = Source(lifetime=7200)
    tokens = LoginTokens(source, clock=clock)
    async with Broker(None, tokens=rules()) as broker, broker.connect(tokens=tokens, idle_timeout=None):
        await anyio.sleep(1)
        ahead = 6000.0  # more than 80 % of a token's life
        await anyio.sleep(60)
        assert len(source.asked) == 2


@pytest.mark.parametrize("dialect", NAMES)
async def test_login(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection logs in with a token, in every dialect, and with another one after a loss."""
    source = Source()
    async with Broker(None, tokens=rules(), queues=["q"]) as broker:
        network = Network(monkeypatch, broker)
        async with (
            Connection("amqp://h", dialect=dialect, tokens=logins(source), reconnect=QUICK) as connection,
            connection.sender("q") as sender,
        ):
            await sender.send(Message("before"))
            await network.cut()
            await sender.send(Message("after"))
            assert network.connected == 2
            assert source.asked == ["", ""]
            assert broker.queue("q").depth >= 2


@pytest.mark.parametrize("dialect", RENEWING)
@pytest.mark.slow
async def test_renewed(dialect: str) -> None:
    """A connection outlives ten of its tokens; the broker is told each one, and sends go on meanwhile."""
    source = Source(lifetime=600)
    async with (
        Broker(None, tokens=rules(), queues=["q"], max_queue_messages=1000) as broker,
        broker.connect(dialect=dialect, tokens=logins(source), idle_timeout=None) as connection,
        anyio.create_task_group() as tasks,
    ):
        watch = Watch(connection)
        tasks.start_soon(watch.run)
        async with connection.sender("q") as sender:
            began, sent = wall(), 0
            while wall() < began + 6000:
                await sender.send(Message("x"))
                sent += 1
                await anyio.sleep(29)
        assert broker.queue("q").depth == sent > 200
        renewed = watch.of(TokenRenewed)
        assert len(renewed) >= 11
        assert all(event.audience == "login" for event in renewed)
        assert not watch.of(TokenRefused)
        assert 100 < (connection.health().token_expires_in or 0) <= 600
        # At 80 % of the life, with jitter: neither much earlier nor later.
        gaps = [b.expires_on - a.expires_on for a, b in pairwise(renewed)]
        assert all(600 * 0.75 <= gap <= 600 * 0.8 + 1 for gap in gaps)
        assert len(set(gaps)) > 1
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("dialect", NAMES)
async def test_ended_by_the_broker(dialect: str) -> None:
    """Without another token the broker closes when the first one ends, and so the client says: in every waiter."""
    source = Source(lifetime=100)

    def behave(count: int) -> None:
        if count:
            raise OSError("the issuer is away")

    source.behave = behave
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect(dialect=dialect, tokens=logins(source), idle_timeout=None) as connection,
        connection.receiver("q") as receiver,
    ):
        with anyio.fail_after(200), pytest.raises(AuthenticationFailed, match="ran out"):
            await receiver.receive()
        with pytest.raises(AuthenticationFailed):
            async with connection.sender("q"):
                pytest.fail("the connection is over")


@pytest.mark.parametrize("dialect", RENEWING)
async def test_source_recovers(dialect: str) -> None:
    """A source that raises, and then hangs, is asked again with pauses: the token before counts until it ends."""
    source = Source(lifetime=1000)

    def behave(count: int) -> Any:
        if count in (1, 2):
            raise OSError("the issuer is away")
        return anyio.sleep_forever() if count == 3 else None

    source.behave = behave
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect(dialect=dialect, tokens=logins(source), idle_timeout=None) as connection,
        anyio.create_task_group() as tasks,
    ):
        watch = Watch(connection)
        tasks.start_soon(watch.run)
        await anyio.sleep(1500)
        refused = watch.of(TokenRefused)
        assert len(refused) == 3
        assert isinstance(refused[0].cause.__cause__, OSError)
        assert isinstance(refused[2].cause.__cause__, TimeoutError)
        assert all(0 < event.again_in <= 30 for event in refused)
        assert len(watch.of(TokenRenewed)) == 1
        async with connection.sender("q") as sender:
            await sender.send(Message("x"))
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("dialect", RENEWING)
async def test_renewal_refused(dialect: str) -> None:
    """A token of another user is refused by the broker: 1.0 tries again, 0-9-1 has no answer but the end."""
    source = Source(lifetime=100)
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect(dialect=dialect, tokens=logins(source), idle_timeout=None) as connection,
        anyio.create_task_group() as tasks,
    ):
        watch = Watch(connection)
        tasks.start_soon(watch.run)
        source._claims["sub"] = "eve"
        async with connection.receiver("q") as receiver:
            with anyio.fail_after(200), pytest.raises((AuthenticationFailed, ConnectionClosed)) as caught:
                await receiver.receive()
        if dialect == "1.0":
            assert isinstance(caught.value, AuthenticationFailed)
            assert "another user" in str(watch.of(TokenRefused)[0].cause)
        else:
            assert "another user" in str(caught.value)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.slow
async def test_expired_during_an_outage(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that ends while the network is away: the next connect asks for another one."""
    source = Source(lifetime=100)
    async with Broker(None, tokens=rules(), queues=["q"]) as broker:
        network = Network(monkeypatch, broker)
        async with (
            Connection("amqp://h", dialect=dialect, tokens=logins(source), reconnect=QUICK) as connection,
            connection.sender("q") as sender,
        ):
            network.down = True
            await network.cut()
            await anyio.sleep(500)
            network.down = False
            await sender.send(Message("x"))
            assert wall() < Token.read(source.given[-1]).expires_on  # type: ignore[operator]
            assert broker.queue("q").depth == 1


@pytest.mark.parametrize("dialect", NAMES)
async def test_reconnects_after_the_end(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a token ran out and there is `reconnect`, the connection comes back when there is another."""
    source = Source(lifetime=100)
    away = True

    def behave(count: int) -> None:
        if count and away:
            raise OSError("the issuer is away")

    source.behave = behave
    async with Broker(None, tokens=rules(), queues=["q"]) as broker:
        network = Network(monkeypatch, broker)
        async with (
            Connection(
                "amqp://h", dialect=dialect, tokens=logins(source), reconnect=QUICK, idle_timeout=None
            ) as connection,
            connection.sender("q") as sender,
        ):
            events = connection.events()
            await anyio.sleep(200)
            assert not connection.open
            away = False
            with anyio.fail_after(60):
                await sender.send(Message("x"))
            assert network.connected == 2
            async for event in events:
                if isinstance(event, ConnectionRestored):
                    break


async def test_no_token_at_first() -> None:
    """A source that raises at the first connect: the error says so, names no secret, and has the cause."""
    source = Source()

    def behave(count: int) -> None:
        raise OSError(KEY)

    source.behave = behave
    async with Broker(None, tokens=rules()) as broker:
        with pytest.raises(AuthenticationFailed, match="its source raised OSError") as caught:
            async with broker.connect(tokens=logins(source)):
                pytest.fail("there is no token")
    assert KEY not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "XOAUTH2", "PLAIN"])
async def test_mechanisms(mechanism: Any) -> None:
    """Each of the mechanisms that carry a token."""
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect(tokens=logins(Source(), mechanisms=[mechanism])) as connection,
        connection.sender("q") as sender,
    ):
        assert connection.mechanism == mechanism
        await sender.send(Message("x"))


async def test_login_settings() -> None:
    """The user of the URL is told beside the token, and what does not fit is refused."""

    async def source(scope: str) -> str:
        return "opaque"

    tokens = LoginTokens(source, user=None, allow_insecure=True)
    connection = Connection("amqp://u:ignored@h", tokens=tokens)
    keeper = connection._core.tokens
    endpoint = connection._core.supervisor.endpoint
    assert keeper is not None
    assert endpoint is not None
    found = await keeper.login(endpoint)
    assert found is not None
    assert [type(one) for one in found] == [OAuthBearer, XOAuth2, Plain]
    assert [one.user for one in found] == ["u", "u", "u"]  # type: ignore[attr-defined]
    assert not any(one.needs_tls for one in found)
    with pytest.raises(ValueError, match="leave out sasl"):
        Connection("amqp://h", tokens=tokens, sasl=Plain("u", "p"))
    with pytest.raises(ValueError, match="mechanisms must be some of"):
        LoginTokens(lambda scope: "x", mechanisms=["ANONYMOUS"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="more than 0"):
        CbsTokens(sas_key(), timeout=0)
    with pytest.raises(TypeError, match="LoginTokens"):
        Connection("amqp://h", tokens=sas_key())  # type: ignore[arg-type]


# At $cbs


@pytest.mark.slow
async def test_cbs() -> None:
    """Ten hours of token life: links wait for their tokens, each address has its own, and nothing is lost."""
    asked: list[str] = []
    key = sas_key(lifetime=3600)

    async def source(scope: str) -> Token:
        asked.append(scope)
        return await key.get_token(scope)

    async with (
        Broker(None, tokens=rules(), queues=["orders", "more"], max_queue_messages=1000) as broker,
        broker.connect("amqp://ns", tokens=CbsTokens(source, clock=wall), idle_timeout=None) as connection,
        anyio.create_task_group() as tasks,
    ):
        watch = Watch(connection)
        tasks.start_soon(watch.run)
        assert connection.health().token_expires_in is None
        async with connection.sender("orders") as sender, connection.sender("more") as second:
            assert 3590 < (connection.health().token_expires_in or 0) <= 3600
            began, sent = wall(), 0
            while wall() < began + 36_000:
                await sender.send(Message("x"))
                await second.send(Message("y"))
                sent += 1
                await anyio.sleep(170)
        assert broker.queue("orders").depth == broker.queue("more").depth == sent > 200
        for queue in ("orders", "more"):
            renewed = [event for event in watch.of(TokenRenewed) if event.audience == f"amqps://ns/{queue}"]
            assert len(renewed) == asked.count(f"amqps://ns/{queue}") >= 10
        assert not watch.of(TokenRefused)
        tasks.cancel_scope.cancel()


async def test_cbs_one_request_at_a_time() -> None:
    """Many links of one address share a token: its source is asked once."""
    source = Source()
    source.behave = lambda count: anyio.sleep(1)
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect("amqp://ns", tokens=CbsTokens(source, clock=wall)) as connection,
        anyio.create_task_group() as tasks,
    ):

        async def attach() -> None:
            async with connection.sender("q") as sender:
                await sender.send(Message("x"))

        for _ in range(5):
            tasks.start_soon(attach)
    assert source.asked == ["amqps://ns/q"]
    assert broker.queue("q").depth == 5


async def test_cbs_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reconnect the tokens are put before the links attach; one that ended in the outage is replaced."""
    key = sas_key(lifetime=100)
    async with Broker(None, tokens=rules(), queues=["a", "b"]) as broker:
        network = Network(monkeypatch, broker)
        tokens = CbsTokens(key, clock=wall)
        async with (
            Connection("amqp://ns", tokens=tokens, reconnect=QUICK, idle_timeout=None) as connection,
            connection.sender("a") as sender,
            connection.receiver("b") as receiver,
        ):
            for pause in (1, 500):
                network.down = True
                await network.cut()
                await anyio.sleep(pause)
                network.down = False
                await sender.send(Message("x"))
                async with connection.sender("b") as other:
                    await other.send(Message("y"))
                (await receiver.receive()).accept()
            assert broker.queue("a").depth == 2
            assert network.connected == 3
            # The links to the node are attached anew for the next token; nobody restores those that were lost.
            assert connection._core.recovery is not None
            assert len(connection._core.recovery.sessions) == 1


async def test_cbs_runs_out() -> None:
    """When a token ends without another, the links of its address are over, and the others go on."""
    key = sas_key(lifetime=300)

    async def source(scope: str) -> Token:
        if scope.endswith("/a") and wall() > began + 10:
            raise OSError("the vault is away")
        return await key.get_token(scope)

    async with (
        Broker(None, tokens=rules(), queues=["a", "b"]) as broker,
        broker.connect("amqp://ns", tokens=CbsTokens(source, clock=wall), idle_timeout=None) as connection,
        anyio.create_task_group() as tasks,
    ):
        began = wall()
        watch = Watch(connection)
        tasks.start_soon(watch.run)
        async with connection.sender("b") as sender:
            async with connection.receiver("a") as receiver:
                with anyio.fail_after(400), pytest.raises(AuthenticationFailed, match="ran out") as caught:
                    await receiver.receive()
            assert wall() - began == pytest.approx(300, abs=2)
            assert caught.value.__cause__ is not None
            await anyio.sleep(0.1)
            assert watch.of(TokenRefused)[-1].again_in is None
            await sender.send(Message("x"))
            with pytest.raises(AuthenticationFailed, match="OSError"):
                async with connection.sender("a"):
                    pytest.fail("there is no token")
        tasks.cancel_scope.cancel()


async def test_cbs_ended_for_the_peer_only() -> None:
    """A link that is refused, because the peer's clock is ahead, attaches with another token, which is put first."""
    ahead = 0.0
    async with (
        Broker(None, tokens=rules(clock=lambda: wall() + ahead), queues=["q"]) as broker,
        broker.connect("amqp://ns", tokens=CbsTokens(sas_key(), clock=wall), idle_timeout=None) as connection,
    ):
        async with connection.sender("q"):
            pass
        await anyio.sleep(100)
        ahead = 550.0
        async with connection.sender("q") as sender:
            await sender.send(Message("x"))
        assert broker.queue("q").depth == 1


async def test_cbs_refused() -> None:
    """A token that the peer refuses is an error where the link is entered, in the peer's words."""
    wrong = CbsTokens(Source(scope="read:*/*"), clock=wall)
    async with Broker(None, tokens=rules(sas=[SasRule("listen", KEY, ["Listen"])]), queues=["q"]) as broker:
        async with broker.connect("amqp://ns", tokens=CbsTokens(sas_key(), clock=wall)) as connection:
            with pytest.raises(AuthenticationFailed, match=r"was refused: .*not signed with the key of a known rule"):
                async with connection.sender("q"):
                    pytest.fail("the rule is not known")
        async with broker.connect("amqp://ns", tokens=wrong) as connection:
            async with connection.receiver("q"):
                pass
            with pytest.raises(LinkDetached, match="write access"):
                async with connection.sender("q"):
                    pytest.fail("the token allows to read only")


async def test_cbs_nobody_there() -> None:
    """A peer without the node refuses its links, and a dialect without links is not asked."""
    async with Broker(None, auto_create=False, queues=["q"]) as broker:
        tokens = CbsTokens(sas_key(), clock=wall)
        async with broker.connect("amqp://ns", tokens=tokens, channel_max=1) as connection:
            for _ in range(3):  # each time on the second of two sessions, which is ended
                with pytest.raises(AuthenticationFailed, match="no node"):
                    async with connection.sender("q"):
                        pytest.fail("nobody takes tokens")
        async with broker.connect("amqp://ns", dialect="0-9-1", tokens=CbsTokens(sas_key(), clock=wall)) as connection:
            with pytest.raises(Unsupported, match="LoginTokens"):
                async with connection.sender("q"):
                    pytest.fail("there is no such node")


async def test_cbs_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is not put where others could read it, unless that is asked for."""
    async with Broker(None, tokens=rules(), queues=["q"]) as broker:
        network = Network(monkeypatch, broker)
        network.secure = False
        source = Source()
        async with Connection("amqp://ns", tokens=CbsTokens(source, clock=wall)) as connection:
            with pytest.raises(InsecureTransport, match="allow_insecure"):
                async with connection.sender("q"):
                    pytest.fail("there is no TLS")
        assert not source.asked
        allowed = CbsTokens(source, clock=wall, allow_insecure=True)
        async with Connection("amqp://ns", tokens=allowed) as connection, connection.sender("q") as sender:
            await sender.send(Message("x"))


async def test_cbs_in_the_clear_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was put on a secure connection is not put on the next one, which is none."""
    told: list[str] = []
    check = TokenRules.check

    def heard(self: TokenRules, token: str, audience: str | None = None) -> Any:
        told.append(token)
        return check(self, token, audience)

    monkeypatch.setattr(TokenRules, "check", heard)
    async with Broker(None, tokens=rules(), queues=["q"]) as broker:
        network = Network(monkeypatch, broker)
        async with (
            Connection(
                "amqp://ns", tokens=CbsTokens(sas_key(), clock=wall), reconnect=QUICK, idle_timeout=None
            ) as connection,
            connection.sender("q") as sender,
        ):
            await sender.send(Message("x"))
            assert len(told) == 1
            network.secure = False
            await network.cut()
            with pytest.raises(AuthenticationFailed, match="restored without TLS"), anyio.fail_after(700):
                while True:
                    await sender.send(Message("x"))
            assert network.connected == 2
    assert len(told) == 1


async def test_cbs_while_the_source_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss the token that has not ended is put again: nobody asks the source for another."""
    for end in (EPOCH + 10_000, None):
        source = Source()
        given = Token((await source.get_token("")).value, end)

        async def once(scope: str, given: Token = given, source: Source = source) -> Token:
            source.asked.append(scope)
            return given

        async with Broker(None, tokens=rules(), queues=["q"]) as broker:
            network = Network(monkeypatch, broker)
            tokens = CbsTokens(once, clock=wall)
            async with (
                Connection("amqp://ns", tokens=tokens, reconnect=QUICK, idle_timeout=None) as connection,
                connection.sender("q") as sender,
            ):
                await sender.send(Message("x"))
                await network.cut()
                await sender.send(Message("y"))
        assert network.connected == 2
        assert source.asked == ["", "amqps://ns/q"]
        assert broker.queue("q").depth == 2


async def test_cbs_requests() -> None:
    """What is told of each token: its kind, what it is for, and its end in milliseconds; all over one pair of links."""
    requests: list[Message] = []

    def answers(request: Message) -> list[Message | bytes]:
        requests.append(request)
        taken = Message(application_properties={"status-code": Int(202)}, correlation_id=request.message_id)
        return [taken]

    def source(scope: str) -> Token:
        if scope.endswith("/sas"):
            return Token("SharedAccessSignature x", wall() + 1000)
        return Token("a.b.c")

    here, there = memory_streams()
    async with anyio.create_task_group() as tasks:
        server = Server(answers)
        tasks.start_soon(server.serve, there)
        async with (
            Connection.over(
                here, secure=True, tokens=CbsTokens(source, audience=lambda of: f"sb://{of}", clock=wall)
            ) as connection,
            connection.sender("ns/sas"),
            connection.sender("ns/other"),
            connection.sender("ns/sas"),
        ):
            end = wall() + 1000
            assert len(connection._core.links) == 3 + 2
        tasks.cancel_scope.cancel()
    assert [request.body for request in requests] == ["SharedAccessSignature x", "a.b.c"]
    first, other = (request.application_properties for request in requests)
    expiration = first.pop("expiration")
    assert expiration.timestamp() == pytest.approx(end, abs=1)
    sas, jwt = ("servicebus.windows.net:sastoken", "jwt")
    assert first == {"operation": "put-token", "type": sas, "name": "sb://ns/sas"}
    assert other == {"operation": "put-token", "type": jwt, "name": "sb://ns/other"}


async def test_cbs_namespace() -> None:
    """One audience for all links: those without an address wait for its token, too."""
    async with (
        Broker(None, tokens=rules()) as broker,
        broker.connect("amqp://ns", tokens=CbsTokens(sas_key(), audience="sb://ns/", clock=wall)) as connection,
        connection.sender(None) as sender,
        connection.receiver(dynamic=True) as receiver,
    ):
        await sender.send(Message("x", to=receiver.address))
        assert (await receiver.receive()).message.body == "x"


# Secrets


@pytest.mark.parametrize("dialect", [*RENEWING, "cbs"])
async def test_no_secret_is_told(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither logs nor traces, events or errors have a token or a key in them."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(5, "amqp10.frames")  # with bodies
    source = Source(lifetime=100)

    def behave(count: int) -> None:
        if count == 2:
            raise OSError(source.given[-1])

    source.behave = behave
    tokens = CbsTokens(source, clock=wall) if dialect == "cbs" else logins(source)
    spoken = "1.0" if dialect == "cbs" else dialect
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect("amqp://ns", dialect=spoken, tokens=tokens, idle_timeout=None) as connection,
        anyio.create_task_group() as tasks,
    ):
        watch = Watch(connection)
        tasks.start_soon(watch.run)
        async with connection.sender("q"):
            await anyio.sleep(250)
        assert watch.of(TokenRefused)
        tasks.cancel_scope.cancel()
    shown = caplog.text + repr(watch.events) + repr(tokens) + repr(broker) + repr(connection)
    assert len(source.given) >= 3
    for token in source.given:
        assert token not in shown
        assert token.rpartition(".")[2] not in shown
