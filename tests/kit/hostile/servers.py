"""Hostile servers, in every dialect: what an honest broker says is changed on its way to a client of ours.

Octets are changed as `conversations` changes those of clients; or whole frames: fields of what is well-formed get
values that make no sense, messages are malformed in each section, frames are left out, said twice, or come too early.
A tracer beside the client reads what the client saw: what the client believes must be said there.
"""

from __future__ import annotations

import logging
import random
import re
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Final

import anyio
from anyio.abc import ByteStream

from amqp10 import AmqpError, Connection, DecodeError, Delivery, Message, errors
from amqp10.broker import Broker
from amqp10.dialects.fast.wire.frames import CommandReader
from amqp10.dialects.fast.wire.frames import encode_command as encode_fast
from amqp10.dialects.v0_9.wire.framing import METHOD
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant
from amqp10.dialects.v0_10.wire.frames import CONTROL, HEAD_SIZE, encode_command, encode_control
from amqp10.dialects.v0_10.wire.struct import decode_command, decode_control
from amqp10.dialects.v1_0.wire.frames import FrameReader, encode_frame, encode_sasl_frame
from amqp10.dialects.v1_0.wire.performatives import SaslMechanisms, Transfer
from amqp10.engine import dialect
from amqp10.messaging import ACCEPTED, RELEASED, Declared, Error, Modified, Rejected
from amqp10.sasl import Plain, ScramSha256
from amqp10.types import Symbol

from .acts import ACTS, HARMLESS
from .conversations import changed, payload
from .method_acts import AT_CLIENT

USER: Final = "victim"
PASSWORD: Final = "hunter2-of-the-victim"
"""Never to be seen."""

PATIENCE: Final = 0.25
"""Seconds that the program waits for what a server may never say; then it gives up and leaves."""

TEXT: Final = ("", "x" * 300, "why\r\n\x1b[2J\u202e", "the password of victim is wrong: secret, token", "q", "%s%n{0}")


# Changing what is well-formed


def odd(value: Any, dice: random.Random) -> Any:
    """A value in place of this one, of its type for the most part."""
    if dice.random() < 0.05:
        return None
    match value:
        case bool():
            return not value
        case int():
            near = (value + 1, max(0, value - 1), value ^ 0xFF)
            return dice.choice((0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 64) - 1, *near))
        case str():
            return type(value)(dice.choice(TEXT)) if not isinstance(value, Symbol) else Symbol(dice.choice(TEXT[2:4]))
        case bytes():
            return changed(value, dice)
        case Mapping():
            others = {"redirect": "amqp://elsewhere:1", "hostname": "elsewhere", "network-host": "h\r\nX: y", "port": 1}
            return dice.choice(({}, {**value, **others}, {Symbol(key): said for key, said in others.items()}))
        case tuple() | list():
            return type(value)(dice.choice(((), (*value, *value))))
        case Error():
            return Error(Symbol(dice.choice(("amqp:link:redirect", "amqp:not-found", "x:y"))), dice.choice(TEXT))
        case None:
            return dice.choice((None, 0, 1, True, 0xFFFFFFFF, "x", b"x", ERROR, Decimal("sNaN"), {}))
    return dice.choice((ACCEPTED, RELEASED, Declared(b"t"), Modified(), Rejected(ERROR), None))


ERROR: Final = Error(Symbol("amqp:connection:redirect"), TEXT[2], {Symbol("network-host"): "elsewhere", "port": 7})


def altered(said: Any, names: list[str], dice: random.Random) -> Any:
    """The same method, control, command or performative with one or two odd fields."""
    values = {name: getattr(said, name) for name in names}
    for name in dice.sample(names, min(len(names), dice.choice((1, 1, 2)))):
        values[name] = odd(values[name], dice)
    return type(said)(**values)


