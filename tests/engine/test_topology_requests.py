"""Requests: what AMQP 1.0 has no word for is refused there before a byte is written."""

from __future__ import annotations

import pytest

from amqp10 import Connection, Unsupported
from amqp10.engine import DeclareQueue
from amqp10.errors import RequestRefused
from amqp10.testing import EnginePair


def test_1_0_has_no_requests() -> None:
    """Asking for a queue writes nothing."""
    pair = EnginePair()
    pair.open()
    session = pair.client.begin()
    pair.client.data_to_send()
    with pytest.raises(Unsupported, match="DeclareQueue"):
        session.request(DeclareQueue("orders"))
    assert pair.client.data_to_send() == b""


def test_1_0_has_nothing_native() -> None:
    """A connection that speaks 1.0 says so."""
    with pytest.raises(Unsupported, match=r"1\.0"):
        _ = Connection("amqp://localhost").native


def test_refusal_has_the_words_of_the_peer() -> None:
    """The error of a refused request reads like those of endpoints."""
    error = RequestRefused("amqp:precondition-failed", "it is there and durable", {"reply-code": 406})
    assert str(error) == "amqp:precondition-failed: it is there and durable"
    assert error.info["reply-code"] == 406
