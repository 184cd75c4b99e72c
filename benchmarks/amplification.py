"""What hostile octets cost whoever reads them: the largest memory and CPU for each octet, by a search for the worst.

    python benchmarks/amplification.py                          the table, for 1 MiB of input; several minutes
    python benchmarks/amplification.py --json FILE              writes the figures as JSON, too
    python benchmarks/amplification.py --octets 20000 --tries 5 a look

For each dialect and stage, values are built from the smallest pieces that the types have, within each other and beside
each other, and changed at random; a change stays if it makes the input dearer. What is found is then sent in full.

Memory is what `tracemalloc` counts while the input is read, at its peak, and what of that is kept afterwards; CPU
seconds are of the machine, calls (of Python functions and built-in ones) are not. Stages:

- login: a server's connection before its peer has logged in; one that ended is followed by the next;
- session: the same afterwards, in the words that name queues, links and consumers, which a connection keeps;
- message: the sections, properties and body of a message, mapped to AMQP 1.0 and read to the last field, as a client
  does and a broker that has to look at it.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amqp10.dialects.fast.message.from_head import from_fast
from amqp10.dialects.fast.wire.commands import ChannelOpen as FastChannelOpen
from amqp10.dialects.fast.wire.commands import ConnectionOpen as FastOpen
from amqp10.dialects.fast.wire.commands import ConnectionResponse, HandleOpen, MessageHead
from amqp10.dialects.fast.wire.commands import ConnectionTune as FastTune
from amqp10.dialects.fast.wire.frames import encode_command as encode_fast
from amqp10.dialects.v0_9.message.from_basic import FromBasic
from amqp10.dialects.v0_9.wire.methods import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant
from amqp10.dialects.v0_10.message.from_transfer import read_message
from amqp10.dialects.v0_10.wire import controls
from amqp10.dialects.v0_10.wire.commands import MessageProperties, MessageSubscribe
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_command, encode_control
from amqp10.dialects.v0_10.wire.values import Raw
from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Begin, Open
from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, SessionBegun, dialect
from amqp10.errors import AmqpError, DecodeError
from amqp10.messaging import Message
from amqp10.sasl import Authenticator

SEED = 18
SEARCH = 4000
"""Octets of input while searching."""
FRAME = 100_000
"""Octets of a value in a frame after the login; of one before it, `EARLY`."""
EARLY = 4000

Layer = tuple[str, int]


@dataclass(frozen=True)
class Shape:
    """How a value is built: pieces side by side, then layers around them, the innermost first."""

    pieces: tuple[int, ...]
    layers: tuple[Layer, ...]


class Alphabet:
    """The pieces that the values of a dialect are built of, and the layers that can be put around them."""

    def __init__(self, pieces: list[bytes], layers: dict[str, Callable[[list[bytes]], bytes]]) -> None:
        self.pieces = pieces
        self.layers = layers

    def any(self, rng: random.Random) -> Shape:
        return Shape((rng.randrange(len(self.pieces)),), self._layers(rng, rng.randrange(4)))

    def _layers(self, rng: random.Random, count: int) -> tuple[Layer, ...]:
        return tuple((rng.choice(list(self.layers)), rng.choice((0, 1, 2, 3, 8, 30, 200))) for _ in range(count))

    def change(self, shape: Shape, rng: random.Random) -> Shape:
        pieces, layers = list(shape.pieces), list(shape.layers)
        match rng.randrange(5):
            case 0:
                pieces[rng.randrange(len(pieces))] = rng.randrange(len(self.pieces))
            case 1 if len(pieces) < 6:
                pieces.append(rng.randrange(len(self.pieces)))
            case 2 if layers:
                layers.pop(rng.randrange(len(layers)))
            case 3 if layers:
                layers[rng.randrange(len(layers))] = self._layers(rng, 1)[0]
            case _ if len(layers) < 28:
                layers.insert(rng.randrange(len(layers) + 1), self._layers(rng, 1)[0])
        return Shape(tuple(pieces), tuple(layers))

    def build(self, shape: Shape, size: int) -> list[bytes]:
        """Values of that shape, about so many octets of them."""
        items = [self.pieces[number] for number in shape.pieces]
        for name, count in shape.layers:
            one = self.layers[name]((items * (count // len(items) + 1))[:count])
            if len(one) > size:
                break
            items = [one]
        return items * max(1, size // max(1, sum(map(len, items))))


# 1.0


def compound(code: int, count: int, content: bytes) -> bytes:
    return bytes((code,)) + struct.pack(">II", len(content) + 4, count) + content


def short(code: int, count: int, content: bytes) -> bytes:
    if len(content) > 254 or count > 255:
        return compound(code + 0x10, count, content)
    return bytes((code, len(content) + 1, count)) + content


def keyed(values: list[bytes]) -> bytes:
    """A map of these values, each with a key of its own."""
    return short(0xC1, 2 * len(values), b"".join(b"\x60" + struct.pack(">H", n) + v for n, v in enumerate(values)))


def array_of(code: int) -> Callable[[list[bytes]], bytes]:
    """An array of what these values are, if they begin with that constructor; else of as many empty ones."""
    empty = {0xC0: b"\1\0", 0xC1: b"\1\0", 0xE0: b"\2\0\x40", 0x45: b"", 0x40: b"", 0x41: b""}[code]

    def build(values: list[bytes]) -> bytes:
        ours = [value[1:] for value in values if value[0] == code]
        elements = ours or [empty] * len(values)
        return compound(0xF0, len(elements), bytes((code,)) + b"".join(elements))

    return build


V1_0 = Alphabet(
    [
        *(bytes((code,)) for code in range(0x40, 0x46)),
        *(
            b"\x50\7",
            b"\x53\7",
            b"\x60\7\7",
            b"\x70\7\7\7\7",
            b"\x74\7\7\7\7",
            b"\x73\0\0\1\0",
            b"\x80\7\7\7\7\7\7\7\7",
        ),
        *(b"\x83\0\0\0\1\7\7\7\7", b"\x98" + bytes(16), b"\xa0\2ab", b"\xa1\2ab", b"\xa1\2\xc4\x80", b"\xa3\2ab"),
        *(b"\xc0\1\0", b"\xc1\1\0", b"\xc1\3\2\x40\x45", b"\xc1\3\2\x45\x45", b"\xc1\5\4\x40\x45\x41\x45"),
        *(b"\xe0\2\0\x40", b"\xe0\2\7\x45", b"\xe0\2\xff\x40", b"\0\x44\x45", b"\0\x45\x45", b"\0\x53\x24\x45"),
        *(b"\0\x53\x28\x45", b"\xf0\0\0\0\5\0\0\1\0\x45", b"\xf0\0\0\0\5\0\1\0\0\x40"),
    ],
    {
        "list": lambda values: short(0xC0, len(values), b"".join(values)),
        "map": keyed,
        "map of lists": lambda values: short(0xC1, 2 * len(values), b"".join(b"\x45" + value for value in values)),
        "key": lambda values: short(0xC1, 2, (values or [b"\x40"])[0] + b"\x45"),
        "described": lambda values: b"\0\x44" + short(0xC0, len(values), b"".join(values)),
        "descriptor": lambda values: b"\0" + short(0xC0, len(values), b"".join(values)) + b"\x45",
        "array of lists": array_of(0xC0),
        "array of maps": array_of(0xC1),
        "array of arrays": array_of(0xE0),
        "array of list0": array_of(0x45),
        "array of null": array_of(0x40),
        "array of true": array_of(0x41),
    },
)


def performative(code: int, *fields: bytes) -> bytes:
    return b"\0\x53" + bytes((code,)) + compound(0xD0, len(fields), b"".join(fields))


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, kind, 0) + body


def sasl_frames(values: list[bytes]) -> bytes:
    """An unknown type, and one that is known with a field that is none."""
    value = short(0xC0, len(values), b"".join(values))
    return frame(1, b"\0\x53\x99" + value)


def bare_open(values: list[bytes]) -> bytes:
    properties = compound(0xD1, 2, b"\xa3\1x" + short(0xC0, len(values), b"".join(values)))
    return frame(0, performative(0x10, b"\xa1\1c", *[b"\x40"] * 8, properties))


def attaches(values: list[bytes], number: int) -> bytes:
    """Half of them in the properties of an attach, which are kept, half in its map of unsettled deliveries."""
    half = len(values) // 2
    properties = compound(0xD1, 2, b"\xa3\1x" + short(0xC0, len(values) - half, b"".join(values[half:])))
    unsettled = b"".join(b"\xa0\2" + struct.pack(">H", n) + each for n, each in enumerate(values[:half][:10_000]))
    held = compound(0xD1, 2 * min(half, 10_000), unsettled)
    name = b"\xa1\4" + b"%04d" % number
    handle = b"\x70" + struct.pack(">I", number)
    rest = (b"\x40", b"\x40", b"\0\x53\x28\x45", b"\0\x53\x29\x45", held, b"\x40", b"\x43", *[b"\x40"] * 3)
    return frame(0, performative(0x12, name, handle, b"\x42", *rest, properties))


def sections(values: list[bytes]) -> bytes:
    """A share for each section: annotations, a body of amqp-sequences, footer."""
    third = len(values) // 3 + 1

    def annotations(code: int, part: list[bytes]) -> bytes:
        content = b"".join(b"\x80" + struct.pack(">Q", n) + each for n, each in enumerate(part))
        return bytes((0, 0x53, code)) + compound(0xD1, 2 * len(part), content)

    body = b"".join(b"\0\x53\x76" + short(0xC0, 1, each) for each in values[third : 2 * third])
    first, last = values[:third], values[2 * third :]
    return annotations(0x72, first) + (body or b"\0\x53\x75\xa0\0") + annotations(0x78, last)


def read_all(payload: bytes) -> Any:
    message = Message.decode(payload)
    for name in ("message_annotations", "application_properties", "body", "footer"):
        try:
            getattr(message, name)
        except DecodeError:
            pass
    return message


# 0-9-1 and its kin


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NAMES = [b"\2" + (first + second).encode() for first in LETTERS for second in LETTERS]


def table(values: list[bytes]) -> bytes:
    content = b"".join(NAMES[n % len(NAMES)] + value for n, value in enumerate(values))
    return struct.pack(">I", len(content)) + content


def array(values: list[bytes]) -> bytes:
    content = b"".join(values)
    return b"A" + struct.pack(">I", len(content)) + content


TABLE_PIECES = [b"V", b"t\1", b"b\7", b"s\7\7", b"I\7\7\7\7", b"T" + bytes(8), b"D\2\7\7\7\7", b"S\0\0\0\0"]
TABLE_PIECES += [
    b"S\0\0\0\2ab",
    b"x\0\0\0\1a",
    b"F\0\0\0\0",
    b"A\0\0\0\0",
    b"A\0\0\0\1V",
    b"f\7\7\7\7",
    b"d" + bytes(8),
]
METHODS = Alphabet(TABLE_PIECES, {"table": lambda values: b"F" + table(values), "array": array})
DRAFT_PIECES = [b"S\0\0\0\0", b"S\0\0\0\1a", b"I\7\7\7\7", b"D\2\7\7\7\7", b"T" + bytes(8), b"F\0\0\0\0"]


DRAFT = Alphabet(DRAFT_PIECES, {"table": lambda values: b"F" + table(values)})


# 0-10


def sized(count: int, content: bytes) -> bytes:
    return struct.pack(">II", len(content) + 4, count) + content


V0_10 = Alphabet(
    [
        *(b"\xf0", b"\x08\1", b"\x02\7", b"\x12\7\7", b"\x22\7\7\7\7", b"\x32" + bytes(8), b"\x38" + bytes(8)),
        *(b"\x80\0", b"\x85\2ab", b"\x95\0\2ab", b"\xa8\0\0\0\0", b"\xa9\0\0\0\0", b"\xaa\0\0\0\0", b"\xc8\2\7\7\7\7"),
        *(
            b"\x48" + bytes(16),
            b"\xb0",
            b"\x91\0\0",
            b"\xaa\0\0\0\6\xf0\0\0\0\1\0",
            b"\x01\7",
            b"\x04a",
            b"\x27\0\0\1\0",
        ),
    ],
    {
        "list": lambda values: b"\xa9" + sized(len(values), b"".join(values)),
        "map": lambda values: (
            b"\xa8" + sized(len(values), b"".join(b"\1%c" % (n % 256) + v for n, v in enumerate(values)))
        ),
        "array of void": lambda values: b"\xaa" + struct.pack(">IBI", 5, 0xF0, len(values)),
        "array of lists": lambda values: (
            b"\xaa" + struct.pack(">IBI", 5 + 4 * len(values), 0xA9, len(values)) + bytes(4 * len(values))
        ),
    },
)

# Fast

FAST = Alphabet(list(DRAFT_PIECES), {"table": lambda values: b"F" + table(values)})


# Stages


def engine_of(spoken: str, users: dict[str, str] | None) -> Engine:
    authenticator = Authenticator(users, anonymous=users is None).for_connection(secure=True)
    engine = dialect(spoken).server(ConnectionTerms("server", max_message_size=1 << 26), authenticator)
    engine.start()
    return engine


class Stage:
    """Where input goes: to engines, one after the other, or to a function for each message."""

    def __init__(
        self,
        spoken: str,
        name: str,
        alphabet: Alphabet,
        wrap: Callable[[list[bytes], int], bytes],
        *,
        greeting: tuple[bytes, ...] = (),
        room: int = FRAME,
        users: dict[str, str] | None = None,
        read: Callable[[bytes], Any] | None = None,
    ) -> None:
        self.spoken, self.name, self.alphabet, self._wrap = spoken, name, alphabet, wrap
        self._greeting, self.room, self._users, self._read = greeting, room, users, read
        self.engines = read is None

    def inputs(self, shape: Shape, octets: int) -> list[bytes]:
        """So many octets in frames or messages."""
        room = min(octets, self.room)
        found: list[bytes] = []
        left = octets
        while left > 0:
            data = self._wrap(self.alphabet.build(shape, min(room, left)), len(found))
            found.append(data)
            left -= len(data)
        return found

    def take(self, inputs: list[bytes], connect: Callable[[], Engine]) -> list[Any]:
        """Read all of it; what is returned is what a peer has us keep."""
        if self._read is not None:
            return [_read(self._read, data) for data in inputs]
        engine = None
        for data in inputs:
            if engine is None:
                engine = connect()
            engine.receive_data(data)
            engine.data_to_send()
            if any(isinstance(event, ConnectionEnded) for event in engine.events()):
                engine = None
        return [engine]

    def connect(self) -> Engine:
        """A connection on which the input is next."""
        engine = engine_of(self.spoken, self._users)
        for part in self._greeting:
            engine.receive_data(part)
            for event in engine.events():
                if isinstance(event, SessionBegun):
                    event.session.begin()
            if not self._users and engine.remote is not None and not engine.opened:
                engine.open()
            engine.data_to_send()
        return engine


def _read(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except AmqpError:
        return None


def of_1_0() -> Iterator[Stage]:
    users = {"user": "secret"}
    yield Stage("1.0", "login", V1_0, lambda v, n: sasl_frames(v), greeting=(SASL_HEADER,), room=EARLY, users=users)
    yield Stage("1.0", "open", V1_0, lambda v, n: bare_open(v), greeting=(AMQP_HEADER,), room=EARLY)
    opening = AMQP_HEADER, encode_frame(0, Open("c")), encode_frame(0, Begin(None, 0, 100, 100))
    yield Stage("1.0", "session", V1_0, attaches, greeting=opening)
    yield Stage("1.0", "message", V1_0, lambda v, n: sections(v), room=1 << 20, read=read_all)


def of_methods(variant: Variant) -> Iterator[Stage]:
    alphabet = DRAFT if variant is V0_9_DRAFT else METHODS

    def method(channel: int, payload: bytes) -> bytes:
        return variant.framing.frame(1, channel, payload)

    def start_ok(values: list[bytes], number: int) -> bytes:
        return method(0, b"\0\x0a\0\x0b" + table(values) + b"\x05PLAIN\0\0\0\0\x05en_US")

    def consume(values: list[bytes], number: int) -> bytes:
        tag = b"%04d" % number
        return method(1, b"\0\x3c\0\x14\0\0\1q\4" + tag + b"\0" + table(values))

    def encoded(channel: int, what: Any) -> bytes:
        return method(channel, variant.methods.encode(what))

    def properties(values: list[bytes], number: int) -> bytes:
        return b"\x20\0" + table(values)

    incoming = FromBasic(variant.tables)

    def read(data: bytes) -> Any:
        return read_all(incoming.map(b"\0\0\1q", data, b"x"))

    users = {"user": "secret"}
    yield Stage(variant.name, "login", alphabet, start_ok, greeting=(variant.header,), room=EARLY, users=users)
    if variant is not V0_9_DRAFT:
        opening = (
            variant.header,
            encoded(0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US")),
            encoded(0, ConnectionTuneOk(9, 131_072, 0)) + encoded(0, ConnectionOpen("/")),
            encoded(1, ChannelOpen()),
        )
        yield Stage(variant.name, "session", alphabet, consume, greeting=opening)
    yield Stage(variant.name, "message", alphabet, properties, room=FRAME, read=read)


def of_0_10() -> Iterator[Stage]:
    def raw(values: list[bytes]) -> dict[str, Any]:
        content = b"".join(values)
        return {"x": Raw(0xA9, struct.pack(">I", len(values)) + content)}

    def start_ok(values: list[bytes], number: int) -> bytes:
        return encode_control(0, controls.ConnectionStartOk(raw(values), "PLAIN", b"", "en_US").encode())

    def subscribe(values: list[bytes], number: int) -> bytes:
        command = MessageSubscribe("q", str(number), arguments=raw(values))
        return encode_command(1, command.encode(), None, None, 60_000)

    def header(values: list[bytes], number: int) -> bytes:
        return MessageProperties(application_headers=raw(values)).encode_struct32()

    users = {"user": "secret"}
    yield Stage("0-10", "login", V0_10, start_ok, greeting=(PROTOCOL_HEADER,), room=EARLY, users=users)
    opening = (
        PROTOCOL_HEADER,
        encode_control(0, controls.ConnectionStartOk({}, "ANONYMOUS", b"", "en_US").encode()),
        encode_control(0, controls.ConnectionTuneOk(256, 65_535, 0).encode()),
        encode_control(0, controls.ConnectionOpen("/", []).encode()),
        encode_control(1, controls.SessionAttach(b"name").encode())
        + encode_control(1, controls.SessionCommandPoint(0, 0).encode()),
    )
    yield Stage("0-10", "session", V0_10, subscribe, greeting=opening)
    yield Stage(
        "0-10", "message", V0_10, header, room=1 << 20, read=lambda data: read_all(read_message("", data, b"x").payload)
    )


def of_fast() -> Iterator[Stage]:
    def with_table(command: Any, values: list[bytes]) -> bytes:
        """The last field of the command is a table, and empty."""
        data = encode_fast(command)
        content = table(values)[4:][:60_000]
        fields = data[2:-3] + struct.pack(">H", len(content)) + content
        return struct.pack(">H", len(fields) + 1) + fields + b"\xce"

    def response(values: list[bytes], number: int) -> bytes:
        return with_table(ConnectionResponse(mechanism="PLAIN"), values)

    def handle(values: list[bytes], number: int) -> bytes:
        command = HandleOpen(channel_id=1, handle_id=number + 1, service_type=1, producer=True, dest_name="q")
        return with_table(command, values)

    head = MessageHead(body_size=1).write()

    def message(values: list[bytes], number: int) -> bytes:
        content = table(values)[4:][:60_000]
        return head[:-2] + struct.pack(">H", len(content)) + content

    def read(data: bytes) -> Any:
        return read_all(from_fast(MessageHead.read(data, 0, len(data))[0], b"x", 0.0)[0])

    users = {"user": "secret"}
    yield Stage("fast", "login", FAST, response, greeting=(b"\x80\1",), room=EARLY // 2, users=users)
    opening = (
        b"\x80\1",
        encode_fast(ConnectionResponse(mechanism="ANONYMOUS")),
        encode_fast(FastTune(frame_max=131_072, channel_max=1023, heartbeat=30)),
        encode_fast(FastOpen(confirm_tag=1, virtual_path="/", client_name="c")),
        encode_fast(FastChannelOpen(channel_id=1)),
    )
    yield Stage("fast", "session", FAST, handle, greeting=opening, room=50_000)
    yield Stage("fast", "message", FAST, message, room=50_000, read=read)


def stages() -> list[Stage]:
    kin = (each for variant in (V0_9_1, V0_9, V0_9_DRAFT) for each in of_methods(variant))
    return [*of_1_0(), *kin, *of_0_10(), *of_fast()]


# Measuring


@dataclass(frozen=True)
class Cost:
    """What a stage cost, each for the input that was dearest in it.

    Attributes:
        memory: octets at the peak, for each octet of input.
        kept: octets afterwards, for each octet of input.
        calls: for each octet of input, counted with that of the search.
        cpu: seconds for a MiB of input.
    """

    dialect: str
    stage: str
    memory: float
    kept: float
    calls: float
    cpu: float


def memory_of(stage: Stage, inputs: list[bytes]) -> tuple[int, int]:
    """Octets at the peak and afterwards; the first connection was there before."""
    first = [stage.connect()] if stage.engines else []
    gc.collect()
    tracemalloc.start()
    try:
        held = stage.take(inputs, lambda: first.pop() if first else stage.connect())
        gc.collect()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del held
    return peak, kept


def calls_of(stage: Stage, inputs: list[bytes]) -> int:
    """Calls of Python functions and of built-in ones."""
    counted = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    first = [stage.connect()] if stage.engines else []
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        stage.take(inputs, lambda: first.pop() if first else stage.connect())
    finally:
        sys.setprofile(before)
    return counted


def cpu_of(stage: Stage, inputs: list[bytes]) -> float:
    began = time.process_time()
    stage.take(inputs, stage.connect)
    return time.process_time() - began


def worst(stage: Stage, tries: int, octets: int, price: Callable[[Stage, list[bytes]], float]) -> tuple[Shape, float]:
    """Climb from some beginnings to the dearest shape that changes lead to; and its price for an octet."""
    rng = random.Random(SEED)

    def value(shape: Shape) -> float:
        inputs = stage.inputs(shape, octets)
        return price(stage, inputs) / sum(map(len, inputs))

    beginnings = [Shape((number,), ()) for number in range(len(stage.alphabet.pieces))]
    rng.shuffle(beginnings)
    best = beginnings[0]
    value(best)  # what is made once is not its doing
    most = value(best)
    for number in range(max(tries, 1)):
        if number < min(len(beginnings), tries // 2):
            shape = beginnings[number]
        else:
            shape = stage.alphabet.change(best, rng) if rng.random() < 0.8 else stage.alphabet.any(rng)
        if (found := value(shape)) > most:
            best, most = shape, found
    return best, most


def costs(octets: int, tries: int, wanted: str = "") -> Iterator[Cost]:
    """Those of each stage."""
    for stage in stages():
        if wanted not in f"{stage.spoken} {stage.name}":
            continue
        size = min(octets, SEARCH)
        dear, _ = worst(stage, tries, size, lambda stage, inputs: memory_of(stage, inputs)[0])
        slow, calls = worst(stage, tries, size, calls_of)
        whole = stage.inputs(dear, octets), stage.inputs(slow, octets)
        peak, kept = memory_of(stage, whole[0])
        sent = sum(map(len, whole[0]))
        cpu = max(cpu_of(stage, inputs) / sum(map(len, inputs)) for inputs in whole)
        yield Cost(stage.spoken, stage.name, peak / sent, kept / sent, calls, cpu * (1 << 20))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--octets", type=int, default=1 << 20, help="of input, for each figure")
    parser.add_argument("--tries", type=int, default=150, help="shapes that are tried, for each figure")
    parser.add_argument("--only", default="", help='dialects and stages with this in them, such as "0-10 login"')
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    options = parser.parse_args()
    print("| dialect | stage | memory at the peak | kept | calls | CPU seconds for 1 MiB |")
    print("|---|---|--:|--:|--:|--:|")
    found = []
    for cost in costs(options.octets, options.tries, options.only):
        figures = f"{cost.memory:.1f} | {cost.kept:.1f} | {cost.calls:.1f} | {cost.cpu:.1f}"
        print(f"| {cost.dialect} | {cost.stage} | {figures} |", flush=True)
        found.append(asdict(cost))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
