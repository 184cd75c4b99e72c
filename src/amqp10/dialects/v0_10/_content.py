"""The commands of files and streams (0-10 §10.7, §10.8): written and read; no server that is alive does them."""

from __future__ import annotations

from typing import Any

from ._declare import Command, Struct, command, field, struct


@struct("file.file-properties", code=0x0901)
class FileProperties(Struct):
    """What the sender says of a file."""

    content_type: str | None = field("str8")
    content_encoding: str | None = field("str8")
    headers: dict[str, Any] | None = field("map")
    priority: int | None = field("uint8")
    reply_to: str | None = field("str8")
    message_id: str | None = field("str8")
    filename: str | None = field("str8")
    timestamp: int | None = field("datetime")
    cluster_id: str | None = field("str8")


@command(0x0901, "file.qos")
class FileQos(Command):
    """How much may be sent ahead."""

    prefetch_size: int | None = field("uint32")
    prefetch_count: int | None = field("uint16")
    global_: bool = field("bit")


@command(0x0902, "file.qos-ok")
class FileQosOk(Command):
    """So be it."""


@command(0x0903, "file.consume")
class FileConsume(Command):
    """Ask for the messages of a queue."""

    queue: str | None = field("str8")
    consumer_tag: str | None = field("str8")
    no_local: bool = field("bit")
    no_ack: bool = field("bit")
    exclusive: bool = field("bit")
    nowait: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@command(0x0904, "file.consume-ok")
class FileConsumeOk(Command):
    """They come under this tag."""

    consumer_tag: str | None = field("str8")


@command(0x0905, "file.cancel")
class FileCancel(Command):
    """Ask for no more."""

    consumer_tag: str | None = field("str8")


@command(0x0906, "file.open")
class FileOpen(Command):
    """Stage a file: ask how much of it is there."""

    identifier: str | None = field("str8")
    content_size: int | None = field("uint64")


@command(0x0907, "file.open-ok")
class FileOpenOk(Command):
    """So much is there."""

    staged_size: int | None = field("uint64")


@command(0x0908, "file.stage", content=True)
class FileStage(Command):
    """The content of a file that was opened."""


@command(0x0909, "file.publish")
class FilePublish(Command):
    """Send to an exchange."""

    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")
    mandatory: bool = field("bit")
    immediate: bool = field("bit")
    identifier: str | None = field("str8")


@command(0x090A, "file.return", content=True)
class FileReturn(Command):
    """What was published could not be routed."""

    reply_code: int | None = field("uint16")
    reply_text: str | None = field("str8")
    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")


@command(0x090B, "file.deliver")
class FileDeliver(Command):
    """For a consumer."""

    consumer_tag: str | None = field("str8")
    delivery_tag: int | None = field("uint64")
    redelivered: bool = field("bit")
    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")
    identifier: str | None = field("str8")


@command(0x090C, "file.ack")
class FileAck(Command):
    """It is taken."""

    delivery_tag: int | None = field("uint64")
    multiple: bool = field("bit")


@command(0x090D, "file.reject")
class FileReject(Command):
    """It is not."""

    delivery_tag: int | None = field("uint64")
    requeue: bool = field("bit")


@struct("stream.stream-properties", code=0x0A01)
class StreamProperties(Struct):
    """What the sender says of a message of a stream."""

    content_type: str | None = field("str8")
    content_encoding: str | None = field("str8")
    headers: dict[str, Any] | None = field("map")
    priority: int | None = field("uint8")
    timestamp: int | None = field("datetime")


@command(0x0A01, "stream.qos")
class StreamQos(Command):
    """How much may be sent ahead."""

    prefetch_size: int | None = field("uint32")
    prefetch_count: int | None = field("uint16")
    consume_rate: int | None = field("uint32")
    global_: bool = field("bit")


@command(0x0A02, "stream.qos-ok")
class StreamQosOk(Command):
    """So be it."""


@command(0x0A03, "stream.consume")
class StreamConsume(Command):
    """Ask for the messages of a queue."""

    queue: str | None = field("str8")
    consumer_tag: str | None = field("str8")
    no_local: bool = field("bit")
    exclusive: bool = field("bit")
    nowait: bool = field("bit")
    arguments: dict[str, Any] | None = field("map")


@command(0x0A04, "stream.consume-ok")
class StreamConsumeOk(Command):
    """They come under this tag."""

    consumer_tag: str | None = field("str8")


@command(0x0A05, "stream.cancel")
class StreamCancel(Command):
    """Ask for no more."""

    consumer_tag: str | None = field("str8")


@command(0x0A06, "stream.publish", content=True)
class StreamPublish(Command):
    """Send to an exchange."""

    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")
    mandatory: bool = field("bit")
    immediate: bool = field("bit")


@command(0x0A07, "stream.return", content=True)
class StreamReturn(Command):
    """What was published could not be routed."""

    reply_code: int | None = field("uint16")
    reply_text: str | None = field("str8")
    exchange: str | None = field("str8")
    routing_key: str | None = field("str8")


@command(0x0A08, "stream.deliver", content=True)
class StreamDeliver(Command):
    """For a consumer."""

    consumer_tag: str | None = field("str8")
    delivery_tag: int | None = field("uint64")
    exchange: str | None = field("str8")
    queue: str = field("str8", required=True)
