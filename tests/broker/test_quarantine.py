"""The quarantine: what is set aside is listed, read, released and dropped, within bounds, and told to the journal."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from amqp10.broker import Broker, Quarantine, QuarantinedMessage
from amqp10.broker._quarantine import QuarantineJournal
from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.errors import ManagementError
from amqp10.messaging import AmqpValue, Error, Message
from amqp10.rabbitmq import Management as Operations
from amqp10.rabbitmq import management
from amqp10.types import Symbol, UInt, ULong

from ..kit.broker.queue_doubles import Taker, attach, entry, fill, why_rejected
from ..kit.inside.broker import EVERYTHING, Management, Node, PeerConnection, Queue, QueuedMessage, Requests

pytestmark = pytest.mark.filterwarnings("error")
FAULT = RuntimeError("odd\nmessage")


class Journal(QuarantineJournal):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def added(self, message: QuarantinedMessage) -> None:
        self.told.append(("added", message.number))

    def removed(self, message: QuarantinedMessage) -> None:
        self.told.append(("removed", message.number))


def nowhere(message: QuarantinedMessage, node: Node | None, to: str | None) -> None:
    """Release a message to nobody."""


def queue_of(vhost: VirtualHostCore, name: str = "q") -> Queue:
    node = vhost.declare(name, "queue")
    assert isinstance(node, Queue)
    return node


def set_aside(vhost: VirtualHostCore, queue: Queue, number: int) -> QuarantinedMessage:
    """Put a message into a queue, and set it aside."""
    odd = entry(number)
    queue.put(odd)
    queue.set_aside(odd, FAULT)
    return list(vhost.quarantine)[-1]


def test_set_aside(vhost: VirtualHostCore, caplog: pytest.LogCaptureFixture) -> None:
    """The message is out of the queue's books and in the quarantine, with all that is known of it, and in the log."""
    queue = queue_of(vhost)
    fill(queue, 1, 2)
    before = datetime.now(UTC)
    message = set_aside(vhost, queue, 3)
    assert (queue.depth, queue.unsettled, queue.bytes) == (2, 0, 2 * entry(1).size)
    assert (message.number, message.node, message.message_format, message.durable) == (1, "q", 0, False)
    assert message.payload == entry(3).payload
    assert message.reason == "RuntimeError: odd\nmessage"
    assert before <= message.time <= datetime.now(UTC)
    assert vhost.quarantine.size == len(message.payload)
    record = caplog.records[-1]
    assert (record.name, record.levelno) == ("amqp10.broker", logging.ERROR)
    assert "'q'" in record.getMessage()
    assert r"odd\nmessage" in record.getMessage()
    attach(queue, taker := Taker(10))
    assert taker.numbers == [1, 2]


def test_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    """Many messages of one fault do not fill the log with its traceback."""
    quarantine = Quarantine(nowhere)
    for _ in range(3):
        try:
            raise FAULT.with_traceback(None)
        except RuntimeError as error:
            quarantine.set_aside("q", b"", 0, error)
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]


def test_release(vhost: VirtualHostCore) -> None:
    """A message goes back to the end of its queue, or elsewhere; it is not in the quarantine any more."""
    queue, quarantine = queue_of(vhost), vhost.quarantine
    for number in (1, 2):
        set_aside(vhost, queue, number)
    fill(queue, 3)
    attach(queue, here := Taker(10))
    quarantine.release(1)
    quarantine.release(2, to="other")
    assert here.numbers == [3, 1]
    attach(queue_of(vhost, "other"), there := Taker(10))
    assert there.numbers == [2]
    assert (len(quarantine), quarantine.size) == (0, 0)


def test_release_of_a_dead_letter(vhost: VirtualHostCore) -> None:
    """It says still why it was rejected: delivery annotations of the broker's own are not a sender's."""
    queue = queue_of(vhost)
    odd = entry(1)
    odd.write_rejection(Error(Symbol("x:odd"), "why"))
    queue.put(odd)
    queue.set_aside(odd, FAULT)
    vhost.quarantine.release(1)
    attach(queue, taker := Taker(10))
    assert why_rejected(taker.payloads[0]) == Error(Symbol("x:odd"), "why")