class Frames:
    """What the server says, cut into frames; each may be changed as the dialect has them."""

    def __init__(self, name: str, dice: random.Random) -> None:
        self._name = name
        self._dice = dice
        self._rest = b""
        self._variant = {each.name: each for each in (V0_9_1, V0_9, V0_9_DRAFT)}.get(name)
        self._alter: Callable[[bytes], bytes]
        self._size: Callable[[bytes], int]
        if name == "1.0":
            self._size, self._alter = _size_1_0, self._alter_1_0
        elif name == "0-10":
            self._size, self._alter = _size_0_10, self._alter_0_10
        elif name == "fast":
            self._size, self._alter = _size_fast, self._alter_fast
        else:
            self._size, self._alter = self._size_0_9, self._alter_0_9
        self._before: list[bytes] = []

    def changed(self, data: bytes, chance: float) -> bytes:
        """All whole frames among what came by now, each changed with that chance."""
        self._rest += data
        out = b""
        while self._rest:
            size = 8 if self._rest.startswith(b"AMQP") else self._size(self._rest)
            if not 0 < size <= len(self._rest):
                break
            frame, self._rest = self._rest[:size], self._rest[size:]
            out += self._one(frame) if self._dice.random() < chance else frame
            self._before.append(frame)
        return out

    def _one(self, frame: bytes) -> bytes:
        dice = self._dice
        match dice.randrange(8):
            case 0:
                return b""
            case 1:
                return frame * 2
            case 2:
                return frame + dice.choice(self._before) if self._before else frame
            case 3:
                return self._act() + frame
        if frame.startswith(b"AMQP"):
            return changed(frame, dice)
        try:
            return self._alter(frame)
        except Exception:  # what has no encoding is not said
            return frame

    def _act(self) -> bytes:
        """One of those that the tests of single acts know, at any time."""
        if self._name == "1.0":
            return self._dice.choice((*(act.data for act in ACTS), *(data[:4000] for data in HARMLESS.values())))
        if self._variant is not None:
            return self._dice.choice(AT_CLIENT).octets(self._variant)
        return self._dice.choice(self._before) if self._before else b""

    # The dialects

    def _alter_1_0(self, frame: bytes) -> bytes:
        reader = FrameReader(len(frame))
        reader.feed(frame)
        read = reader.next()
        assert read is not None
        kind, channel, performative, body = read
        if performative is None:
            return frame
        names = [each.name for each in performative.fields]
        if isinstance(performative, Transfer) and body and self._dice.random() < 0.7:
            return encode_frame(channel, performative, payload(self._dice))
        said = altered(performative, names, self._dice)
        if kind == 1:
            if isinstance(said, SaslMechanisms) and self._dice.random() < 0.5:
                said = SaslMechanisms(sasl_server_mechanisms=(Symbol("EXTERNAL"), Symbol("x\r\n")))
            return encode_sasl_frame(said)
        return encode_frame(channel, said, bytes(body))

    def _size_0_9(self, data: bytes) -> int:
        assert self._variant is not None
        framing = self._variant.framing
        return framing.head.unpack_from(data)[2] + framing.overhead if len(data) >= framing.head.size else 0

    def _alter_0_9(self, frame: bytes) -> bytes:
        variant: Variant = self._variant  # type: ignore[assignment]
        kind, channel, _ = variant.framing.head.unpack_from(frame)
        body = frame[variant.framing.head.size : -1]
        method = variant.methods.decode(body) if kind == METHOD else None
        if method is None:
            return variant.framing.frame(kind, channel, changed(body, self._dice))
        said = altered(method, [each.name for each in method.fields], self._dice)
        return variant.framing.frame(kind, channel, variant.methods.encode(said))

    def _alter_0_10(self, frame: bytes) -> bytes:
        flags, kind, channel, body = frame[0], frame[1], int.from_bytes(frame[6:8], "big"), frame[HEAD_SIZE:]
        if kind == CONTROL:
            control = decode_control(body)
            return encode_control(
                channel, altered(control, [each.name for each in control.fields], self._dice).encode()
            )
        if kind == 1 and flags & 4:  # a command without a message
            command = decode_command(body)
            said = altered(command, [each.name for each in command.fields], self._dice)
            return encode_command(channel, said.encode(self._dice.random() < 0.5), None, None, 65_000)
        return frame[:HEAD_SIZE] + bytes(
            octet ^ (1 << self._dice.randrange(8)) if self._dice.random() < 0.05 else octet for octet in body
        )

    def _alter_fast(self, frame: bytes) -> bytes:
        reader = CommandReader(len(frame))
        reader.feed(frame)
        read = reader.next()
        assert read is not None
        command, content = read
        if content and self._dice.random() < 0.5:
            at = self._dice.randrange(len(content))
            return encode_fast(command, content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        return encode_fast(altered(command, [each.name for each in fields(command)], self._dice), content)


def _size_1_0(data: bytes) -> int:
    return int.from_bytes(data[:4], "big")


def _size_0_10(data: bytes) -> int:
    return int.from_bytes(data[2:4], "big")


def _size_fast(data: bytes) -> int:
    """By trial: a command has no size of its own."""
    reader = CommandReader(1 << 20)
    reader.feed(data)
    try:
        return len(data) - len(reader.front(len(data))) if reader.next() is not None else 0
    except AmqpError:
        return 0


class HostileStream(ByteStream):
    """The client's end of a stream to an honest broker, whose words are changed on their way.

    Args:
        stream: to the broker.
        name: of the dialect.
        dice: what is changed, and how.

    Attributes:
        lines: what crossed at the client's end, as its tracer shows it, bodies as well.
    """

    def __init__(self, stream: ByteStream, name: str, dice: random.Random) -> None:
        self._stream = stream
        self._dice = dice
        self._tracer = dialect(name).tracer(True)
        self.lines: list[str] = []
        self._frames = Frames(name, dice) if dice.random() < 0.6 else None
        self._chance = dice.choice((0.05, 0.2, 0.5))
        self._sound = dice.choice((0, 1, 3, 5, 8, 12))  # portions before the first that is changed
        self._portions: list[bytes] = []
        self._again: list[bytes] = []

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while True:
            data = self._again.pop() if self._again else await self._say(max_bytes)
            if data:
                self.lines += self._tracer.received(data)
                return data

    async def _say(self, max_bytes: int) -> bytes:
        data = await self._stream.receive(max_bytes)
        dice = self._dice
        self._portions.append(data)
        sound = len(self._portions) <= self._sound
        if self._frames is not None:
            return self._frames.changed(data, 0.0 if sound else self._chance)
        if sound or dice.random() > self._chance:
            return data
        match dice.randrange(12):
            case 0:
                return b""
            case 1:
                self._again.append(data)
                return data
            case 2:
                return data + dice.choice(self._portions)
            case 3:
                await self._stream.aclose()
                raise anyio.EndOfStream
            case 4:
                await anyio.sleep(10)  # longer than its client waits
                return data
            case 5:
                return data + dice.randbytes(dice.randrange(200))
            case 6:
                cut = dice.randrange(len(data))
                self._again.append(data[cut:])
                return data[:cut]
        for _ in range(dice.choice((1, 1, 3))):
            data = changed(data, dice)
        return data

    async def send(self, item: bytes) -> None:
        self.lines += self._tracer.sent(item)
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


# What the client saw

_TRANSFER: Final = re.compile(r"> \[(\d+)\] Transfer\(.*delivery_id=(\d+)")
_DISPOSITION: Final = re.compile(r"< \[(\d+)\] Disposition\(role=True, first=(\d+)(?:, last=(\d+))?.*Accepted\(\)")
_ACK: Final = re.compile(r"< \[(\d+)\] basic\.ack\((?:delivery_tag=(\d+))?(.*)\)")
_COMPLETED: Final = re.compile(r"< \[(\d+)\] session\.completed\(commands=\((.*)\)")
_SENT: Final = re.compile(r"> handle-send\(.*confirm_tag=(\d+)")
_REPLY: Final = re.compile(r"< handle-reply\(.*confirm_tag=(\d+).*reply_code=2\d\d")
_MARKER: Final = re.compile(r"sent-\d+-")


def accepted(name: str, lines: list[str]) -> set[str]:
    """The markers of those messages of which the server said that it has them."""
    places: dict[str, tuple[str, int]] = {}
    said: set[str] = set()
    counts: dict[str, int] = defaultdict(int)
    last = "", 0

    def found(channel: str, first: int, end: int) -> None:
        said.update(marker for marker, (on, at) in places.items() if on == channel and first <= at <= end)

    for line in lines:
        if name == "1.0":
            if match := _TRANSFER.match(line):
                last = match[1], int(match[2])
            elif match := _DISPOSITION.match(line):
                found(match[1], int(match[2]), int(match[3] or match[2]))
        elif name == "fast":
            if match := _SENT.match(line):
                last = "", int(match[1])
            elif match := _REPLY.match(line):
                found("", int(match[1]), int(match[1]))
        elif name == "0-10":
            if (match := re.match(r"> \[(\d+)\] (\w+)", line)) and match[2] not in ("session", "connection"):
                last = match[1], counts[match[1]]
                counts[match[1]] += 1
            elif match := _COMPLETED.match(line):
                for first, end in re.findall(r"\((\d+), (\d+)\)", match[2]):
                    found(match[1], int(first), int(end))
        elif match := re.match(r"> \[(\d+)\] basic\.publish", line):
            counts[match[1]] += 1
            last = match[1], counts[match[1]]
        elif match := _ACK.match(line):
            tag = int(match[2] or 0)
            found(match[1], 0 if "multiple" in match[3] else tag, tag or 1 << 64)
        if line.startswith(">") and (mark := _MARKER.search(line)):
            places[mark[0]] = last
    return said


# What the client does


@dataclass
class Life:
    """One client's.

    Attributes:
        name: of its dialect.
        dice: what it does.
        sent: markers of the messages whose `send` returned, none of a transaction.
    """

    name: str
    dice: random.Random
    sent: list[str] = field(default_factory=list)

    def credentials(self) -> Any:
        """What it logs in with."""
        return self.dice.choice((None, Plain(USER, PASSWORD), ScramSha256(USER, PASSWORD)))

    async def run(self, connection: Connection, address: str) -> None:
        """Use the connection as a program does, with a limit of time for what a server may never answer."""
        dice, can = self.dice, dialect(self.name).capabilities
        async with connection:
            with anyio.move_on_after(PATIENCE):
                async with (
                    connection.sender(address) as sender,
                    connection.receiver(address, credit=dice.choice((1, 10))) as receiver,
                ):
                    for number in range(dice.randrange(1, 5)):
                        marker = f"sent-{number}-"
                        await sender.send(Message(marker.encode(), durable=True, message_id=f"m{number}"))
                        self.sent.append(marker)
                    if dice.random() < 0.4 and "transactions" in can:
                        async with connection.transaction() as transaction:
                            await sender.send(b"in a transaction", transaction=transaction)
                    if dice.random() < 0.4 and "requests" in can:
                        await connection.native.declare_queue(f"{address}.more")
                        await connection.native.queue(f"{address}.more")
                    for _ in range(dice.randrange(1, 5)):
                        self.take(await receiver.receive(), can)

    def take(self, delivery: Delivery, can: frozenset[str]) -> None:
        """Read all of a message, as a program does that prints it, and say what becomes of it."""
        try:
            message = delivery.message
            repr((message.body, message.application_properties, message.message_annotations, message.ttl))
        except DecodeError:
            delivery.release() if "released" in can else delivery.accept()
            return
        if self.dice.random() < 0.2 and "rejected" in can:
            delivery.reject("x:y", "odd")
        else:
            delivery.accept()


class Records(logging.Handler):
    """All that the package says to its loggers."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.faults: list[str] = []
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter("%(message)s").format(record)
        self.texts.append(text)
        if record.exc_info is not None:
            self.faults.append(text)


@asynccontextmanager
async def recording() -> AsyncIterator[Records]:
    """Collect them meanwhile, of all that runs then: one at a time, as it puts back the level of the logger."""
    records, log = Records(), logging.getLogger("amqp10")
    assert log.level == logging.NOTSET, "another recording has set the level"
    log.addHandler(records)
    log.setLevel(logging.INFO)
    try:
        yield records
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(records)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it says it is of."""
    while error is not None:
        yield error
        error = error.__cause__


def check_error(error: BaseException | None, where: str) -> None:
    """It is one that a program may be told, it blames nobody here, and it keeps the secret."""
    if error is None:
        return
    text = "".join(traceback.format_exception(error))
    assert isinstance(error, AmqpError | anyio.ClosedResourceError | TimeoutError), f"{where}: {text}"
    if isinstance(error, AmqpError):
        assert type(error) is getattr(errors, type(error).__name__, None), f"{where}: {text}"
    assert not any(isinstance(each, BaseExceptionGroup) for each in chain(error)), f"{where}: {text}"
    assert "own task failed" not in text, f"{where}: {text}"
    assert PASSWORD not in text + repr(error), where


async def quietly(doing: Awaitable[Any]) -> BaseException | None:
    """Wait for it; return what it raised, whatever that is, for `check_error` to judge."""
    try:
        await doing
    except Exception as error:
        return error
    except BaseExceptionGroup as error:
        return error
    return None


async def converse(broker: Broker, name: str, seed: str, records: Records) -> tuple[int, type | None]:
    """One client against one hostile server; return how many sends returned, and the type of what it was told.

    Raises:
        AssertionError: see the module of the tests.
    """
    dice = random.Random(seed)
    where = f"conversation {seed!r} in {name}"
    stream = HostileStream(broker.open_stream(), name, dice)
    life = Life(name, dice)
    connection = Connection.over(
        stream,
        f"amqp://{USER}:{PASSWORD}@localhost",
        secure=True,
        dialect=name,
        sasl=life.credentials(),
        idle_timeout=0.8,
        connect_timeout=1.0,
        close_timeout=0.2,
    )
    with anyio.fail_after(60):
        error = await quietly(life.run(connection, f"q.{seed}".replace(" ", ".")))
    check_error(error, where)
    assert not any(PASSWORD in line for line in (*stream.lines, repr(connection))), where
    assert not records.faults, f"{where}: {records.faults[0]}"
    assert not any(PASSWORD in text for text in records.texts), where
    unsaid = set(life.sent) - accepted(name, stream.lines)
    assert not unsaid, "\n".join((f"{where}: {sorted(unsaid)} were never said to be accepted", *stream.lines))
    return len(life.sent), type(error) if error is not None else None
