"""Virtual hosts: those that are not there are refused, those that are have queues of their own."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from amqp10 import AmqpError, Connection, ConnectionClosed, ConnectionLost, Message, StoreError
from amqp10.broker import Broker, BrokerLimits, Permissions, User
from amqp10.broker._virtual_hosts import virtual_host_of
from amqp10.engine import LinkTerms, dialect_names
from amqp10.messaging import Source, Target

from ..kit.broker.raw_clients import dial, raw_receiver, receiver_of
from ..kit.inside.broker import store
from ..kit.parents import engine_of, session_of

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
        ("vhost:odd", "vhost:odd", "vhost:odd"),
        ("vhost:vhost:odd", "vhost:odd", "vhost:odd"),
        ("odd", None, "/"),
        ("localhost", None, "/"),
        ("broker.example", None, "/"),
        ("vhost:other", None, None),
        ("vhost:", None, None),
    ],
)
def test_which(hostname: str | None, exact: str | None, lenient: str | None) -> None:
    """A name that may be the server's own means the usual one; any other has to be there."""
    known = {"/", "staging", "vhost:odd"}
    assert virtual_host_of(hostname, known, exact=True) == exact
    assert virtual_host_of(hostname, known, exact=False) == lenient


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
        for path, body in (("", "usual"), ("/staging", "staging")):
            async with Connection(broker.url + path, dialect=dialect) as connection:
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
            with anyio.fail_after(60):
                while b"it waits here" not in said:
                    said += await stream.receive()
            assert broker.queue("q", "staging").unsettled == 1
        link = raw_receiver("new", "vhost:staging")
        session_of(link).attach_receiver(LinkTerms("second", source=Source("newer"), target=Target()))
        async with await dial(broker) as stream:
            await stream.send(engine_of(link).data_to_send())
            said = b""
            with anyio.fail_after(60):
                while b"of one connection: the limit is 1" not in said:
                    said += await stream.receive()
        assert {"new", "newer"} & {each.name for each in broker.virtual_host("staging").queues} == {"new"}


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
    users = {"ann": User("secret", {"staging": Permissions(".*", ".*", ".*"), "/": Permissions("", "", ".*")})}
    async with Broker(users=users, virtual_hosts=["/", "staging"], queues=["q"]) as broker:
        url = broker.url.replace("//", "//ann:secret@")
        async with Connection(url, hostname="vhost:staging") as connection, connection.sender("q") as sender:
            await sender.send("x")
        assert broker.virtual_host("staging").queue("q").depth == 1
        async with Connection(url) as connection:
            with pytest.raises(AmqpError, match="unauthorized-access"):
                async with connection.sender("q"):
                    pass
        assert broker.queue("q").depth == 0


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


def test_refused_settings() -> None:
    """The usual one is always there."""
    for hosts in ([], ["staging"]):
        with pytest.raises(ValueError, match="virtual_hosts must be names"):
            Broker(virtual_hosts=hosts)
    with pytest.raises(TypeError, match=r"virtual_hosts must be .*, not '/'; write virtual_hosts=\['/'\]"):
        Broker(virtual_hosts="/")


HOSTS = ["/", "staging", "a/b"]


@pytest.mark.anyio
async def test_store(tmp_path: Path) -> None:
    """Each is kept, in a file of its own, and is there again after a restart; those that are left out stay there."""
    path = tmp_path / "broker.db"
    for run, hosts in enumerate((HOSTS, HOSTS[:1], HOSTS)):
        async with Broker(virtual_hosts=hosts, store=path) as broker:
            for name in hosts:
                assert broker.queue("q", name).depth == 1 if run else not broker.virtual_host(name).queues
                if run == 1:
                    continue
                async with Connection(broker.url, hostname=f"vhost:{name}") as connection:
                    if run:
                        async with connection.receiver("q") as receiver:
                            with await receiver.receive() as message:
                                assert message.body == name
                    else:
                        async with connection.sender("q") as sender:
                            await sender.send(Message(name, durable=True))
    assert sorted(os.listdir(tmp_path)) == ["broker.db", "broker.db.a%2Fb", "broker.db.staging"]


@pytest.mark.anyio
async def test_one_store_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one file cannot be written, connections to that virtual host are cut, and no others."""
    monkeypatch.setattr(store, "RETRY", 0.01)
    async with Broker(virtual_hosts=["/", "staging"], store=tmp_path / "broker.db") as broker:
        _, staging = broker._stores
        async with Connection(broker.url) as usual, usual.sender("q") as safe:
            staging.file.run("PRAGMA max_page_count = 1")
            with pytest.raises(ConnectionLost):
                async with Connection(broker.url, hostname="vhost:staging") as other, other.sender("q") as sender:
                    await sender.send(Message(b"x" * 100_000, durable=True))
            with pytest.raises(ConnectionClosed, match="disk is full"):
                async with Connection(broker.url, hostname="vhost:staging"):
                    pass
            await safe.send(Message("kept", durable=True))
            staging.file.run("PRAGMA max_page_count = 1000000")
            await staging.wait_durable()
        async with Connection(broker.url, hostname="vhost:staging") as other, other.sender("q") as sender:
            await sender.send(Message("kept", durable=True))


@pytest.mark.anyio
async def test_second_store_in_use(tmp_path: Path) -> None:
    """A broker that cannot have all files has none open."""
    path = tmp_path / "broker.db"
    async with Broker(store=f"{path}.staging"):
        with pytest.raises(StoreError, match="in use"):
            async with Broker(virtual_hosts=["/", "staging"], store=path):
                pass
        async with Broker(store=path):
            pass


@pytest.mark.anyio
async def test_facts_and_quarantine() -> None:
    """Facts, and what could not be handled, are by virtual host; the broker's own are of the usual one."""
    async with Broker(virtual_hosts=["/", "staging"], topics=["news"]) as broker:
        async with Connection(broker.url, hostname="vhost:staging") as connection, connection.receiver("q"):
            usual, staging = broker.virtual_host("/"), broker.virtual_host("staging")
            assert [each.name for each in staging.queues] == ["q"]
            assert staging.queue("q").consumers == 1
            assert [each.name for each in usual.topics] == ["news"] == [broker.topic("news").name]
            assert not usual.queues
            assert not staging.topics
            assert staging.exchange("amq.topic") in staging.exchanges
            assert staging.quarantine is not usual.quarantine is broker.quarantine
            assert staging.blocked is None
            assert repr(staging) == "<VirtualHost 'staging'>"
            for find in (staging.topic, usual.queue, staging.exchange):
                with pytest.raises(KeyError):
                    find("nothing")
        with pytest.raises(KeyError):
            broker.virtual_host("other")
