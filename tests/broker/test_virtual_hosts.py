"""Virtual hosts: those that are not there are refused, those that are have queues of their own."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from amqp10 import AmqpError, Connection
from amqp10.broker import Broker, BrokerLimits, Permissions, User
from amqp10.broker._virtual_hosts import virtual_host_of
from amqp10.engine import LinkTerms, dialect_names
from amqp10.messaging import Source, Target

from ._raw import dial, raw_receiver, receiver_of

NAMES = sorted(dialect_names())
DENIED = "amqp:unauthorized-access"


@pytest.mark.parametrize(
    ("hostname", "exact", "lenient"),
    [
        (None, "/", "/"),
        ("", "/", "/"),
        ("/", "/", "/"),
        ("staging", "staging", "staging"),
        ("vhost:staging", "staging", "staging"),
        ("vhost:/", "/", "/"),
        ("localhost", None, "/"),
        ("broker.example", None, "/"),
        ("vhost:other", None, None),
        ("vhost:", None, None),
    ],
)
def test_which(hostname: str | None, exact: str | None, lenient: str | None) -> None:
    """A name that may be the server's own means the usual one; any other has to be there."""
    known = {"/", "staging"}
    assert virtual_host_of(hostname, known, names_hosts=False) == exact
    assert virtual_host_of(hostname, known, names_hosts=True) == lenient


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_queues_of_their_own(dialect: str) -> None:
    """A queue of one virtual host is not that of another, nor are its messages."""
    async with Broker(virtual_hosts=["/", "staging"]) as broker:
        for hostname, body in ((None, "usual"), ("vhost:staging", "staging")):
            async with Connection(broker.url, dialect=dialect, hostname=hostname) as connection:
                async with connection.sender("q") as sender:
                    await sender.send(body)
        assert broker.queue("q").depth == broker.queue("q", "staging").depth == 1
        for hostname, body in ((None, "usual"), ("vhost:staging", "staging")):
            async with Connection(broker.url, dialect=dialect, hostname=hostname) as connection:
                async with connection.receiver("q") as receiver:
                    with await receiver.receive() as message:
                        assert message.body == body


@pytest.mark.anyio
async def test_in_one_breath() -> None:
    """Who says all at once, from the open to the credit, gets what waits there, within the limits of all."""
    limits = BrokerLimits(nodes_by_connection=1)
    async with Broker(virtual_hosts=["/", "staging"], limits=limits) as broker:
        async with Connection(broker.url, hostname="vhost:staging") as connection, connection.sender("q") as sender:
            await sender.send("it waits here")
        stream = await dial(broker)
        async with stream:
            await stream.send(receiver_of("q", 1, "vhost:staging"))
            said = b""
            with anyio.fail_after(5):
                while b"it waits here" not in said:
                    said += await stream.receive()
        link = raw_receiver("new", "vhost:staging")
        link.session.attach_receiver(LinkTerms("second", source=Source("newer"), target=Target()))
        async with await dial(broker) as stream:
            await stream.send(link.session.engine.data_to_send())
            said = b""
            with anyio.fail_after(5):
                while b"of one connection: 1 at most" not in said:
                    said += await stream.receive()


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", [name for name in NAMES if name != "0-10"])
async def test_not_there(dialect: str) -> None:
    """Who asks for one that is not there is told so, and gets no other."""
    async with Broker(virtual_hosts=["/", "staging"]) as broker:
        with pytest.raises(AmqpError) as refused:
            async with Connection(broker.url, dialect=dialect, hostname="vhost:other") as connection:
                async with connection.sender("q") as sender:
                    await sender.send("x")
        condition = "amqp:not-allowed" if dialect.startswith("0-9") else "amqp:not-found"
        assert getattr(refused.value, "condition", None) == condition
        assert not any(queue.name == "q" for queue in broker.queues)


@pytest.mark.anyio
async def test_permissions() -> None:
    """What a user may do in one virtual host, it may not in another."""
    users = {"ann": User("secret", {"staging": Permissions(".*", ".*", ".*")})}
    async with Broker(users=users, virtual_hosts=["/", "staging"]) as broker:
        url = broker.url.replace("//", "//ann:secret@")
        async with Connection(url, hostname="vhost:staging") as connection, connection.sender("q") as sender:
            await sender.send("x")


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_none_given(dialect: str) -> None:
    """Who has no permissions at all in a virtual host does not get in: neither a user, nor a peer without a name."""
    users = {"ann": User("secret", {"staging": Permissions(".*", ".*", ".*")})}
    async with Broker(users=users, anonymous=True, virtual_hosts=["/", "staging"]) as broker:
        for login, who in (("ann:secret@", "user 'ann'"), ("", "peers without a name")):
            with pytest.raises(AmqpError, match=f"access to virtual host '/' refused for {who}") as refused:
                async with Connection(broker.url.replace("//", f"//{login}"), dialect=dialect):
                    pass
            conditions = {"0-10": "amqp:connection:forced", "1.0": DENIED, "fast": DENIED}
            assert getattr(refused.value, "condition", None) == conditions.get(dialect, "amqp:not-allowed")
        assert broker.connections == 0


def test_refused_settings(tmp_path: Path) -> None:
    """The usual one is always there; a store keeps no other."""
    for hosts in ([], ["staging"], "/"):
        with pytest.raises(ValueError, match="virtual_hosts are names"):
            Broker(virtual_hosts=hosts)
    with pytest.raises(ValueError, match="a store keeps one virtual host"):
        Broker(virtual_hosts=["/", "staging"], store=tmp_path / "store")
