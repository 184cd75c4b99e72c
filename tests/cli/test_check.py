"""`amqp10 check`: the exit code says whether a broker can be worked with, and nothing is changed by asking."""

from __future__ import annotations

import json
import socket

import anyio
import pytest

from amqp10 import Connection
from amqp10.testing import BackgroundBroker

from ..kit.processes.commands import Commands


def test_well(amqp10: Commands) -> None:
    """One line, with what was found; no message is taken, and none sent."""
    with BackgroundBroker(queues=["orders"]) as broker:

        async def fill() -> None:
            async with Connection(broker.url) as connection, connection.sender("orders") as sender:
                await sender.send("stays")

        anyio.run(fill)
        result = amqp10("check", broker.url, "orders", "--for", "both")
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(f"ok: {broker.url}, ")
        assert "dialect 1.0" in result.out
        assert result.out.endswith("; orders: receive and send\n")
        facts = broker.queue("orders")
        assert (facts.depth, facts.enqueued, facts.redelivered) == (1, 1, 0)


def test_without_an_address(amqp10: Commands) -> None:
    with BackgroundBroker() as broker:
        assert amqp10("check", broker.url, "--quiet").out == ""
        found = json.loads(amqp10("check", broker.url, "--json", "--dialect", "0-9-1").out)
    assert (found["url"], found["dialect"], found["address"], found["roles"]) == (broker.url, "0-9-1", None, [])
    assert 0 < found["seconds"] < 5
    assert found["broker"]


@pytest.mark.parametrize("role", ["receive", "send", "both"])
def test_an_address_that_is_not_there(amqp10: Commands, role: str) -> None:
    with BackgroundBroker(auto_create=False) as broker:
        result = amqp10("check", broker.url, "none", "--for", role)
    assert result.code == 5
    assert "there is no node 'none'" in result.err


def test_a_login_that_is_refused(amqp10: Commands) -> None:
    with BackgroundBroker(users={"ann": "secret"}) as broker:
        wrong = broker.url.replace("amqp://", "amqp://ann:wrong@")
        result = amqp10("check", wrong)
        assert result.code == 4
        assert "wrong" not in result.err + result.out
        right = amqp10("check", broker.url.replace("amqp://", "amqp://ann:secret@"))
        assert right.code == 0
        assert "secret" not in right.out


def test_json_of_what_failed(amqp10: Commands) -> None:
    """The object is there as well, with why it failed, and as far as it came."""
    with BackgroundBroker(auto_create=False) as broker:
        refused = amqp10("check", broker.url, "none", "--json")
    found = json.loads(refused.out)
    assert (refused.code, found["dialect"], found["roles"]) == (5, "1.0", ["receive"])
    assert "there is no node 'none'" in found["error"]
    assert refused.err == f"amqp10: {found['error']}\n"
    nobody = amqp10("check", broker.url, "--json")
    found = json.loads(nobody.out)
    assert (nobody.code, found["dialect"], found["broker"]) == (3, None, None)
    assert found["error"].startswith("connection lost: cannot connect to ")


def test_what_the_address_was_attached_for(amqp10: Commands) -> None:
    """A refusal says for what it was attached, and which option asks for the other role."""
    with BackgroundBroker(auto_create=False) as broker:
        assert "attached to receive; `--for send`" in amqp10("check", broker.url, "none").err
        assert "attached to send; `--for receive`" in amqp10("check", broker.url, "none", "--for", "send").err


def test_nobody_there(amqp10: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert amqp10("check", f"amqp://127.0.0.1:{port}").code == 3


def test_no_answer(amqp10: Commands) -> None:
    """A server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = amqp10("check", f"amqp://127.0.0.1:{server.getsockname()[1]}", "--timeout", "0.2")
    assert result.code == 3
    assert "no answer" in result.err
    assert "in 0.2 s" in result.err