def test_release_to_a_subscription(vhost: VirtualHostCore) -> None:
    """A subscription has no address, and is found again."""
    topic = vhost.declare("topic.news", "topic")
    subscription = topic.subscribe(lasting=True)  # type: ignore[attr-defined]
    set_aside(vhost, subscription, 1)
    vhost.quarantine.release(1)
    assert subscription.depth == 1


def test_release_to_nowhere(vhost: VirtualHostCore) -> None:
    """Where a message cannot go it stays in the quarantine."""
    queue = queue_of(vhost)
    set_aside(vhost, queue, 1)
    vhost.delete(queue)
    for to in (None, "/exchanges/none/key", "/exchanges/amq.direct/nothing", "", "/queues/"):
        with pytest.raises(ValueError, match=r"there is no|no longer exists|cannot go|leads to no"):
            vhost.quarantine.release(1, to)
    with pytest.raises(KeyError):
        vhost.quarantine.release(2)
    assert [message.number for message in vhost.quarantine] == [1]
    queue_of(vhost)
    vhost.quarantine.release(1)
    assert queue_of(vhost).depth == 1


def test_release_that_fills_it() -> None:
    """A message that is set aside again at once may be the one for which there is no room, under its old number."""

    def again(message: QuarantinedMessage, node: Node | None, to: str | None) -> None:
        quarantine.set_aside(message.node, message.payload, 0, FAULT)

    quarantine = Quarantine(again, most_messages=1)
    quarantine.set_aside("q", b"x", 0, FAULT)
    quarantine.release(1)
    assert [message.number for message in quarantine] == [2]
    assert quarantine.size == 1


def test_drop(vhost: VirtualHostCore) -> None:
    """A message that is dropped is gone, and its number is not used again."""
    queue, quarantine = queue_of(vhost), vhost.quarantine
    set_aside(vhost, queue, 1)
    quarantine.drop(1)
    with pytest.raises(KeyError):
        quarantine.drop(1)
    with pytest.raises(KeyError):
        quarantine[1]
    assert set_aside(vhost, queue, 2).number == 2
    assert quarantine[2].payload == entry(2).payload


@pytest.mark.parametrize("bounds", [{"most_messages": 2}, {"most_bytes": 200}], ids=str)
def test_bounds(bounds: dict[str, int], caplog: pytest.LogCaptureFixture) -> None:
    """The oldest go, with a warning; the newest stays, whatever its size."""
    quarantine = Quarantine(nowhere, **bounds)  # type: ignore[arg-type]
    for _ in range(3):
        quarantine.set_aside("q", bytes(100), 0, FAULT)
    assert [message.number for message in quarantine] == [2, 3]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["the quarantine is full: number 1, of 'q', is dropped"]
    if "most_bytes" in bounds:
        quarantine.set_aside("q", bytes(1000), 0, FAULT)
        assert ([message.number for message in quarantine], quarantine.size) == ([4], 1000)


def test_journal() -> None:
    """It is told of durable messages, once each way; what it brings back keeps its number."""
    journal = Journal()
    quarantine = Quarantine(nowhere, most_messages=3)
    quarantine.journal = journal
    for durable in (True, False, True, True, True):
        quarantine.set_aside("q", b"x", 0, FAULT, durable=durable)
    quarantine.drop(3)
    quarantine.release(4)
    assert journal.told == [
        *(("added", 1), ("added", 3), ("added", 4), ("removed", 1), ("added", 5)),
        *(("removed", 3), ("removed", 4)),
    ]
    after = Quarantine(nowhere)
    after.restore(quarantine[5])
    assert after[5] == quarantine[5]
    assert after.set_aside("q", b"x", 0, FAULT).number == 6


def test_unreadable_release(vhost: VirtualHostCore) -> None:
    """What cannot be read, or is of a foreign format, is released as it is."""
    queue = queue_of(vhost)
    for payload, message_format in ((b"\x00\x53\x70\xff", 0), (b"foreign", 7)):
        odd = QueuedMessage(payload, message_format)
        queue.put(odd)
        queue.set_aside(odd, FAULT)
    for message in vhost.quarantine:
        vhost.quarantine.release(message.number)
    attach(queue, taker := Taker(10))
    assert taker.payloads == [b"\x00\x53\x70\xff", b"foreign"]


