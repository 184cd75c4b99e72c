"""The neutral peer of the benchmarks: a sink and a source of messages, which shares no code with any client.

    python benchmarks/counterpart.py [--single] [--credit N] [--tls PEM] [--websocket] [--messages FOLDER]

prints {"port": ...}, then a line for each connection.

It takes what any sender link sends and accepts it, and sends to any receiver link as many messages as credit and window
allow. A source's address says what to send: `q.SIZE.COUNT`, or `NAME.0.COUNT` for the messages of the file NAME in
FOLDER, each of them after its size in four octets; several such links take turns, message by message. There is no queue
and no routing; message frames are made once and only their ids patched in; of messages that are larger than a frame no
more than a frame is ever held. When a connection ends it prints what crossed the wire, as counted here: the runner
holds the clients to it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import os
import ssl
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
WINDOW = 0x7FFF_FFFF
MAX_FRAME = 131_072
BLOCK = 256  # messages to a write
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_INIT = 0x41

U32 = struct.Struct(">I").unpack_from

# The octets that a value takes by its format code; -1 and -4: it says so itself in a size of 1 or 4 octets.
WIDTH = [0] * 256
for _code in range(256):
    WIDTH[_code] = {4: 1, 5: 2, 6: 3, 7: 5, 8: 9, 9: 17, 10: -1, 12: -1, 14: -1, 11: -4, 13: -4, 15: -4}.get(
        _code >> 4, 0
    )


class Broken(Exception):
    """The client broke the protocol, or did what a benchmark does not need."""


# Reading


def length(data: bytes, at: int) -> int:
    """The octets that the value there takes."""
    code = data[at]
    if code == 0:
        descriptor = 1 + length(data, at + 1)
        return descriptor + length(data, at + descriptor)
    width = WIDTH[code]
    if width > 0:
        return width
    if width == -1:
        return 2 + data[at + 1]
    if width == -4:
        return 5 + cast(int, U32(data, at + 1)[0])
    raise Broken(f"format code {code:#x}")


def fields(data: bytes, at: int) -> list[bytes]:
    """The fields of the described list there, each as it is encoded."""
    at += 1 + length(data, at + 1)
    code = data[at]
    if code == 0x45:
        return []
    if code == 0xC0:
        count, at = data[at + 2], at + 3
    elif code == 0xD0:
        count, at = U32(data, at + 5)[0], at + 9
    else:
        raise Broken("a performative that is no list")
    found = []
    for _ in range(count):
        end = at + length(data, at)
        found.append(data[at:end])
        at = end
    return found


def number(encoded: list[bytes], index: int, default: int = 0) -> int:
    """An unsigned field of any width."""
    raw = encoded[index] if index < len(encoded) else b"\x40"
    return default if raw == b"\x40" else int.from_bytes(raw[1:], "big")


def flag(encoded: list[bytes], index: int) -> bool:
    return index < len(encoded) and encoded[index] in (b"\x41", b"\x56\x01")


# Writing


def frame(channel: int, code: int, *encoded: bytes, kind: int = 0) -> bytes:
    """A frame with a performative of these fields."""
    content = b"".join(encoded)
    body = struct.pack(">BBBBII", 0, 0x53, code, 0xD0, len(content) + 4, len(encoded)) + content
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


def uint(value: int) -> bytes:
    return b"\x70" + value.to_bytes(4, "big")


def truth(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def accepted(channel: int, receiver: bool, first: int, last: int) -> bytes:
    """A disposition that settles a range as accepted."""
    return frame(channel, DISPOSITION, truth(receiver), uint(first), uint(last), b"\x41", b"\x00\x53\x24\x45")


class Template:
    """The one-frame transfer of a message, in the three pieces between which the delivery-id and the tag go."""

    def __init__(self, channel: int, handle: int, settled: bool, size: int) -> None:
        content = bytes(index & 255 for index in range(size))
        data = b"\x00\x53\x75" + (bytes((0xA0, size)) if size < 256 else b"\xb0" + size.to_bytes(4, "big")) + content
        # handle, delivery-id, delivery-tag of four octets, message-format 0, settled
        head = b"\x00\x53\x14\xc0" + bytes((19, 5)) + uint(handle) + b"\x70"
        total = 8 + len(head) + 4 + 2 + 4 + 2 + len(data)
        self.head = struct.pack(">IBBH", total, 2, 0, channel) + head
        self.tail = b"\x43" + truth(settled) + data

    def block(self, first: int, count: int) -> bytes:
        """So many transfers, with delivery-ids from `first`."""
        head, tail = self.head, self.tail
        pieces: list[bytes] = []
        for identity in range(first, first + count):
            octets = (identity & 0xFFFF_FFFF).to_bytes(4, "big")
            pieces += (head, octets, b"\xa0\x04", octets, tail)
        return b"".join(pieces)


class Messages:
    """The one-frame transfers of messages that were encoded before, over and over."""

    def __init__(self, channel: int, handle: int, settled: bool, payloads: list[bytes]) -> None:
        self.heads = []
        for payload in payloads:
            head = b"\x00\x53\x14\xc0" + bytes((19, 5)) + uint(handle) + b"\x70"
            total = 8 + len(head) + 4 + 2 + 4 + 2 + len(payload)
            self.heads.append(struct.pack(">IBBH", total, 2, 0, channel) + head)
        self.payloads = payloads
        self.settled = b"\x43" + truth(settled)
        self.next = handle * 37 % len(payloads)  # else all links would send the same at the same time

    def transfer(self, identity: int) -> bytes:
        """The next message, with this delivery-id."""
        octets = (identity & 0xFFFF_FFFF).to_bytes(4, "big")
        at = self.next
        self.next = (at + 1) % len(self.payloads)
        return self.heads[at] + octets + b"\xa0\x04" + octets + self.settled + self.payloads[at]


def kept_in(file: Path) -> list[bytes]:
    """The messages of a file, each after its size."""
    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        end = at + 4 + U32(data, at)[0]
        found.append(data[at + 4 : end])
        at = end
    return found


class Large:
    """The transfers of a message of one data section that takes many of them, each made when it is sent."""

    ROOM = 80  # of a frame, for all that is not content

    def __init__(self, channel: int, handle: int, settled: bool, size: int, max_frame: int) -> None:
        self.size = size
        self.sent = 0  # bytes of content of the message that is under way
        self.channel = channel
        self.handle = uint(handle)
        self.settled = truth(settled)
        self.content = (bytes(range(256)) * (max_frame // 256 + 1))[: max_frame - self.ROOM]

    def transfer(self, identity: int) -> bytes:
        """The next frame of the message with this delivery-id."""
        size = min(len(self.content), self.size - self.sent)
        more = truth(self.sent + size < self.size)
        if self.sent:
            fields_ = (self.handle, b"\x40", b"\x40", b"\x40", b"\x40", more)
            head = b""
        else:
            octets = (identity & 0xFFFF_FFFF).to_bytes(4, "big")
            fields_ = (self.handle, b"\x70" + octets, b"\xa0\x04" + octets, b"\x43", self.settled, more)
            head = b"\x00\x53\x75\xb0" + self.size.to_bytes(4, "big")
        performative = frame(self.channel, TRANSFER, *fields_)
        self.sent = 0 if self.sent + size == self.size else self.sent + size
        total = len(performative) + len(head) + size
        return total.to_bytes(4, "big") + performative[4:] + head + self.content[:size]


# The endpoints


@dataclass
class Sink:
    """Our end of a link on which the client sends."""

    delivery_count: int
    credit: int


@dataclass
class Spring:
    """Our end of a link on which we send."""

    template: Template | Large | Messages
    left: int
    delivery_count: int = 0
    credit: int = 0
    drain: bool = False


@dataclass
class Session:
    """A session; we count transfers, and settle ranges of deliveries once for each read."""

    next_incoming_id: int
    remote_window: int
    next_outgoing_id: int = 0
    delivery_id: int = 0  # of the next that goes out
    incoming_id: int = 0  # of the last that came in
    settled: bool = False  # the delivery whose frames are coming in: said by any of them (AMQP 1.0 section 2.7.5)
    sinks: dict[int, Sink] = field(default_factory=dict)
    springs: dict[int, Spring] = field(default_factory=dict)
    first: int = -1  # the range of deliveries to be settled, none when negative
    last: int = -1


class Counterpart(asyncio.Protocol):
    """One connection."""

    def __init__(self, credit: int, single: bool, folder: Path | None = None) -> None:
        self.folder = folder
        self.grant = credit
        self.single = single
        self.transport: asyncio.Transport
        self.kept = b""
        self.headers = 0
        self.sessions: dict[int, Session] = {}
        self.remote_max_frame = 512
        self.out: list[bytes] = []
        self.paused = False
        self.counts = dict.fromkeys(
            ("received", "received_settled", "sent", "settled_by_client", "dispositions", "frames_in", "reads"), 0
        )
        self.error = ""
        self.cpu = time.process_time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(512 * 1024)

    def connection_lost(self, exc: Exception | None) -> None:
        told: dict[str, Any] = dict(self.counts)
        told["cpu_us"] = round((time.process_time() - self.cpu) * 1e6)
        if self.error:
            told["error"] = self.error
        print(json.dumps(told), flush=True)

    def data_received(self, data: bytes) -> None:
        self.counts["reads"] += 1
        try:
            self.kept = self.consume(self.kept + data if self.kept else data)
            for channel, session in self.sessions.items():
                self.settle(channel, session)
        except Broken as error:
            self.error = str(error)
            self.transport.abort()
            return
        self.fill()
        self.flush()

    def flush(self) -> None:
        if self.out:
            self.transport.write(b"".join(self.out))
            self.out.clear()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.fill()
        self.flush()

    # Frames

    def consume(self, data: bytes) -> bytes:
        """Handle all whole frames; return the rest."""
        at, end = 0, len(data)
        while end - at >= 8:
            if self.headers < 2 and data.startswith(b"AMQP", at):
                self.header(data[at : at + 8])
                at += 8
                continue
            size: int = U32(data, at)[0]
            if size < 8 or size > MAX_FRAME:
                raise Broken(f"a frame of {size} B")
            if end - at < size:
                break
            start = at + data[at + 4] * 4
            if start < at + size:
                self.counts["frames_in"] += 1
                channel = data[at + 6] << 8 | data[at + 7]
                if data[start + 2] == TRANSFER and data[start + 1] == 0x53:
                    self.transfer(channel, data, start + 3)
                else:
                    self.performative(channel, data[start : at + size])
            at += size
        return data[at:]

    def header(self, header: bytes) -> None:
        self.headers += 1
        if header == SASL:
            self.out.append(SASL + frame(0, 0x40, b"\xa3\x09ANONYMOUS", kind=1))
        elif header == AMQP:
            self.headers = 2
            self.out.append(AMQP)
        else:
            raise Broken(f"the header {header!r}")

    def performative(self, channel: int, body: bytes) -> None:
        code = body[2] if body[1] == 0x53 else body[9]
        encoded = fields(body, 0)
        if code == DISPOSITION:
            self.disposition(channel, encoded)
        elif code == FLOW:
            self.flow(channel, encoded)
        elif code == SASL_INIT:
            self.out.append(frame(0, 0x44, b"\x50\x00", kind=1))
        elif code == OPEN:
            self.remote_max_frame = number(encoded, 2, 0xFFFF_FFFF)
            self.out.append(frame(0, OPEN, b"\xa1\x0bcounterpart", b"\x40", uint(MAX_FRAME), b"\x60\x00\xff"))
        elif code == BEGIN:
            self.sessions[channel] = Session(number(encoded, 1), number(encoded, 2))
            remote = b"\x60" + channel.to_bytes(2, "big")
            self.out.append(frame(channel, BEGIN, remote, uint(0), uint(WINDOW), uint(WINDOW), uint(0xFFFF)))
        elif code == ATTACH:
            self.attach(channel, encoded)
        elif code == DETACH:
            session, handle = self.sessions[channel], number(encoded, 0)
            self.settle(channel, session)
            session.sinks.pop(handle, None)
            session.springs.pop(handle, None)
            self.out.append(frame(channel, DETACH, uint(handle), truth(flag(encoded, 1))))
        elif code == END:
            self.settle(channel, self.sessions.pop(channel))
            self.out.append(frame(channel, END))
        elif code == CLOSE:
            self.out.append(frame(0, CLOSE))
            self.flush()
            self.transport.close()
        else:
            raise Broken(f"performative {code:#x}")

    def attach(self, channel: int, encoded: list[bytes]) -> None:
        session, handle = self.sessions[channel], number(encoded, 1)
        sends, settled = flag(encoded, 2), number(encoded, 3, 2) == 1
        source, target = encoded[5], encoded[6]
        if sends:  # the client is the receiver
            address = fields(source, 0)[0]
            text = address[2 if address[0] == 0xA1 else 5 :].decode()
            name, size, count = text.rsplit(".", 2)
            template: Template | Large | Messages
            if self.folder is not None and (file := self.folder / name).is_file():
                template = Messages(channel, handle, settled, kept_in(file))
            elif int(size) + Large.ROOM > min(self.remote_max_frame, MAX_FRAME):
                template = Large(channel, handle, settled, int(size), min(self.remote_max_frame, MAX_FRAME))
            else:
                template = Template(channel, handle, settled, int(size))
            session.springs[handle] = Spring(template, int(count))
        else:
            session.sinks[handle] = Sink(number(encoded, 9), self.grant)
        modes = (encoded[3] if encoded[3] != b"\x40" else b"\x50\x02"), b"\x50\x00"
        initial = b"\x43" if sends else b"\x40"
        answer = (encoded[0], uint(handle), truth(not sends), *modes, source, target, b"\x40", b"\x40", initial)
        self.out.append(frame(channel, ATTACH, *answer))
        if not sends:
            self.send_flow(channel, session, handle)

    def send_flow(self, channel: int, session: Session, handle: int, drain: bool = False) -> None:
        link = session.sinks.get(handle) or session.springs[handle]
        window = uint(session.next_incoming_id), uint(WINDOW), uint(session.next_outgoing_id), uint(WINDOW)
        state = uint(handle), uint(link.delivery_count), uint(link.credit), uint(0), truth(drain)
        self.out.append(frame(channel, FLOW, *window, *state))

    # As a sink

    def transfer(self, channel: int, data: bytes, at: int) -> None:
        """Count a transfer. Its list begins at `at`."""
        if data[at] == 0xC0:
            count, at = data[at + 2], at + 3
        else:
            count, at = U32(data, at + 5)[0], at + 9
        session = self.sessions[channel]
        session.next_incoming_id = (session.next_incoming_id + 1) & 0xFFFF_FFFF
        handle = 0
        settled = session.settled
        for index in range(count if count < 6 else 6):
            code = data[at]
            width = WIDTH[code]
            if width < 0:
                width = 2 + data[at + 1] if width == -1 else 5 + U32(data, at + 1)[0]
            if index == 0:
                handle = int.from_bytes(data[at + 1 : at + width], "big")
            elif index == 1:
                if code != 0x40:
                    session.incoming_id = int.from_bytes(data[at + 1 : at + width], "big")
            elif index == 4:
                settled = settled or code == 0x41 or (code == 0x56 and data[at + 1] == 1)
            elif index == 5 and (code == 0x41 or (code == 0x56 and data[at + 1] == 1)):
                session.settled = settled
                return  # more frames of it follow
            at += width
        session.settled = False
        sink = session.sinks[handle]
        if sink.credit <= 0:
            raise Broken("a transfer without credit")
        sink.credit -= 1
        sink.delivery_count = (sink.delivery_count + 1) & 0xFFFF_FFFF
        counts = self.counts
        counts["received"] += 1
        if settled:
            counts["received_settled"] += 1
        else:
            identity = session.incoming_id
            if session.first >= 0 and (self.single or identity != session.last + 1):
                self.settle(channel, session)
            if session.first < 0:
                session.first = identity
            session.last = identity
        if sink.credit <= self.grant // 2:
            sink.credit = self.grant
            self.send_flow(channel, session, handle)

    def settle(self, channel: int, session: Session) -> None:
        """Accept the range of deliveries that came since."""
        if session.first >= 0:
            self.out.append(accepted(channel, True, session.first, session.last))
            session.first = session.last = -1

    # As a source

    def flow(self, channel: int, encoded: list[bytes]) -> None:
        session = self.sessions[channel]
        session.remote_window = (number(encoded, 0) + number(encoded, 1) - session.next_outgoing_id) & 0xFFFF_FFFF
        if len(encoded) < 5 or encoded[4] == b"\x40":
            return
        handle = number(encoded, 4)
        spring = session.springs.get(handle)
        if spring is not None:
            spring.credit = (number(encoded, 5) + number(encoded, 6) - spring.delivery_count) & 0xFFFF_FFFF
            spring.drain = flag(encoded, 8)
        elif flag(encoded, 9):
            self.send_flow(channel, session, handle)

    def fill(self) -> None:
        """Send what credit, window and the socket allow."""
        for channel, session in self.sessions.items():
            springs = session.springs
            self.fill_in_turn(session)
            for handle, spring in list(springs.items()):
                template = spring.template
                if isinstance(template, Messages):
                    self.answer_drain(channel, session, handle, spring)
                    continue
                if isinstance(template, Large):
                    self.fill_large(session, spring, template)
                    continue
                if len(springs) > 1 and not self.paused and min(spring.credit, session.remote_window) > 0:
                    springs[handle] = springs.pop(handle)  # behind those for which there was no room
                while not self.paused and (count := min(spring.credit, spring.left, session.remote_window, BLOCK)) > 0:
                    self.out.append(template.block(session.delivery_id, count))
                    session.delivery_id += count
                    session.next_outgoing_id = (session.next_outgoing_id + count) & 0xFFFF_FFFF
                    session.remote_window -= count
                    spring.delivery_count = (spring.delivery_count + count) & 0xFFFF_FFFF
                    spring.credit -= count
                    spring.left -= count
                    self.counts["sent"] += count
                    self.flush()
                self.answer_drain(channel, session, handle, spring)

    def answer_drain(self, channel: int, session: Session, handle: int, spring: Spring) -> None:
        """Give up the credit that there are no more messages for, if the client asks for that."""
        if spring.drain and not spring.left:
            spring.delivery_count = (spring.delivery_count + spring.credit) & 0xFFFF_FFFF
            spring.credit = 0
            spring.drain = False
            self.send_flow(channel, session, handle, drain=True)

    def fill_in_turn(self, session: Session) -> None:
        """Send a message of each link that has messages of a file, and again, as far as credit and window go."""
        ready = [spring for spring in session.springs.values() if isinstance(spring.template, Messages)]
        while ready := [spring for spring in ready if min(spring.credit, spring.left) > 0]:
            for spring in ready:
                if self.paused or session.remote_window <= 0:
                    return
                assert isinstance(spring.template, Messages)
                self.out.append(spring.template.transfer(session.delivery_id))
                session.delivery_id += 1
                session.next_outgoing_id = (session.next_outgoing_id + 1) & 0xFFFF_FFFF
                session.remote_window -= 1
                spring.delivery_count = (spring.delivery_count + 1) & 0xFFFF_FFFF
                spring.credit -= 1
                spring.left -= 1
                self.counts["sent"] += 1

    def fill_large(self, session: Session, spring: Spring, large: Large) -> None:
        while not self.paused and session.remote_window > 0 and (large.sent or min(spring.credit, spring.left) > 0):
            if not large.sent:
                spring.delivery_count = (spring.delivery_count + 1) & 0xFFFF_FFFF
                spring.credit -= 1
                spring.left -= 1
            self.out.append(large.transfer(session.delivery_id))
            session.next_outgoing_id = (session.next_outgoing_id + 1) & 0xFFFF_FFFF
            session.remote_window -= 1
            if not large.sent:
                session.delivery_id += 1
                self.counts["sent"] += 1
            self.flush()

    def disposition(self, channel: int, encoded: list[bytes]) -> None:
        if not flag(encoded, 0):
            return
        self.counts["dispositions"] += 1
        first = number(encoded, 1)
        last = number(encoded, 2, first)
        if not flag(encoded, 3):
            self.out.append(accepted(channel, False, first, last))
        self.counts["settled_by_client"] += last - first + 1


CLOSING = b"\x88\x02\x03\xe8"


class Framing:
    """Writes of a counterpart as messages of a WebSocket, each in one frame (RFC 6455 §5.2)."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        size = len(data)
        wide = b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big")
        self._transport.write(b"\x82" + (bytes((size,)) if size < 126 else wide) + data)

    def close(self) -> None:
        self._transport.write(CLOSING)
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class WebCounterpart(Counterpart):
    """The counterpart behind a WebSocket: what is masked is unmasked, and nothing is checked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.plain = cast(asyncio.Transport, transport)
        self.raw = b""
        self.upgraded = False
        super().connection_made(cast(asyncio.BaseTransport, Framing(self.plain)))

    def data_received(self, data: bytes) -> None:
        raw = self.raw + data
        if not self.upgraded:
            request, found, raw = raw.partition(b"\r\n\r\n")
            if not found:
                self.raw = request
                return
            lines = [line.partition(b":") for line in request.split(b"\r\n")]
            headers = {name.lower(): value.strip() for name, _, value in lines}
            key, protocol = headers[b"sec-websocket-key"], headers[b"sec-websocket-protocol"]
            proof = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            answer += b"Sec-WebSocket-Protocol: " + protocol + b"\r\nSec-WebSocket-Accept: " + proof + b"\r\n\r\n"
            self.plain.write(answer)
            self.upgraded = True
        at, parts, ended = 0, [], False
        while len(raw) - at >= 14 or (len(raw) - at >= 6 and raw[at + 1] & 0x7F < 126):
            size, start = raw[at + 1] & 0x7F, at + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                size, start = int.from_bytes(raw[start : start + width], "big"), start + width
            end = start + 4 + size
            if len(raw) < end:
                break
            if raw[at] & 0x0F == 8:
                ended = True
                break
            mask = int.from_bytes((raw[start : start + 4] * (size // 4 + 1))[:size], "big")
            parts.append((int.from_bytes(raw[start + 4 : end], "big") ^ mask).to_bytes(size, "big"))
            at = end
        self.raw = raw[at:]
        if parts:
            super().data_received(b"".join(parts))
        if ended:
            self.transport.close()


async def main() -> None:
    """Serve until killed, or until the runner is gone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--credit", type=int, default=2000, help="what a sender is granted")
    parser.add_argument("--single", action="store_true", help="a disposition for each delivery, not for each read")
    parser.add_argument("--tls", metavar="PEM", help="a private key and the certificate for it")
    parser.add_argument("--websocket", action="store_true", help="behind a WebSocket")
    parser.add_argument("--messages", type=Path, metavar="FOLDER", help="files of messages to send")
    given = parser.parse_args()
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if given.tls else None
    if context is not None:
        context.load_cert_chain(given.tls)
    kind = WebCounterpart if given.websocket else Counterpart
    server = await loop.create_server(
        lambda: kind(given.credit, given.single, given.messages), "127.0.0.1", 0, ssl=context
    )
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  (there is no event for it)
        await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(main())
