"""Engines of both roles, opened, at the mercy of a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import ConnectionOpened, ConnectionTerms, Engine, dialect
from amqp10.sasl import Authenticator
from amqp10.testing import EngineScript


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
