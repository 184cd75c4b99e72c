"""Logins that fail: logged, and slowed down by address."""

from __future__ import annotations

import logging
from contextlib import nullcontext

import pytest

from amqp10 import AmqpError, Connection
from amqp10.broker import Broker
from amqp10.broker._serving import failed_logins as module
from amqp10.broker._serving.failed_logins import (
    FORGOTTEN,
    FREE,
    FREE_OF_ADDRESS,
    MAX_KEYS,
    MAX_WAIT,
    MIN_WAIT,
    FailedLogins,
)
from amqp10.engine import dialect_names
from amqp10.sasl import Plain, ScramSha256

from ...kit.clock import Clock


@pytest.fixture
def logins() -> FailedLogins:
    """No failures yet."""
    return FailedLogins(Clock())


def fail(logins: FailedLogins, peer: str, times: int, name: str | None = "ann") -> None:
    for _ in range(times):
        logins.failed(peer, name)


def test_grows(logins: FailedLogins) -> None:
    """The first failures are free; then each doubles the time, up to the longest."""
    waits = []
    for _ in range(FREE + 10):
        logins.failed("192.0.2.1:1000", "ann")
        waits.append(logins.wait_as("192.0.2.1:2000", "ann"))
    assert waits[:FREE] == [0.0] * FREE
    assert waits[FREE : FREE + 3] == [MIN_WAIT, 2 * MIN_WAIT, 4 * MIN_WAIT]
    assert waits[-1] == MAX_WAIT
    fail(logins, "192.0.2.1:1000", 5000)
    assert logins.wait_as("192.0.2.1:1", "ann") == logins.wait("192.0.2.1:1") == MAX_WAIT


def test_by_name(logins: FailedLogins) -> None:
    """Others behind the address do not wait, nor does the name elsewhere; other spellings of it do."""
    fail(logins, "192.0.2.1:1", 10)
    assert (
        logins.wait("192.0.2.1:2") == logins.wait_as("192.0.2.1:2", "bob") == logins.wait_as("192.0.2.2:1", "ann") == 0
    )
    assert logins.wait_as("192.0.2.1:2", None) == 0.0
    assert logins.wait_as("192.0.2.1:2", "ann") == logins.wait_as("192.0.2.1:2", "a\u00adnn") > 0


def test_many_names(logins: FailedLogins) -> None:
    """Who tries a few passwords with each of many names is slowed down by address."""
    for number in range(FREE_OF_ADDRESS):
        logins.failed("192.0.2.1:1", f"user{number}")
    assert logins.wait("192.0.2.1:2") == 0.0
    logins.failed("192.0.2.1:1", None)
    assert logins.wait("192.0.2.1:2") == MIN_WAIT


def test_by_address(logins: FailedLogins) -> None:
    """Others do not wait; one IPv6 network and an IPv4 address in IPv6's spelling are one each."""
    for peer in ("192.0.2.1:1", "[2001:db8::1]:1", "a local socket"):
        fail(logins, peer, FREE_OF_ADDRESS + 10)
    for peer in ("192.0.2.2:1", "[2001:db8:0:1::1]:1", "a local socket", "this process"):
        assert logins.wait(peer) == logins.wait_as(peer, "ann") == 0.0
    for wait in (logins.wait, lambda peer: logins.wait_as(peer, "ann")):
        assert wait("[::ffff:192.0.2.1]:1") == wait("192.0.2.1:1") > 0
        assert wait("[2001:db8::2]:1") > 0


def test_forgotten() -> None:
    """Who has not failed for a while begins anew."""
    clock = Clock()
    logins = FailedLogins(clock)
    fail(logins, "192.0.2.1:1", 10)
    clock.now += FORGOTTEN + 1
    assert logins.wait_as("192.0.2.1:1", "ann") == 0.0
    logins.failed("192.0.2.1:1", "ann")
    assert logins.wait_as("192.0.2.1:1", "ann") == 0.0


