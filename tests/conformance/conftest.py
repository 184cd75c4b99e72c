"""Engines of both roles, opened, at the mercy of a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import (
    ConnectionOpened,
    ConnectionTerms,
    Engine,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    Session,
    SessionBegun,
    dialect,
)
from amqp10.messaging import Source, Target
from amqp10.sasl import Authenticator
from amqp10.testing import Begin, EngineScript

from ..kit.conformance.play import Play


@pytest.fixture
def client() -> Callable[..., Engine]:
    """Makes client engines without a SASL layer; keywords are of `ConnectionTerms`."""

    def make(**terms: Any) -> Engine:
        return dialect("1.0").client(ConnectionTerms("tested", **terms), None, True)

    return make


@pytest.fixture
def server() -> Callable[..., Engine]:
    """Makes server engines that let anybody in; keywords are of `ConnectionTerms`."""

    def make(**terms: Any) -> Engine:
        authenticator = Authenticator(anonymous=True).for_connection(secure=True)
        return dialect("1.0").server(ConnectionTerms("tested", **terms), authenticator)

    return make


@pytest.fixture
def play_client(client: Callable[..., Engine]) -> Callable[..., EngineScript]:
    """Makes a script against an opened client engine; `peer` has fields of the script's open."""

    def make(peer: dict[str, Any] | None = None, **terms: Any) -> EngineScript:
        script = EngineScript(client(**terms))
        script.open(**(peer or {}))
        script.expect_event(ConnectionOpened)
        return script

    return make


@pytest.fixture
def play_server(server: Callable[..., Engine]) -> Callable[..., EngineScript]:
    """Makes a script against an opened server engine; `peer` has fields of the script's open."""

    def make(peer: dict[str, Any] | None = None, **terms: Any) -> EngineScript:
        script = EngineScript(server(**terms))
        script.open(**(peer or {}))
        script.expect_event(ConnectionOpened)
        return script

    return make


@pytest.fixture
def sending(play_client: Play) -> tuple[EngineScript, SenderLink]:
    """A sender of the engine with credit 100, at a peer that takes frames of 512 bytes."""
    script = play_client(peer={"max_frame_size": 512})
    return script, script.sender(script.session(), credit=100)


@pytest.fixture
def receiving(play_client: Play) -> tuple[EngineScript, ReceiverLink]:
    """A receiver of the engine with credit 100."""
    script = play_client()
    return script, script.receiver(script.session(), credit=100)


@pytest.fixture
def second(play_client: Play) -> tuple[EngineScript, ReceiverLink]:
    """A receiver of the engine with credit 100, receiver-settle-mode second."""
    script = play_client()
    terms = LinkTerms("r", Source("q"), Target("q"), receiver_settle_mode="second")
    return script, script.receiver(script.session(), terms, credit=100)


@pytest.fixture
def serving(play_server: Play) -> tuple[EngineScript, Session]:
    """A server engine with a session that the script has begun."""
    script = play_server()
    script.begin()
    session = script.expect_event(SessionBegun).session
    session.begin()
    script.expect(Begin)
    return script, session
