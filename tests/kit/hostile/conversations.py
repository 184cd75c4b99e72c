"""Whole conversations of hostile clients, in every dialect, against a broker at work.

A conversation is a real client engine that logs in and takes a number of random steps: sessions, links, hostile
messages, outcomes, transactions, declarations, management. What it writes may be changed on the way. Beside it, in each
dialect, honest clients work on the same broker: they must be served all the while, on the connection they began with.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import ByteStream, TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from amqp10 import Connection
from amqp10.broker import Broker, BrokerLimits, Permissions, User
from amqp10.engine import (
    Bind,
    ConnectionTerms,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Engine,
    LinkTerms,
    OutcomesReceived,
    PurgeQueue,
    QueryBinding,
    QueryExchange,
    QueryQueue,
    ReceiverLink,
    Request,
    SenderLink,
    Session,
    SessionTerms,
    Unbind,
    dialect,
    dialect_names,
)
from amqp10.errors import AmqpError, DecodeError
from amqp10.messaging import (
    ACCEPTED,
    RELEASED,
    AmqpSequence,
    AmqpValue,
    Coordinator,
    Data,
    Declare,
    Declared,
    Discharge,
    Error,
    Message,
    Modified,
    NoLocal,
    Rejected,
    Selector,
    Source,
    StreamOffset,
    Target,
    TransactionalState,
)
from amqp10.sasl import Plain
from amqp10.types import Symbol, UInt, encode

PASSWORDS: Final = {"mallory": "m", "victim": "v"}
SELECTOR: Final = "n > 3 OR color = 'red' OR d BETWEEN 1 AND 2 OR text LIKE '%a%b%' OR n IS NULL"

# Queues that consumers work on all the time; a hostile client sends to them and looks into them.
WORK: Final = {
    "work.ttl": {"x-message-ttl": 20, "x-dead-letter-exchange": "amq.headers"},
    "work.full": {"x-max-length": 20, "x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "work.ring"},
    "work.rejecting": {"x-max-length": 20, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.headers"},
    "work.priority": {"x-max-priority": 9},
    "work.limited": {"x-delivery-limit": 1, "x-dead-letter-exchange": "amq.headers"},
    "work.ring": {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work.ring"},
    "work.stream": {"x-queue-type": "stream", "x-max-length-bytes": 200_000},
    "work.plain": {},
}
BINDINGS: Final = [("amq.headers", "", "work.plain"), ("amq.topic", "#", "work.ring"), ("amq.fanout", "", "work.full")]


def settings(store: Path) -> dict[str, Any]:
    """The broker's: users with permissions, limits, a store, times to live, chains of dead letters."""
    permissions = Permissions(configure=r"^(h\.|amq\.gen|topic\.h)", write=r"^(?!victim)", read=r"^(?!victim)")
    return {
        "users": {
            "mallory": User(PASSWORDS["mallory"], {"/": permissions}),
            "victim": PASSWORDS["victim"],
        },
        "limits": BrokerLimits(
            sessions=16,
            links=16,
            nodes=200,
            nodes_by_connection=20,
            exchanges=50,
            bindings=200,
            bindings_by_queue=20,
            arguments=2000,
            kept_links=10,
            memory=50_000_000,
        ),
        "store": store,
        "queues": WORK,
        "bindings": BINDINGS,
        "topics": ["work.topic"],
        "max_delivery_count": 3,
        "dead_letter_expired": True,
        "duplicate_ids": 100,
        "max_queue_messages": 500,
        "max_queue_bytes": 2_000_000,
        "max_message_size": 200_000,
        "max_subscription_timeout": 1,
        "transaction_timeout": 2.0,
        "handshake_timeout": 60.0,
        "close_timeout": 0.5,
    }


# What hostile clients say


def _value(dice: random.Random, depth: int = 0) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: dice.choice((True, False)),
        lambda: dice.randrange(-5, 10),
        lambda: (1 << 63) - 1,
        lambda: dice.choice((0.0, 1.5, float("nan"), float("inf"))),
        lambda: Decimal(dice.choice(("1.5", "NaN", "sNaN", "-sNaN", "Infinity", "1E+384"))),
        lambda: dice.choice(("red", "", "ab", "é\u202e", "x" * 300)),
        lambda: dice.randbytes(dice.randrange(40)),
        lambda: Symbol("red"),
    ]
    if depth < 3:
        kinds += [
            lambda: [_value(dice, depth + 1) for _ in range(dice.randrange(4))],
            lambda: {f"k{n}": _value(dice, depth + 1) for n in range(dice.randrange(4))},
        ]
    return dice.choice(kinds)()


