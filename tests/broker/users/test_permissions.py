"""Who may do what: permissions of users, by each dialect's doors, and the callback that decides in their place."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from amqp10 import AmqpError, Connection, ManagementError, Message, MessageRejected, Sender, TransactionRolledBack
from amqp10.amqp091 import Native
from amqp10.broker import Broker, Permissions, User, read_users
from amqp10.broker._users.users import EVERYTHING, Rights, rights_of
from amqp10.engine import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueryQueue,
    Request,
    Unbind,
    dialect_names,
)
from amqp10.rabbitmq import management
from amqp10.sasl import StoredKeys

from ...kit.inside.broker import Refused, Requests, VirtualHostCore

pytestmark = pytest.mark.capability("users and permissions")

NAMES = sorted(dialect_names())
ANN = Permissions(configure=r"^ann\.", write=r"^(ann\.|shared$|logs$)", read=r"^(ann\.|news$)")
USERS: dict[str, str | StoredKeys | User] = {
    "ann": User("secret", {"/": ANN}),
    "root": "secret",
    "eve": User("secret", {"/": Permissions()}),
}


def url_of(broker: Broker, user: str) -> str:
    return broker.url.replace("//", f"//{user}:secret@")


async def refused(act: Awaitable[None]) -> None:
    """That it fails, and with the condition that says why."""
    with anyio.fail_after(60), pytest.raises(AmqpError) as error:
        await act
    assert getattr(error.value, "condition", None) == "amqp:unauthorized-access", error.value


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_users(dialect: str) -> None:
    """A user sends to, receives from and makes what it may, and nothing else."""

    async def send(user: str, address: str | None, to: str | None = None) -> None:
        async with (
            Connection(url_of(broker, user), dialect=dialect) as connection,
            connection.sender(address) as sender,
        ):
            await sender.send(Message("x", to=to))

    async def receive(user: str, address: str) -> None:
        async with (
            Connection(url_of(broker, user), dialect=dialect) as connection,
            connection.receiver(address) as receiver,
        ):
            (await receiver.receive()).accept()

    async with Broker(users=USERS, queues=["shared", "secret", "news"], exchanges={"logs": "fanout"}) as broker:
        await send("ann", "ann.own")
        await receive("ann", "ann.own")
        await send("ann", "shared")
        await send("ann", None, "shared")
        await send("ann", None, "/queues/shared")
        for address in ("secret", "new", "/queues/secret", "news"):
            await refused(send("ann", address))
            await refused(send("ann", None, address))
        for address in ("secret", "shared", "new", "/queues/secret"):
            await refused(receive("ann", address))
        await refused(send("eve", "shared"))
        await refused(receive("eve", "news"))
        await send("root", "secret")
        await receive("root", "secret")
        assert {queue.name: queue.depth for queue in broker.queues if "." not in queue.name} == {
            "news": 0,
            "secret": 0,
            "shared": 3,
        }


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", [name for name in NAMES if name != "fast"])
async def test_exchanges(dialect: str) -> None:
    """To publish to an exchange is to write to it."""
    async with Broker(
        users=USERS, queues=["secret"], exchanges={"logs": "fanout"}, bindings=[("amq.fanout", "", "secret")]
    ) as broker:
        for address, may in (("/exchanges/logs/k", True), ("/exchanges/amq.fanout/k", False)):

            async def send(address: str = address) -> None:
                async with Connection(url_of(broker, "ann"), dialect=dialect) as connection:
                    async with connection.sender(address) as sender:
                        try:
                            await sender.send("x")
                        except AmqpError as error:
                            if getattr(error, "condition", None) == "amqp:unauthorized-access":
                                raise

            if may:
                await send()
            else:
                await refused(send())
        assert broker.queue("secret").depth == 0


@pytest.mark.anyio
async def test_carbon_copies() -> None:
    """A further routing key is no way around."""
    async with (
        Broker(users=USERS, queues=["shared", "secret"]) as broker,
        Connection(url_of(broker, "ann")) as connection,
    ):
        message = Message("x", to="/queues/shared", message_annotations={"x-cc": ["secret"]})
        for address in ("/queues/shared", None):
            async with connection.sender(address) as sender:
                with pytest.raises(MessageRejected, match="write access to 'secret'"):
                    await sender.send(message)
        assert broker.queue("secret").depth == broker.queue("shared").depth == 0


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_spellings(dialect: str) -> None:
    """However a name is spelled, it is the queue that the message comes to that is asked for."""
    may = {"ann": User("secret", {"/": Permissions(write=r"^(queue|topic|amq\.|mine$)")})}
    async with (
        Broker(users=may, queues=["secret", "mine"]) as broker,
        Connection(url_of(broker, "ann"), dialect=dialect) as connection,
    ):
        for address in (
            *("/queues/queue%3A%2F%2Fsecret", "queue://secret", "/queues/topic%3A%2F%2Fsecret"),
            *("/exchanges//secret", "/exchanges/"),
        ):
            for place in (address, None):
                with anyio.fail_after(60), pytest.raises(AmqpError):
                    async with connection.sender(place) as sender:
                        await sender.send(Message("x", to=address, subject="secret"))
        async with connection.sender("queue://mine") as sender:
            await sender.send("x")
        assert broker.queue("secret").depth == 0
        assert broker.queue("mine").depth == 1


@pytest.mark.anyio
async def test_a_name_that_comes_to_mean_another_queue() -> None:
    """What a sender was allowed once is not so any more when its queue is gone and another one is meant."""
    may = {"ann": User("secret", {"/": Permissions(configure="^queue:", write="^queue:")})}
    async with (
        Broker(users=may, queues=["secret"]) as broker,
        Connection(url_of(broker, "ann"), dialect="0-9-1") as connection,
    ):
        native = Native(connection)
        async with connection.sender(None) as sender:
            await native.declare_queue("queue://secret")
            await sender.send(Message("x", to="/queues/queue%3A%2F%2Fsecret"))
            await native.delete_queue("queue://secret")
            await refused(sender.send(Message("x", to="/queues/queue%3A%2F%2Fsecret")))
        assert broker.queue("secret").depth == 0


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_settled(dialect: str) -> None:
    """What was sent settled, and may not go where it is to go, is not dropped in silence: there is no sending on."""
    further = Message("x", message_annotations={"x-cc": ["secret"]})
    ways: list[tuple[str | None, Message]] = [
        (None, Message("x", to="secret")),
        (None, Message("x", to="/exchanges/amq.fanout/k")),
    ]
    ways += [("/queues/shared", further)] if dialect in ("1.0", "fast") else []
    for address, message in ways:
        async with (
            Broker(users=USERS, queues=["shared", "secret"]) as broker,
            Connection(url_of(broker, "ann"), dialect=dialect) as connection,
            connection.sender(address, settle_mode="settled") as sender,
        ):

            async def send_on(sender: Sender = sender, message: Message = message) -> None:
                while True:
                    await sender.send(message)

            await refused(send_on())
            assert broker.queue("secret").depth == broker.queue("shared").depth == 0


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_transactions(dialect: str) -> None:
    """A message that may not go where it says takes its transaction along, and the sender is told why."""
    queues = ["shared", "secret"]
    async with Broker(users=USERS, queues=queues) as broker, Connection(url_of(broker, "ann"), dialect=dialect) as ann:
        async with ann.sender("shared") as allowed, ann.sender(None) as forbidden:
            transaction = ann.transaction()
            with pytest.raises((TransactionRolledBack, MessageRejected), match="write access to 'secret'") as caught:
                async with transaction:
                    await allowed.send(Message("x"), transaction=transaction)
                    await forbidden.send(Message("x", to="secret"), transaction=transaction)
        assert transaction.state == "rolled-back", caught.value
        assert broker.queue("secret").depth == broker.queue("shared").depth == 0


@pytest.mark.anyio
async def test_reply_nodes() -> None:
    """A node for replies is made by who may; then it takes replies from all who know its address."""
    may = {
        "ann": User("secret", {"/": Permissions(configure="^temporary-")}),
        "eve": User("secret", {"/": Permissions()}),
    }
    async with (
        Broker(users=may) as broker,
        Connection(url_of(broker, "ann")) as connection,
        connection.receiver(dynamic=True) as replies,
        Connection(url_of(broker, "eve")) as other,
    ):
        async with other.sender(replies.address) as sender:
            await sender.send("one")
        async with other.sender(None) as sender:
            await sender.send(Message("two", to=replies.address))
        assert [(await replies.receive()).message.body for _ in range(2)] == ["one", "two"]

        async def make() -> None:
            async with other.receiver(dynamic=True):
                pass

        await refused(make())


@pytest.mark.anyio
async def test_management() -> None:
    """Management asks for what the older AMQPs ask for, and the quarantine for an administrator."""
    async with Broker(users=USERS, queues=["secret"]) as broker:
        async with Connection(url_of(broker, "ann")) as connection, management(connection) as manager:
            await manager.declare_queue("ann.q")
            for asked in (
                manager.declare_queue("other"),
                manager.delete_queue("secret"),
                manager.purge_queue("secret"),
                manager.bind("amq.topic", queue="ann.q"),
                manager.request("GET", "/quarantine"),
            ):
                with pytest.raises(ManagementError) as error:
                    await asked
                assert error.value.status == 403
        async with Connection(url_of(broker, "root")) as connection, management(connection) as manager:
            await manager.request("GET", "/quarantine")
            await manager.delete_queue("secret")


ASKED: list[tuple[Request[Any], set[tuple[str, str]]]] = [
    (DeclareQueue("q"), {("configure", "q")}),
    (DeclareQueue("q", passive=True), set()),
    (QueryQueue("q"), set()),
    (DeclareQueue("new", passive=True, on_demand=True), {("configure", "new")}),
    (
        DeclareQueue("d", arguments={"x-dead-letter-exchange": "x"}),
        {("configure", "d"), ("read", "d"), ("write", "x")},
    ),
    (
        DeclareQueue("d", arguments={"x-dead-letter-exchange": ""}),
        {("configure", "d"), ("read", "d"), ("write", "amq.default")},
    ),
    (
        DeclareQueue("d", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"}),
        {("configure", "d"), ("read", "d"), ("write", "k")},
    ),
    (
        DeclareQueue("d", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "queue://k"}),
        {("configure", "d"), ("read", "d"), ("write", "queue://k"), ("write", "k")},
    ),
    (PurgeQueue("q"), {("read", "q")}),
    (DeleteQueue("q"), {("configure", "q")}),
    (DeclareExchange("e"), {("configure", "e")}),
    (DeclareExchange("e", passive=True), set()),
    (DeclareExchange("f", alternate="x"), {("configure", "f"), ("read", "f"), ("write", "x")}),
    (
        DeclareExchange("f", arguments={"alternate-exchange": "x"}),
        {("configure", "f"), ("read", "f"), ("write", "x")},
    ),
    (DeleteExchange("e"), {("configure", "e")}),
    (Bind("q", "e"), {("write", "q"), ("read", "e")}),
    (Unbind("q", "e"), {("write", "q"), ("read", "e")}),
    (Bind("e", "amq.topic", kind="exchange"), {("write", "e"), ("read", "amq.topic")}),
]


def _all_but(missing: tuple[str, str], action: str, name: str) -> bool:
    return (action, name) != missing


@pytest.mark.parametrize(("request_", "needed"), ASKED, ids=lambda value: type(value).__name__)
def test_requests(vhost: VirtualHostCore, request_: Request[Any], needed: set[tuple[str, str]]) -> None:
    """Each request needs what RabbitMQ asks for; without any part of that it is refused, and nothing was done."""
    for name in ("q",):
        vhost.declare(name, "queue")
    vhost.topology.declare("e")
    vhost.topology.declare("x")
    requests = Requests(vhost, object())
    for missing in needed:
        requests.rights = Rights("ann", "/", partial(_all_but, missing))
        before = set(vhost.nodes), set(vhost.topology.exchanges)
        with pytest.raises(Refused, match=f"{missing[0]} access to '{missing[1]}'"):
            requests.do(request_)
        assert (set(vhost.nodes), set(vhost.topology.exchanges)) == before
    requests.rights = Rights("ann", "/", lambda action, name: (action, name) in needed)
    requests.do(request_)


def test_generated_names(vhost: VirtualHostCore) -> None:
    """A queue that the broker names is configured by that name; one for replies needs no permission."""
    requests = Requests(vhost, object())
    requests.rights = Rights("ann", "/", Permissions(configure=r"^amq\.gen-").allows)
    assert requests.do(DeclareQueue()).name.startswith("amq.gen-")
    requests.rights = Rights("ann", "/", Permissions().allows)
    with pytest.raises(Refused):
        requests.do(DeclareQueue())
    requests.do(DeclareQueue(exclusive=True, auto_delete=True, for_replies=True))


def test_patterns() -> None:
    """They are searched for; an empty one allows nothing, and none allows a name with a line feed at its end."""
    permissions = Permissions("^a$", "b", "")
    assert permissions.allows("configure", "a")
    assert not permissions.allows("configure", "a\n")
    assert not permissions.allows("configure", "ab")
    assert permissions.allows("write", "abc")
    assert not permissions.allows("read", "")
    assert not permissions.allows("read", "a")
    with pytest.raises(ValueError, match="read must be a regular expression"):
        Permissions(read="(")


def test_who_has_rights() -> None:
    """Names alone may everything; where permissions are, whoever is not listed may nothing."""
    assert rights_of({}, None, None, "/") is EVERYTHING
    assert rights_of({"ann": "x"}, None, "cert", "/") is EVERYTHING
    assert rights_of(USERS, None, "root", "/") is EVERYTHING
    for user in (None, "cert", "eve"):
        rights = rights_of(USERS, None, user, "/")
        assert rights.limited
        assert not rights.administrator
        with pytest.raises(Refused, match="refused for"):
            rights.check("read", "q")
        with pytest.raises(Refused, match="administrators"):
            rights.check_administrator("the quarantine")
    whole = rights_of({"bridge": User("x", impersonator=True)}, None, "bridge", "/")
    assert (whole.limited, whole.administrator, whole.impersonator) == (False, False, True)
    rights_of({"boss": User("x", {}, administrator=True)}, None, "boss", "/").check_administrator("the quarantine")


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", NAMES)
async def test_impersonator(dialect: str) -> None:
    """A bridge may be a user who may pass on what others sent, while others may not."""
    users = {"bridge": User("secret", impersonator=True), "ann": User("secret")}
    async with Broker(users=users) as broker:
        for user in users:

            async def send(user: str = user) -> None:
                async with Connection(url_of(broker, user), dialect=dialect) as connection:
                    async with connection.sender("q") as sender:
                        await sender.send(Message("x", user_id=b"somebody"))

            if user == "bridge":
                await send()
            else:
                with pytest.raises(AmqpError, match="authenticated user"):
                    await send()
        assert broker.queue("q").depth == 1


@pytest.mark.anyio
async def test_authorize() -> None:
    """A callback decides in place of permissions; of a link's own address it is asked once."""
    asked: list[tuple[str | None, str, str, str]] = []

    def authorize(user: str | None, action: str, name: str, virtual_host: str) -> bool:
        asked.append((user, action, name, virtual_host))
        return name == "q"

    async with (
        Broker(users={"ann": "secret"}, authorize=authorize, queues=["q"]) as broker,
        Connection(url_of(broker, "ann")) as connection,
    ):
        for address in ("q", None):
            asked.clear()
            async with connection.sender(address) as sender:
                for _ in range(5):
                    await sender.send(Message("x", to="q"))
            assert asked == [("ann", "write", "q", "/")]

        async def receive() -> None:
            async with connection.receiver("other"):
                pass

        await refused(receive())