@pytest.fixture
def ask(vhost: VirtualHostCore) -> Any:
    """Somebody who asks the management node."""

    def asking(method: str, path: str, body: object = None) -> tuple[int, Any]:
        peer = cast(PeerConnection, SimpleNamespace(do=Requests(vhost, None).do, rights=EVERYTHING, vhost=vhost))
        request = Message(AmqpValue(body), message_id="1", to=path, subject=method, reply_to="$me")
        answer = Message.decode(Management(peer, "broker").answer(request.encode()))
        return int(answer.subject or ""), answer.body

    return asking


def test_management(vhost: VirtualHostCore, ask: Any) -> None:
    """Peers list, read, release and drop."""
    queue = queue_of(vhost)
    for number in range(3):
        set_aside(vhost, queue, number)
    status, listed = ask("GET", "/quarantine")
    assert (status, [each["number"] for each in listed]) == (200, [1, 2, 3])
    assert [type(listed[0][name]) for name in ("number", "bytes", "message_format")] == [ULong, ULong, UInt]
    assert (listed[0]["node"], listed[0]["reason"]) == ("q", "RuntimeError: odd\nmessage")
    assert [each["number"] for each in ask("GET", "/quarantine?after=2")[1]] == [3]
    assert ask("GET", "/quarantine/2") == (200, {**listed[1], "payload": entry(1).payload})
    assert ask("POST", "/quarantine/1") == (204, None)
    assert ask("POST", "/quarantine/2", {"to": "other"}) == (204, None)
    assert ask("DELETE", "/quarantine/3") == (204, None)
    assert (queue.depth, queue_of(vhost, "other").depth, len(vhost.quarantine)) == (1, 1, 0)


def test_management_lists_a_part(vhost: VirtualHostCore, ask: Any) -> None:
    """A list is not longer than a message may be."""
    queue = queue_of(vhost)
    for _ in range(101):
        set_aside(vhost, queue, 1)
    assert len(ask("GET", "/quarantine")[1]) == 100
    assert [each["number"] for each in ask("GET", "/quarantine?after=100")[1]] == [101]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/quarantine/2", None, 404),
        ("DELETE", "/quarantine/2", None, 404),
        ("POST", "/quarantine/2", None, 404),
        ("GET", "/quarantine/one", None, 400),
        ("GET", "/quarantine/-1", None, 400),
        ("GET", "/quarantine?after=x", None, 400),
        ("GET", f"/quarantine/{'9' * 5000}", None, 400),
        ("PUT", "/quarantine/1", None, 405),
        ("POST", "/quarantine/1", {"too": "q"}, 400),
        ("POST", "/quarantine/1", {"to": 1}, 400),
        ("POST", "/quarantine/1", "q", 400),
        ("POST", "/quarantine/1", {"to": "/exchanges/none/key"}, 409),
    ],
)
def test_management_refuses(
    vhost: VirtualHostCore, ask: Any, method: str, path: str, body: object, status: int
) -> None:
    """What is not there, or makes no sense, is refused, and the message stays."""
    set_aside(vhost, queue_of(vhost), 1)
    assert ask(method, path, body)[0] == status
    assert len(vhost.quarantine) == 1


async def listed(manage: Operations) -> Any:
    return (await manage.request("GET", "/quarantine")).body


@pytest.mark.anyio
async def test_from_a_client() -> None:
    """An operator does it over a connection, or in the program that has the broker."""
    async with Broker(queues=["q"]) as broker, broker.connect() as connection:
        assert list(broker.quarantine) == []
        broker.quarantine.set_aside("q", Message("odd").encode(), 0, FAULT)
        async with management(connection) as manage:
            assert [each["number"] for each in await listed(manage)] == [1]
            await manage.request("POST", "/quarantine/1")
            with pytest.raises(ManagementError, match="no message 1"):
                await manage.request("DELETE", "/quarantine/1")
        async with connection.receiver("q") as receiver:
            delivery = await receiver.receive()
            assert delivery.message.body == "odd"
            delivery.accept()