# Sections as no encoder of ours writes them: cut short, of another type, twice, in another order, unknown.
_SECTIONS: Final = (
    b"\x00\x53\x70\xc0\x02\x01\x41",
    b"\x00\x53\x70\xc0\xff\x05\x41",
    b"\x00\x53\x70\xa1\x01x",
    b"\x00\x53\x71\xc1\x03\x02\xa3\x01",
    b"\x00\x53\x72\xc1\x01\x01",
    b"\x00\x53\x72\xd1\x00\x00\x00\x04\x7f\xff\xff\xff",
    b"\x00\x53\x73\xc0\x05\x02\x41\x41\x41\x41",
    b"\x00\x53\x73\x45",
    b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\x45",
    b"\x00\xa3\x14amqp:properties:list\x45",
    b"\x00\x53\x74\xc1\x09\x04\xa1\x01n\xa1\x01x\x40\x40",
    b"\x00\x53\x74\xc1\x05\x02\x41\xa1\x01x",
    b"\x00\x53\x74\xa1\x01x",
    b"\x00\x53\x75\xa0\x02ab",
    b"\x00\x53\x76\x45",
    b"\x00\x53\x77\x40",
    b"\x00\x53\x77\xe0\x06\xff\x45",
    b"\x00\x53\x78\xc1\x01\x00",
    b"\x00\x53\x99\x45",
    b"\x00",
    b"\xff\xfe",
)


def payload(dice: random.Random) -> bytes:
    """A message: sound, odd or malformed."""
    if dice.random() < 0.3:
        return b"".join(dice.choice(_SECTIONS) for _ in range(dice.randrange(5)))
    body: Any = dice.choice(
        (
            b"data" * dice.randrange(200),
            AmqpValue(_value(dice)),
            AmqpSequence([[_value(dice)]]),
            Data(b"x"),
            "text",
        )
    )
    fields: dict[str, Any] = {
        "durable": dice.random() < 0.5,
        "priority": dice.choice((None, 0, 9, 255)),
        "ttl": dice.choice((None, None, timedelta(0), timedelta(milliseconds=5), timedelta(days=400))),
        "message_id": dice.choice((None, "id", UInt(7), b"id")),
        "user_id": dice.choice((None, None, b"mallory", b"victim")),
        "to": dice.choice((None, "work.plain", "/exchanges/amq.headers", "/queues/%zz", "nowhere", "x" * 300)),
        "reply_to": dice.choice((None, "work.plain", "$me", "amq.rabbitmq.reply-to")),
        "subject": dice.choice((None, "k", "work.ring", "a." * 60, "PUT", "DELETE")),
        "correlation_id": dice.choice((None, "c", b"\x00" * 300)),
        "content_type": dice.choice((None, Symbol("text/plain"))),
        "group_id": dice.choice((None, "g")),
        "application_properties": {
            key: value
            for key in ("n", "color", "d", "text", "_AMQ_DUPL_ID", "x-death", "CC")
            if dice.random() < 0.4 and not isinstance(value := _value(dice, 3), list | dict)
        },
        "message_annotations": {
            Symbol(key): _value(dice)
            for key in ("x-opt-a", "x-death", "x-cc", "x-bcc", "x-exchange", "x-routing-key", "x-opt-amqp10")
            if dice.random() < 0.15
        },
    }
    try:
        encoded = Message(body, **{name: value for name, value in fields.items() if value is not None}).encode()
    except (AmqpError, ValueError, TypeError):
        return b"\x00\x53\x77\x40"
    if dice.random() < 0.15:
        return changed(encoded, dice)
    return encoded


INTERESTING: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x45, 0x40, 0xC0, 0xD0, 0xE0, 0xF0, 0xCE)