def test_bounded(logins: FailedLogins) -> None:
    """However many addresses and names fail, as many are remembered as there is room for: those that failed last."""
    fail(logins, "192.0.2.1:1", FREE_OF_ADDRESS + 10)
    for number in range(MAX_KEYS):
        logins.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1", "x" * 1000)
    assert logins.wait("192.0.2.1:1") == logins.wait_as("192.0.2.1:1", "ann") == 0.0
    assert len(logins.by_address) == len(logins.by_name) == MAX_KEYS


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_logged(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """A warning says who tried what: the name quoted, cut and without line breaks, and never the password."""
    name = "eve\n2026 ann logged in\u009b" + "x" * 200
    with caplog.at_level(logging.WARNING, "amqp10.broker"):
        async with Broker(users={"ann": "secret"}) as broker:
            for sasl in (Plain("ann", "wrong-word"), ScramSha256("ann", "wrong-word"), Plain(name, "wrong-word")):
                with pytest.raises(AmqpError):
                    async with Connection(broker.url, dialect=dialect, sasl=sasl):
                        pass
            async with Connection(broker.url, dialect=dialect, sasl=Plain("ann", "secret")):
                pass
    told = [record.getMessage() for record in caplog.records if "could not log in" in record.getMessage()]
    said = [each.partition(" could not log in ")[2] for each in told]
    assert said[:2] == ["as 'ann' by PLAIN", "as 'ann' by SCRAM-SHA-256"]
    assert len(told) == 3
    assert all(each.startswith("127.0.0.1:") and each.isprintable() and len(each) < 300 for each in told)
    assert not any("wrong-word" in each for each in told)


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_slowed_down(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right password is answered as late as a wrong one, a user as late as a stranger, and others at once."""
    monkeypatch.setattr(module, "FREE", 0)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("anyio.sleep", sleep)

    async def log_in(sasl: Plain | ScramSha256, right: bool = False) -> list[float]:
        slept.clear()
        with nullcontext() if right else pytest.raises(AmqpError):
            async with Connection(broker.url, dialect=dialect, sasl=sasl):
                pass
        return slept

    async with Broker(users={"ann": "secret", "bob": "secret"}) as broker:
        for name in ("ann", "eve"):
            assert [await log_in(Plain(name, "wrong")) == waits for waits in ([], [MIN_WAIT])] == [True, True]
            assert await log_in(ScramSha256(name, "wrong")) == [2 * MIN_WAIT]
        assert await log_in(Plain("ann", "secret"), right=True) == [4 * MIN_WAIT]
        assert await log_in(ScramSha256("ann", "secret"), right=True) == [4 * MIN_WAIT]
        assert await log_in(Plain("bob", "secret"), right=True) == []


@pytest.mark.anyio
async def test_an_address_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """After many failures of whatever names all who come from there wait before they are served, and get in then."""
    monkeypatch.setattr(module, "FREE_OF_ADDRESS", 0)
    waited = []
    real = FailedLogins.wait

    def wait(self: FailedLogins, peer: str) -> float:
        waited.append(real(self, peer))
        return waited[-1] / 100

    monkeypatch.setattr(FailedLogins, "wait", wait)
    async with Broker(users={"ann": "secret"}) as broker:
        for name in ("bob", "eve"):
            with pytest.raises(AmqpError):
                async with Connection(broker.url, sasl=Plain(name, "wrong")):
                    pass
        async with Connection(broker.url, sasl=Plain("ann", "secret")):
            pass
    assert waited == [0.0, MIN_WAIT, 2 * MIN_WAIT]


class Lie(str):
    """The name of a mechanism that the client takes for another one, which is offered."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "PLAIN"

    def __hash__(self) -> int:
        return hash("PLAIN")


class Odd(Plain):
    """PLAIN under another name."""

    name = Lie("GSSAPI")


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", sorted(dialect_names()))
async def test_not_offered(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """A try of a mechanism that was not offered is a login that failed, too."""
    with caplog.at_level(logging.WARNING, "amqp10.broker"):
        async with Broker(users={"ann": "secret"}) as broker:
            with pytest.raises(AmqpError):
                async with Connection(broker.url, dialect=dialect, sasl=Odd("ann", "secret")):
                    pass
    told = [record.getMessage() for record in caplog.records if "could not log in" in record.getMessage()]
    assert [each.partition(" could not log in ")[2] for each in told] == [
        "without a name by 'GSSAPI': that mechanism was not offered"
    ]
