"""What is asked of the management node, word by word, of RabbitMQ and of the embedded broker: the same statuses."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from amqp10 import Connection, ManagementError, SessionEnded
from amqp10.rabbitmq import management

from ._matrix import Embedded
from .brokers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.capability("RabbitMQ management"),
]

QUORUM, STREAM = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}
BINDING = {"source": "{E}", "destination_queue": "{Q}", "binding_key": "k", "arguments": {}}
DROPPED = (500,)
"""RabbitMQ has no answer: the request makes it end the session, with amqp:internal-error."""

Row = tuple[str, str, Any, int | tuple[int, ...]]

# Method, path, body, and the status: RabbitMQ's, where there are two, with the embedded broker's behind it. {Q} is
# a queue, {E} a direct exchange, {N} nothing.
ROWS: list[Row] = [
    ("PUT", "/queues/{Q}", {}, 200),
    ("PUT", "/queues/{Q}", {"arguments": {"x-queue-type": "classic"}}, 200),
    ("PUT", "/queues/{N1}", {"durable": False, "exclusive": True, "auto_delete": True}, 201),
    ("PUT", "/queues/{N2}", {"arguments": {"x-unknown": 1, "unknown": "x"}}, 201),
    ("PUT", "/queues/{Q}", {"durable": False}, 409),
    ("PUT", "/queues/{Q}", {"auto_delete": True}, 409),
    ("PUT", "/queues/{Q}", {"exclusive": True}, 400),
    ("PUT", "/queues/{Q}", {"arguments": {"x-max-length": 5}}, 409),
    ("PUT", "/queues/{Q}", {"arguments": QUORUM}, 409),
    ("PUT", "/queues/{N}", {"nonsense": 1}, 400),
    ("PUT", "/queues/{N}", {"durable": "yes"}, 400),
    ("PUT", "/queues/{N}", None, (*DROPPED, 400)),
    ("PUT", "/queues/{N}", {"arguments": {"x-message-ttl": -1}}, 409),
    ("PUT", "/queues/{N}", {"arguments": {"x-queue-type": "odd"}}, 409),
    ("PUT", "/queues/{N}", {"arguments": {"x-overflow": "odd"}}, 409),
    ("PUT", "/queues/{N}", {"arguments": {"x-dead-letter-routing-key": "k"}}, 409),
    ("PUT", "/queues/{N}", {"durable": False, "arguments": QUORUM}, 400),
    ("PUT", "/queues/{N}", {"exclusive": True, "arguments": QUORUM}, 400),
    ("PUT", "/queues/{N}", {"durable": False, "arguments": STREAM}, 400),
    ("PUT", "/queues/", {}, 400),
    ("PUT", "/queues/two%0Alines", {}, 400),
    ("PUT", "/queues/amq.{N}", {}, 403),
    ("PUT", "/queues/{N}/{N}", {}, (*DROPPED, 404)),
    ("GET", "/queues/{Q}", None, 200),
    ("GET", "/queues/{N}", None, 404),
    ("GET", "/{N}", None, (*DROPPED, 404)),
    ("POST", "/queues/{Q}", None, (*DROPPED, 405)),
    ("DELETE", "/queues/{Q}/messages", None, 200),
    # 404 since RabbitMQ 4.1
    ("DELETE", "/queues/{N}/messages", None, (400, 404)),
    ("DELETE", "/queues/{N}", None, 200),
    ("DELETE", "/queues/two%0Alines", None, 400),
    ("PUT", "/exchanges/{E}", {}, 204),
    ("PUT", "/exchanges/{E}", {"type": "fanout"}, 409),
    ("PUT", "/exchanges/{E}", {"durable": False}, 409),
    ("PUT", "/exchanges/{E}", {"internal": True}, 409),
    ("PUT", "/exchanges/{E}", {"arguments": {"alternate-exchange": "z"}}, 409),
    ("PUT", "/exchanges/{N}", {"type": "odd"}, 400),
    ("PUT", "/exchanges/{N}", {"type": 5}, 400),
    ("PUT", "/exchanges/{N}", {"x": 5}, 400),
    ("PUT", "/exchanges/", {}, 403),
    ("PUT", "/exchanges/amq.{N}", {}, 403),
    ("PUT", "/exchanges/amq.direct", {}, 204),
    ("PUT", "/exchanges/amq.direct", {"type": "fanout"}, 409),
    ("GET", "/exchanges/{E}", None, (*DROPPED, 405)),
    ("DELETE", "/exchanges/amq.direct", None, 403),
    ("DELETE", "/exchanges/", None, 403),
    ("DELETE", "/exchanges/{N}", None, 204),
    ("POST", "/bindings", BINDING, 204),
    ("POST", "/bindings", {**BINDING, "source": "{N}"}, 400),
    ("POST", "/bindings", {**BINDING, "destination_queue": "{N}"}, 400),
    ("POST", "/bindings", {**BINDING, "source": ""}, 403),
    ("POST", "/bindings", {"x": 1}, 400),
    ("POST", "/bindings", {"source": "{E}", "binding_key": "k", "arguments": {}}, (*DROPPED, 400)),
    ("POST", "/bindings", {**BINDING, "source": "amq.headers", "arguments": {"x-match": "odd"}}, 400),
    ("GET", "/bindings?src={E}&dstq={Q}&key=k", None, 200),
    ("GET", "/bindings?src={N}&dstq={Q}&key=k", None, 200),
    ("GET", "/bindings?src={E}&dste={N}&key=k", None, 200),
    ("GET", "/bindings?src={E}&key=k", None, (*DROPPED, 400)),
    ("DELETE", "/bindings/src={E};dstq={Q};key=none;args=", None, 204),
    ("DELETE", "/bindings/src={E};dstq={Q};key=k;args=zzz", None, 204),
    ("DELETE", "/bindings/src={N};dstq={Q};key=k;args=", None, 204),
    ("DELETE", "/bindings/odd", None, 400),
]


def named(value: Any, mark: str) -> Any:
    """The same with names that no other test has."""
    if isinstance(value, dict):
        return {name: named(each, mark) for name, each in value.items()}
    return value.replace("{", "").replace("}", mark) if isinstance(value, str) else value


@pytest.fixture(params=["rabbitmq", "embedded"])
def broker(request: pytest.FixtureRequest) -> Server | Embedded:
    """Both brokers that have this management, in turn."""
    found: Server | Embedded = request.getfixturevalue(request.param)
    return found


async def test_statuses(broker: Server | Embedded) -> None:
    """Each request has the same status at both, where RabbitMQ has an answer; if not, the embedded one goes on."""
    mark = secrets.token_hex(4)
    ours = isinstance(broker, Embedded)
    async with Connection(broker.url()) as connection:
        async with management(connection) as rabbit:
            await rabbit.declare_queue(f"Q{mark}", "classic")
            await rabbit.declare_exchange(f"E{mark}")
        found = []
        for method, path, body, status in ROWS:
            expected = status if isinstance(status, int) else status[ours]
            async with management(connection) as rabbit:
                try:
                    answer = await rabbit.request(method, named(path, mark), named(body, mark))
                    got = int(answer.subject or 0)
                except ManagementError as error:
                    got = error.status if error.description else 0
                except SessionEnded as error:
                    got = DROPPED[0] if error.condition == "amqp:internal-error" else 0
            found.append((method, path, body, got, expected))
        assert [row for row in found if row[3] != row[4]] == []
        async with management(connection) as rabbit:
            for name in ("Q", "N1", "N2"):
                await rabbit.delete_queue(f"{name}{mark}")
            await rabbit.delete_exchange(f"E{mark}")