def changed(data: bytes, dice: random.Random) -> bytes:
    """These octets with one change."""
    if not data:
        return dice.randbytes(8)
    octets = bytearray(data)
    at = dice.randrange(len(octets))
    match dice.randrange(8):
        case 0:
            octets[at] ^= 1 << dice.randrange(8)
        case 1:
            octets[at] = dice.choice((*INTERESTING, dice.randrange(256)))
        case 2:
            del octets[at : at + dice.choice((1, 2, 4, 50))]
        case 3:
            octets[at:at] = dice.randbytes(dice.randrange(1, 9))
        case 4:
            octets += octets[at:]
        case 5:
            octets[at : at + 4] = dice.choice((0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)).to_bytes(4, "big")
        case 6:
            to = dice.randrange(len(octets))
            octets[at:at] = octets[min(at, to) : max(at, to)][:200]
        case _:
            del octets[at:]
    return bytes(octets)


NAMES: Final = ("h.1", "h.2", "h.3", *WORK)
"""What a hostile client names: the first three it also declares and deletes."""


def arguments(dice: random.Random) -> dict[str, Any]:
    """Of a queue."""
    chosen: dict[str, Any] = {
        "x-message-ttl": dice.choice((0, 1, 50, -1, "x")),
        "x-expires": dice.choice((1, 50)),
        "x-max-length": dice.choice((0, 1, 10)),
        "x-max-length-bytes": dice.choice((0, 100)),
        "x-overflow": dice.choice(("drop-head", "reject-publish", "reject-publish-dlx", "none")),
        "x-dead-letter-exchange": dice.choice(("", "amq.headers", "amq.topic", "h.exchange", "absent")),
        "x-dead-letter-routing-key": dice.choice(("h.1", "h.2", "work.ring")),
        "x-max-priority": dice.choice((0, 5, 255, 256)),
        "x-delivery-limit": dice.choice((0, 1)),
        "x-single-active-consumer": dice.choice((True, False, 1)),
        "x-queue-type": dice.choice(("classic", "quorum", "stream", "odd")),
        "x-match": dice.choice(("all", "any", "any-with-x")),
        "n": _value(dice, 3),
    }
    return {key: value for key, value in chosen.items() if dice.random() < 0.25}