@pytest.mark.anyio
async def test_users_file(tmp_path: Path) -> None:
    """Users come from a file, with passwords or keys, and all that the constructor takes."""
    path = tmp_path / "users.json"
    keys = str(StoredKeys.from_password("secret", iterations=4096))
    permissions = {"/": {"configure": ".*", "write": "^q$", "read": ""}}
    said = {"ann": {"keys": keys, "permissions": permissions}, "bob": {"password": "secret", "administrator": True}}
    path.write_text(json.dumps({"users": said}))
    there = read_users(path)
    assert there["ann"].permissions == {"/": Permissions(".*", "^q$", "")}
    assert there["bob"] == User("secret", administrator=True)
    async with Broker(users_file=path, users={"eve": "secret"}) as broker:
        for user in ("ann", "bob", "eve"):
            async with Connection(url_of(broker, user)) as connection, connection.sender("q") as sender:
                await sender.send("x")
        async with Connection(url_of(broker, "ann")) as connection:
            with pytest.raises(AmqpError, match="read access"):
                async with connection.receiver("q"):
                    pass
    with pytest.raises(ValueError, match="both have the user 'ann'"):
        Broker(users_file=path, users={"ann": "secret"})


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("x", "not a JSON file"),
        ("[]", "a file of users must have the form"),
        ('{"users": {}, "more": 1}', "a file of users must have the form"),
        ('{"users": {"ann": "hush"}}', "must be an object, not a str"),
        ('{"users": {"ann": {"pasword": "hush"}}}', "no such key as 'pasword'"),
        ('{"users": {"ann": {"password": 1}}}', "password must be a str, not a int"),
        ('{"users": {"ann": {"password": "hush", "keys": "hush"}}}', 'must have "password" or "keys", not both'),
        ('{"users": {"ann": {"keys": "hush"}}}', "keys of a password"),
        ('{"users": {"ann": {"permissions": {"/": {"read": "("}}}}}', "regular expression"),
        ('{"users": {"ann": {"permissions": {"/": {"delete": ""}}}}}', "no such key as 'delete'"),
    ],
)
def test_no_users_file(tmp_path: Path, text: str, match: str) -> None:
    """What is wrong with the file is said, with no password in it."""
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=match) as error:
        Broker(users_file=path)
    assert str(path) in str(error.value)
    assert "hush" not in str(error.value)


def test_users_are_not_shown() -> None:
    """The password is in no repr."""
    assert "secret" not in repr(cast(User, USERS["ann"]))
