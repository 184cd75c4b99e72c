"""A scripted peer of AMQP 0-9-1 and its kin: it says what the test says, however wrong, and hears each frame."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketListener

from amqp10.dialects.v0_9.channel import Channel, ChannelUser
from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.framing import BODY, HEADER, HEARTBEAT, METHOD
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1, Variant

M = TypeVar("M", bound=Method)
PATIENCE = 60.0
LARGEST = 1 << 20


def channel_of(link: Any) -> Channel:
    """Return the channel of a client's link."""
    assert isinstance(link, ChannelUser)
    return link.channel


class MethodPeer:
    """One side of a connection, frame by frame.

    As a server it listens at a port of its own, `url`; `over` plays over a stream that exists, as either side.

    Attributes:
        channel: the one that the last frame came on.
        bodies: of the contents that came.
    """

    def __init__(self, variant: Variant = V0_9_1, stream: ByteStream | None = None) -> None:
        self.variant = variant
        self.channel = 0
        self.bodies: list[bytes] = []
        self._stream = stream
        self._listener: SocketListener | None = None
        self._frames: deque[tuple[int, int, bytes]] = deque()
        self._reader = FrameReader(variant.framing, LARGEST)

    @classmethod
    def over(cls, stream: ByteStream, variant: Variant = V0_9_1) -> Self:
        return cls(variant, stream)

    async def __aenter__(self) -> Self:
        if self._stream is None:
            (listener,) = (await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)).listeners
            assert isinstance(listener, SocketListener)
            self._listener = listener
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._stream is not None:
                await anyio.aclose_forcefully(self._stream)
            if self._listener is not None:
                await self._listener.aclose()

    @property
    def url(self) -> str:
        assert self._listener is not None
        port: int = self._listener.extra(SocketAttribute.local_port)
        return f"amqp://127.0.0.1:{port}"

    # Saying

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        return self.variant.framing.frame(kind, channel, payload)

    def method(self, channel: int, method: Method) -> bytes:
        return self.frame(METHOD, channel, self.variant.methods.encode(method))

    def content(self, channel: int, body: bytes, **properties: Any) -> bytes:
        said = BasicProperties(**properties).encode(self.variant.tables)
        return self.variant.framing.message(channel, 60, said, body, 4000)

    async def send(self, channel: int, *methods: Method) -> None:
        await self.send_bytes(b"".join(self.method(channel, each) for each in methods))

    async def send_bytes(self, data: bytes) -> None:
        assert self._stream is not None
        await self._stream.send(data)

    async def hang_up(self) -> None:
        """Without a word."""
        assert self._stream is not None
        await anyio.aclose_forcefully(self._stream)

    # Hearing

    async def _more(self) -> None:
        if self._stream is None:
            assert self._listener is not None
            self._stream = await self._listener.accept()
        self._reader.feed(await self._stream.receive(LARGEST))

    async def next_frame(self) -> tuple[int, int, bytes]:
        with anyio.fail_after(PATIENCE):
            while not self._frames:
                await self._more()
                self._frames += self._reader.frames()
        return self._frames.popleft()

    async def next_method(self) -> Method:
        """The next method; heartbeats are passed over, and contents are kept in `bodies`."""
        while True:
            kind, self.channel, payload = await self.next_frame()
            if kind == HEADER:
                self.bodies.append(b"")
            elif kind == BODY:
                self.bodies[-1] += payload
            elif kind != HEARTBEAT:
                method = self.variant.methods.decode(payload)
                assert method is not None
                return method

    async def expect(self, kind: type[M], skip: tuple[type[Method], ...] = ()) -> M:
        """The next method that is not of those to be skipped; it has to be this one."""
        while True:
            method = await self.next_method()
            if isinstance(method, kind):
                return method
            assert isinstance(method, skip), f"{method}, not {kind.name}"

    async def expect_header(self) -> bytes:
        with anyio.fail_after(PATIENCE):
            while (header := self._reader.take(8)) is None:
                await self._more()
        return header

    async def expect_end(self) -> None:
        """The other side hangs up, and says nothing more but heartbeats."""
        with anyio.fail_after(PATIENCE):
            try:
                while True:
                    kind, _, payload = await self.next_frame()
                    assert kind == HEARTBEAT, self.variant.methods.decode(payload)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    # As a server

    async def accept_connection(self, heartbeat: int = 0, frame_max: int = 131072, **properties: Any) -> None:
        """Take a connection to where it is open."""
        await self.expect_header()
        await self.send(0, ConnectionStart(server_properties=properties, mechanisms=b"ANONYMOUS PLAIN"))
        await self.expect(ConnectionStartOk)
        await self.send(0, ConnectionTune(100, frame_max, heartbeat))
        await self.expect(ConnectionTuneOk)
        await self.expect(ConnectionOpen)
        await self.send(0, ConnectionOpenOk())

    async def accept_sender(self) -> int:
        """Take a link to a queue, with confirms; its channel."""
        await self.expect(ChannelOpen)
        await self.expect(QueueDeclare)
        await self.expect(ConfirmSelect)
        await self.send(self.channel, ChannelOpenOk(), QueueDeclareOk("q"), ConfirmSelectOk())
        return self.channel

    async def accept_receiver(self) -> tuple[int, str]:
        """Take a link from a queue; its channel, and its consumer's tag."""
        await self.expect(ChannelOpen)
        await self.expect(QueueDeclare)
        channel = self.channel
        await self.send(channel, ChannelOpenOk(), QueueDeclareOk("q"))
        await self.expect(BasicQos)
        consume = await self.expect(BasicConsume)
        await self.send(channel, BasicQosOk(), BasicConsumeOk(consume.consumer_tag))
        return channel, consume.consumer_tag

    # As a client

    async def open_connection(self, heartbeat: int = 0) -> None:
        """Open one to a server that takes anybody."""
        await self.send_bytes(self.variant.header)
        await self.expect(ConnectionStart)
        await self.send(0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US"))
        tune = await self.expect(ConnectionTune)
        await self.send(0, ConnectionTuneOk(tune.channel_max, tune.frame_max, heartbeat), ConnectionOpen("/"))
        await self.expect(ConnectionOpenOk)

    async def open_channel(self, channel: int) -> None:
        await self.send(channel, ChannelOpen())
        await self.expect(ChannelOpenOk)
