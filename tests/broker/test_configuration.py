"""A broker from a file; users and certificates that are replaced while it runs."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from amqp10 import TLS, AuthenticationFailed, Connection, ConnectionClosed, EndpointError
from amqp10.broker import Broker, BrokerLimits, Permissions, User, read_config, read_users
from amqp10.testing import CertificateAuthority

from ..kit.waiting import until

pytestmark = pytest.mark.capability("configuration")

BROKER = """
host = "127.0.0.1"
port = 0
topics = ["news"]
dialects = ["1.0", "0-9-1"]
transaction_timeout = 60
store = "kept.db"
virtual_hosts = ["/", "staging"]

[users.shop]
password_file = "shop.password"
permissions."/" = {configure = "", write = "^orders", read = ""}

[users.root]
password = "all"
administrator = true

[queues.orders]
x-max-length = 1000

[exchanges]
shop = "topic"

[[bindings]]
exchange = "shop"
key = "eu.#"
queue = "orders"

[limits]
links = 5
idle_timeout = 0.5
"""


@pytest.mark.anyio
async def test_a_broker_from_a_file(tmp_path: Path) -> None:
    """Users with their permissions, nodes and bindings are as the file says; its paths are relative to it."""
    (tmp_path / "broker.toml").write_text(BROKER)
    (tmp_path / "shop.password").write_text("secret\n")
    said = read_config(tmp_path / "broker.toml")
    assert said["users"]["shop"] == User("secret", {"/": Permissions("", "^orders", "")})
    assert said["limits"] == BrokerLimits(links=5, idle_timeout=0.5)
    async with Broker(**said) as broker:
        async with Connection(broker.url.replace("//", "//shop:secret@")) as connection:
            async with connection.sender("orders") as sender:
                await sender.send("x")
            with pytest.raises(EndpointError, match="unauthorized"):
                async with connection.sender("invoices"):
                    pass
        async with Connection(broker.url.replace("//", "//root:all@"), dialect="0-9-1") as connection:
            async with connection.sender("/exchanges/shop/eu.de") as sender:
                await sender.send("y")
        assert broker.queue("orders").depth == 2
        assert [topic.name for topic in broker.topics] == ["news"]
        assert broker.virtual_host("staging").queues == ()
    assert (tmp_path / "kept.db").exists()


def test_json(tmp_path: Path) -> None:
    """The same in JSON."""
    said = {"queues": ["a", "b"], "max_connections": 5, "users": {"ann": {"keys": "?"}}}
    file = tmp_path / "broker.json"
    file.write_text(json.dumps(said))
    with pytest.raises(ValueError, match=re.escape(f"{file}: users.'ann'")):
        read_config(file)
    del said["users"]
    file.write_text(json.dumps(said))
    assert read_config(file) == said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('host = "a"\nport = = 1', "at line 2, column 8"),
        ("hosts = 1", "hosts: unknown key; the known keys are host, port, "),
        ('port = "5672"', "port: must be a whole number, not str"),
        ("port = true", "port: must be a whole number, not bool"),
        ("idle_timeout = []", "idle_timeout: must be a whole number or a number, not list"),
        ("topics = [1]", "topics[0]: must be text, not int"),
        ("[queues]\norders = 1", "queues.orders: must be a table, not int"),
        ("[exchanges]\nshop = 1", "exchanges.shop: must be text, not int"),
        ('[[bindings]]\nexchange = "shop"', "bindings[0]: has no 'queue'"),
        ("bindings = [1]", "bindings[0]: must be a table, not int"),
        ("[limits]\nlinks = 0", "limits: BrokerLimits(links=...) must be 1 or more, not 0"),
        ("[limits]\nlink = 1", "limits.link: unknown key"),
        ('[tls]\nca = "ca.pem"', "tls: a server needs a certificate"),
        (
            '[users.ann]\npassword = "secret"\nkeys = "secret"',
            'users.\'ann\': must have "password" or "keys", not both',
        ),
        (
            '[users.ann]\npassword = "secret"\npassword_file = "f"',
            "users.'ann': must have password or password_file, not both",
        ),
        ("[users.ann]\npassword_file = 'empty'", "users.'ann'.password_file: the first line of "),
        ("[users.ann]\npassword_file = 'nowhere'", "users.'ann'.password_file: cannot be read: "),
        ("[users.ann]\npassword_file = 'octets'", "users.'ann'.password_file: "),
        (
            "[users.ann]\nrole = 'secret'",
            "users.'ann': there is no such key as 'role'; there are password, keys, permissions, ",
        ),
        ("[users.ann]\npermissions.'/'.read = '('", "users.'ann', '/': read must be a regular expression"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    """The error says the file, the line or the key, and no secret."""
    file = tmp_path / "broker.toml"
    file.write_text(text)
    (tmp_path / "empty").touch()
    (tmp_path / "octets").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read_config(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["broker.json", "broker.toml"])
def test_nested(tmp_path: Path, name: str) -> None:
    """Lists in lists without end are an error as any other: one at SIGHUP must not end a broker."""
    (tmp_path / name).write_text(("queues = " if name.endswith("toml") else "") + "[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_config(tmp_path / name)
    with pytest.raises(ValueError, match="not a JSON file"):
        read_users(tmp_path / name)


def test_no_text(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_bytes(b"port = 1\nhost = '\xff'")
    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        read_config(file)


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1", "0-10", "fast"])
async def test_users_are_replaced(dialect: str) -> None:
    """Who is gone, or may do other things, is closed; a new password alone closes nobody, and counts at once."""
    all_of_it = {"/": Permissions(".*", ".*", ".*")}
    users = {name: User("old", all_of_it) for name in ("kept", "gone", "other")}
    async with Broker(users=users) as broker, AsyncExitStack() as stack:
        connections = {}
        for name in users:
            connection = Connection(broker.url.replace("//", f"//{name}:old@"), dialect=dialect)
            connections[name] = await stack.enter_async_context(connection)
        changed = {"kept": User("new", all_of_it), "other": User("old", all_of_it, administrator=True)}
        assert broker.replace_users(changed) == 2
        for name in ("gone", "other"):
            with anyio.fail_after(60), pytest.raises(ConnectionClosed):
                async with connections[name].receiver("q") as receiver:
                    await receiver.receive()
        async with connections["kept"].sender("q") as sender:
            await sender.send("x")
        for name, password, enters in (("kept", "new", True), ("kept", "old", False), ("gone", "old", False)):
            url = broker.url.replace("//", f"//{name}:{password}@")
            if enters:
                async with Connection(url, dialect=dialect):
                    pass
            else:
                with pytest.raises(AuthenticationFailed):
                    async with Connection(url, dialect=dialect):
                        pass


@pytest.mark.anyio
async def test_no_users_to_replace(tmp_path: Path) -> None:
    async with Broker() as broker:
        with pytest.raises(ValueError, match="was made without users"):
            broker.replace_users({"ann": "secret"})
        with pytest.raises(ValueError, match="was made without TLS"):
            files = CertificateAuthority(tmp_path).server("localhost")
            broker.replace_certificate(TLS(certificate=files.certificate, key=files.key))


@pytest.mark.anyio
async def test_a_certificate_is_replaced(tmp_path: Path) -> None:
    """Who connects from then on sees the new one, SCRAM-PLUS too; who is there goes on."""
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
    old, new = CertificateAuthority(tmp_path / "old"), CertificateAuthority(tmp_path / "new")
    shown = [
        TLS(certificate=each.certificate, key=each.key) for each in (old.server("localhost"), new.server("localhost"))
    ]
    async with Broker(tls=shown[0], users={"ann": "secret"}) as broker:
        url = broker.url.replace("//", "//ann:secret@").replace("127.0.0.1", "localhost")
        async with Connection(url, tls=TLS(ca=old.ca)) as before:
            broker.replace_certificate(shown[1])
            async with Connection(url, tls=TLS(ca=new.ca)) as after:
                assert after.mechanism == "SCRAM-SHA-512-PLUS"
                async with before.sender("q") as sender:
                    await sender.send("x")


@pytest.mark.parametrize("arguments", [{"x-max-length": 1}, {"x-queue-type": "quorum"}, {"x-expires": 1}], ids=str)
def test_queues_before_the_loop(arguments: dict[str, Any]) -> None:
    """A broker is made where no event loop runs yet, as the command line does; what ends with time begins with it."""
    broker = Broker(queues={"orders": arguments})

    async def run() -> None:
        async with broker:
            if "x-expires" in arguments:
                await until(lambda: not broker.queues)
            async with broker.connect() as connection, connection.sender("orders") as sender:
                await sender.send("x")
            assert broker.queue("orders").depth == 1

    anyio.run(run, backend="trio")