class Conversation:
    """One hostile client.

    Args:
        name: of its dialect.
        dice: all that it does follows from these, and from what the broker answers.
        stream: to the broker.
    """

    def __init__(self, name: str, dice: random.Random, stream: ByteStream) -> None:
        self.dice = dice
        self._stream = stream
        credentials = Plain("mallory", PASSWORDS["mallory"]) if dice.random() < 0.97 else Plain("mallory", "wrong")
        terms = ConnectionTerms(
            f"h{dice.randrange(4)}", hostname="localhost", max_frame_size=dice.choice((512, 65_536))
        )
        self.engine: Engine = dialect(name).client(terms, (credentials,), True)
        self._mutating = dice.choice((0.0, 0.0, 0.05, 0.3))
        self._sound = dice.choice((0, 4, 8, 16))  # writes before the first that is changed
        self._said: list[bytes] = []
        self._arrived = bytearray()
        self._sessions: list[Session] = []
        self._senders: list[SenderLink] = []
        self._receivers: list[ReceiverLink] = []
        self._transactions: list[bytes] = []

    async def run(self) -> None:
        """Speak until there is nothing left to say, or nobody to say it to."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._speak()
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._stream)

    async def _read(self) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                data = await self._stream.receive()
                self._arrived += data

    async def _speak(self) -> None:
        self.engine.start()
        self.engine.open()
        for _ in range(4):
            await self._exchange()
        for _ in range(self.dice.randrange(2, 40)):
            if not self.engine.opened and self.dice.random() < 0.5:
                break
            with suppress(AmqpError, ValueError, TypeError, OverflowError):
                self._step()
            await self._exchange()
        if self.dice.random() < 0.5:
            self.engine.close()
            await self._exchange()

    async def _exchange(self) -> None:
        """Write what there is to say, changed or not, and take in what is answered soon."""
        data = self.engine.data_to_send()
        if data and len(self._said) >= self._sound and self.dice.random() < self._mutating:
            data = self._mutated(data)
        if data:
            self._said.append(data)
            cut = self.dice.randrange(len(data)) if self.dice.random() < 0.1 else 0
            for part in (data[:cut], data[cut:]):
                if part:
                    await self._stream.send(part)
        for _ in range(12):
            await checkpoint()
            if self._arrived:
                arrived, self._arrived = bytes(self._arrived), bytearray()
                self.engine.receive_data(arrived)
        for event in self.engine.events():
            if isinstance(event, OutcomesReceived):
                states = [delivery.remote_state for delivery in event.deliveries]
                self._transactions += [state.txn_id for state in states if isinstance(state, Declared)]

    def _mutated(self, data: bytes) -> bytes:
        match self.dice.randrange(6):
            case 0 if self._said:
                return data + self.dice.choice(self._said)
            case 1 if self._said:
                return self.dice.choice(self._said)
            case 2:
                return b""
            case 3:
                return data + self.dice.randbytes(self.dice.randrange(200))
        for _ in range(self.dice.choice((1, 1, 1, 3))):
            data = changed(data, self.dice)
        return data

    # Steps

    def _step(self) -> None:
        if not self._sessions or self.dice.random() < 0.05:
            self._sessions.append(self.engine.begin(SessionTerms(incoming_window=self.dice.choice((1, 2048)))))
            return
        steps = [self._attach_sender, self._attach_receiver, self._attach_receiver, self._attach_coordinator]
        steps += [self._request] * 3 + [self._transact] * 2 + [self._send] * 8 + [self._receive] * 4 + [self._end_one]
        self.dice.choice(steps)()

    @property
    def _session(self) -> Session:
        return self.dice.choice(self._sessions)

    def _address(self) -> str | None:
        odd = (
            "/exchanges/amq.headers",
            "/exchanges/amq.topic/k",
            "/queues/h.1",
            "work.topic",
            "topic.h",
            "/management",
        )
        return self.dice.choice((*odd, "x" * 300, "", None, f"h.new.{self.dice.randrange(20)}"))

    def _attach_sender(self) -> None:
        dice = self.dice
        target = Target(
            self._address(),
            durable=dice.choice(("none", "unsettled-state")),
            expiry_policy=dice.choice(("session-end", "never", "link-detach")),
            timeout=dice.choice((0, 1)),
            dynamic=dice.random() < 0.05,
            capabilities=dice.choice(((), ("queue",), ("topic",))),
        )
        terms = LinkTerms(
            f"to{dice.randrange(6)}",
            source=Source(),
            target=target,
            settle_mode=dice.choice(("unsettled", "settled", "mixed")),
            unsettled=dice.choice((None, None, {b"tag": None})),
            properties=dice.choice(({}, {Symbol("paired"): True})),
        )
        self._senders.append(self._session.attach_sender(terms))

    def _attach_receiver(self) -> None:
        dice = self.dice
        filters = dice.choice(
            ([], [], [Selector(SELECTOR)], [Selector("n NOT LIKE '%'")], [NoLocal()], [StreamOffset("first")])
        )
        source = Source(
            self._address(),
            filters=filters,
            distribution_mode=dice.choice((None, "copy", "move")),
            durable=dice.choice(("none", "unsettled-state")),
            expiry_policy=dice.choice(("session-end", "never")),
            dynamic=dice.random() < 0.05,
            default_outcome=dice.choice((None, Modified(delivery_failed=True))),
        )
        terms = LinkTerms(
            f"from{dice.randrange(6)}",
            source=source,
            target=Target(),
            settle_mode=dice.choice(("settled", "mixed")),
            receiver_settle_mode=dice.choice(("first", "second")),
            max_message_size=dice.choice((None, 100)),
            properties=dice.choice(({}, {Symbol("paired"): True})),
        )
        receiver = self._session.attach_receiver(terms)
        receiver.flow(dice.choice((0, 1, 100)))
        self._receivers.append(receiver)

    def _attach_coordinator(self) -> None:
        self._senders.append(self._session.attach_sender(LinkTerms("tx", source=Source(), target=Coordinator())))

    def _transact(self) -> None:
        senders = [sender for sender in self._senders if sender.terms and isinstance(sender.terms.target, Coordinator)]
        if not senders:
            self._attach_coordinator()
            return
        work = Declare()
        if self._transactions and self.dice.random() < 0.6:
            work = Discharge(txn_id=self.dice.choice(self._transactions), fail=self.dice.random() < 0.3)  # type: ignore[assignment]
        self.dice.choice(senders).send(b"\x00\x53\x77" + encode(work))

    def _send(self) -> None:
        ready = [sender for sender in self._senders if sender.attached and sender.credit and sender.name != "tx"]
        if not ready:
            self._attach_sender()
            return
        dice = self.dice
        sender = dice.choice(ready)
        assert sender.terms is not None
        for _ in range(dice.choice((1, 1, 3))):
            state = None
            if self._transactions and dice.random() < 0.3:
                state = TransactionalState(txn_id=dice.choice(self._transactions))
            sender.send(
                payload(dice),
                settled=sender.terms.settle_mode == "settled"
                or (sender.terms.settle_mode == "mixed" and dice.random() < 0.3),
                message_format=dice.choice((0, 0, 0, 0, 1, 1 << 31)),
                tag=dice.choice((None, None, b"tag")),
                more=dice.random() < 0.03,
                state=state,
            )

    def _receive(self) -> None:
        if not self._receivers:
            return
        dice = self.dice
        receiver = dice.choice(self._receivers)
        if dice.random() < 0.3:
            receiver.flow(dice.choice((0, 1, 1000)), drain=dice.random() < 0.3, echo=dice.random() < 0.2)
        while receiver.incoming and dice.random() < 0.8:
            outcome: Any = dice.choice(
                (
                    ACCEPTED,
                    ACCEPTED,
                    RELEASED,
                    Rejected(Error(Symbol("x:y"), "why\r\n\x1b[2J")),
                    Modified(delivery_failed=True, message_annotations={Symbol("x-opt-b"): _value(dice)}),
                    Modified(undeliverable_here=True),
                )
            )
            if self._transactions and dice.random() < 0.3:
                outcome = TransactionalState(txn_id=dice.choice(self._transactions), outcome=outcome)
            receiver.settle(receiver.incoming.popleft(), outcome)

    def _request(self) -> None:
        dice = self.dice
        name, exchange = dice.choice(NAMES[:3]), dice.choice(("h.exchange", "h.other"))
        key = dice.choice(("", "k", "#", "*.#.*", "x" * 255))
        kind = dice.choice(("direct", "fanout", "topic", "headers", "odd"))
        known = dice.choice((*NAMES, "absent", ""))
        to = dice.choice((exchange, "amq.headers", "amq.topic"))
        request: Request[Any] = dice.choice(
            (
                DeclareQueue(name, durable=dice.random() < 0.5, arguments=arguments(dice)),
                DeclareQueue("", exclusive=True, auto_delete=True),
                DeclareQueue(known, passive=True),
                DeleteQueue(name, if_unused=dice.random() < 0.3, if_empty=dice.random() < 0.3),
                PurgeQueue(name),
                QueryQueue(known),
                DeclareExchange(exchange, kind, alternate=dice.choice((None, "amq.headers", "h.exchange", "absent"))),
                DeleteExchange(exchange, if_unused=dice.random() < 0.3),
                QueryExchange(to),
                Bind(name, to, key, arguments(dice)),
                Bind(exchange, "h.other", key, kind="exchange"),
                Unbind(name, to, key),
                QueryBinding(to, name, key, {}),
            )
        )
        self._session.request(request)

    def _end_one(self) -> None:
        dice = self.dice
        links = [*self._senders, *self._receivers]
        if links and dice.random() < 0.9:
            dice.choice(links).detach(closed=dice.random() < 0.5)
        else:
            self._sessions.pop(dice.randrange(len(self._sessions))).end()


# Honest clients


@dataclass
class Honest:
    """Honest clients at work on one broker, a pair in each dialect, and consumers of what the hostile ones send.

    Attributes:
        served: messages that the pairs sent and received, all in order and once.
        worked: messages that the consumers took.
    """

    broker: Broker
    served: int = 0
    worked: int = 0
    _round: int = 0
    _pairs: list[Any] = field(default_factory=list)

    async def begin(self, tasks: TaskGroup) -> None:
        """Connect all of them."""
        for name in dialect_names():
            self._pairs.append(await tasks.start(self._pair, name))
            await tasks.start(self._work, name)

    def _connect(self, name: str) -> Connection:
        return self.broker.connect(f"amqp://victim:{PASSWORDS['victim']}@localhost", dialect=name, reconnect=None)

    async def _pair(self, name: str, *, task_status: TaskStatus[Any]) -> None:
        address = f"victim.{name}"
        async with self._connect(name) as connection:
            async with connection.sender(address) as sender, connection.receiver(address) as receiver:
                task_status.started((sender, receiver))
                await anyio.sleep_forever()

    async def check(self) -> None:
        """Send and receive on each pair: the connection of before, the message of now and no other."""
        self._round += 1
        for sender, receiver in self._pairs:
            with anyio.fail_after(60):
                await sender.send(Message(self._round, durable=True))
                delivery = await receiver.receive()
                assert delivery.message.body == self._round
                delivery.accept()
            self.served += 1

    async def _work(self, name: str, *, task_status: TaskStatus[None]) -> None:
        can = dialect(name).capabilities
        async with self._connect(name) as connection, anyio.create_task_group() as tasks:
            for address in WORK:
                if address == "work.stream" and "stream-filters" not in can:
                    continue
                filters = [Selector(SELECTOR)] if "filters" in can and address in ("work.plain", "work.ttl") else []
                receiver = connection.receiver(Source(address, filters=filters), credit=5)
                await tasks.start(self._take, receiver, "rejected" in can)
            task_status.started()
            await anyio.sleep_forever()

    async def _take(self, receiver: Any, can_reject: bool, *, task_status: TaskStatus[None]) -> None:
        async with receiver:
            task_status.started()
            async for delivery in receiver:
                self.worked += 1
                try:
                    _look(delivery.message)
                    readable = True
                except DecodeError:
                    readable = False
                if readable or not can_reject:
                    delivery.accept()
                else:
                    delivery.reject("amqp:decode-error", "cannot be read")


def _look(message: Message) -> None:
    """Read all of a message, as a program does that prints it."""
    repr((message.body, message.application_properties, message.message_annotations, message.ttl, message.user_id))


class Faults(logging.Handler):
    """What the package logged with a traceback: a fault of ours, whoever provoked it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.seen.append(logging.Formatter("%(message)s").format(record))


