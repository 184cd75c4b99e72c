"""Raw clients of the dialects whose senders know no credit: each logs in, and returns a message."""

from __future__ import annotations

import itertools
import socket
import struct

from amqp10.dialects.fast.wire.commands import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionResponse,
    ConnectionTune,
    HandleOpen,
    HandleSend,
    MessageHead,
)
from amqp10.dialects.fast.wire.frames import INITIATION, encode_command

BODY = bytes(10_000)
_names = itertools.count(1)  # of sessions: a second one of the same name takes the place of the first


def read_until(socket_: socket.socket, words: bytes) -> None:
    """Read what the broker says, to these words."""
    said = b""
    while words not in said:
        said += socket_.recv(65_536)


def amqp_0_9_1(socket_: socket.socket) -> bytes:
    """Log in, and open a channel; the bytes of a message for the queue q."""

    def frame(kind: int, channel: int, payload: bytes) -> bytes:
        return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"

    def method(channel: int, numbers: tuple[int, int], arguments: bytes) -> bytes:
        return frame(1, channel, struct.pack(">HH", *numbers) + arguments)

    socket_.sendall(b"AMQP\0\0\x09\x01")
    socket_.sendall(method(0, (10, 11), b"\0\0\0\0\x09ANONYMOUS\0\0\0\x01x\x05en_US"))
    socket_.sendall(method(0, (10, 31), struct.pack(">HIH", 100, 131_072, 0)) + method(0, (10, 40), b"\x01/\0\0"))
    read_until(socket_, b"\0\x0a\0\x29")  # connection.open-ok
    socket_.sendall(method(1, (20, 10), b"\0"))
    header = struct.pack(">HHQH", 60, 0, len(BODY), 0)
    return method(1, (60, 40), b"\0\0\0\x01q\0") + frame(2, 1, header) + frame(3, 1, BODY)


def amqp_0_10(socket_: socket.socket) -> bytes:
    """Log in, and attach a session; the bytes of a message for the queue q."""

    def frame(flags: int, kind: int, track: int, channel: int, payload: bytes) -> bytes:
        return struct.pack(">BBHBBHI", flags, kind, 12 + len(payload), 0, track, channel, 0) + payload

    socket_.sendall(b"AMQP\1\1\0\x0a")
    socket_.sendall(frame(15, 0, 0, 0, b"\1\2\x0f\0" + b"\0\0\0\4\0\0\0\0" + b"\x09ANONYMOUS" + b"\0\0\0\0\x05en_US"))
    socket_.sendall(frame(15, 0, 0, 0, b"\1\6\7\0" + struct.pack(">HHH", 256, 65_535, 0)))
    socket_.sendall(frame(15, 0, 0, 0, b"\1\7\1\0\0"))
    read_until(socket_, b"\1\x08")  # connection.open-ok
    name = str(next(_names)).encode()
    socket_.sendall(frame(15, 0, 0, 1, b"\2\1\1\0" + struct.pack(">H", len(name)) + name))
    socket_.sendall(frame(15, 0, 0, 1, b"\2\7\3\0" + bytes(12)))
    routing_key = b"\4\1\0\2\1q"  # delivery-properties
    return (
        frame(11, 1, 1, 1, b"\4\1\1\0\7\0\0\1\0")
        + frame(3, 2, 1, 1, struct.pack(">I", len(routing_key)) + routing_key)
        + frame(7, 3, 1, 1, BODY)
    )


def fast(socket_: socket.socket) -> bytes:
    """Log in, and open a handle; the bytes of a message for the queue q."""
    socket_.sendall(INITIATION + encode_command(ConnectionResponse(mechanism="ANONYMOUS")))
    socket_.sendall(encode_command(ConnectionTune(frame_max=65_535, channel_max=255, handle_max=4096)))
    socket_.sendall(encode_command(ConnectionOpen(confirm_tag=1, virtual_path="/", client_name="c")))
    socket_.sendall(encode_command(ChannelOpen(channel_id=1, restartable=False)))
    socket_.sendall(encode_command(HandleOpen(channel_id=1, handle_id=1, service_type=1, producer=True, dest_name="q")))
    head = MessageHead(body_size=len(BODY)).write()
    return encode_command(HandleSend(handle_id=1, fragment_size=len(head) + len(BODY)), head + BODY)