@asynccontextmanager
async def watching() -> AsyncIterator[Faults]:
    """Collect faults meanwhile."""
    faults = Faults()
    log = logging.getLogger("amqp10")
    log.addHandler(faults)
    try:
        yield faults
    finally:
        log.removeHandler(faults)


def _copy(folder: Path) -> None:
    """Copy the store as it is on the disk at one moment."""
    while True:
        files = [file for file in folder.glob("store*") if not file.name.endswith("-shm")]
        before = [(file.stat().st_mtime_ns, file.stat().st_size) for file in files]
        for file in files:
            shutil.copy(file, folder / f"crash-{file.name}")
        if before == [(file.stat().st_mtime_ns, file.stat().st_size) for file in files]:
            return


async def converse(folder: Path, seed: str, count: int, *, check_every: int = 25) -> None:
    """Let that many hostile clients speak to a broker with a store in `folder`, which may have one from before.

    Raises:
        AssertionError: an honest client was not served, a fault of ours was logged, or the broker did not start again.
    """
    store = folder / "store"
    async with watching() as faults:
        async with Broker(**settings(store)) as broker, anyio.create_task_group() as tasks:
            honest = Honest(broker)
            await honest.begin(tasks)
            for number in range(count):
                dice = random.Random(f"{seed} {number}")
                name = dice.choice(dialect_names())
                with anyio.fail_after(60):
                    await Conversation(name, dice, broker.open_stream()).run()
                assert not faults.seen, f"conversation {seed!r} {number} in {name}: {faults.seen[0]}"
                if number % check_every == check_every - 1:
                    await honest.check()
                    assert not faults.seen, f"after conversation {seed!r} {number}: {faults.seen[0]}"
            await honest.check()
            assert honest.worked > count // 10
            # What a crash at this moment would leave.
            _copy(folder)
            tasks.cancel_scope.cancel()
        for left in (folder / "crash-store", store):
            async with Broker(**settings(left)) as broker, anyio.create_task_group() as tasks:
                await Honest(broker).begin(tasks)
                tasks.cancel_scope.cancel()
        assert not faults.seen, f"after {seed!r}, at the start: {faults.seen[0]}"
