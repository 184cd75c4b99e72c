"""The methods that 0-9 final has beyond 0-9-1, and that the draft has: most of them nobody ever implemented.

Most are here for the codec alone: a peer that sends one is told that it is not implemented (540). Where one has the
fields of a method of the class basic it is derived from that.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ._fields import bit, content, instant, long, longlong, longstr, octet, short, shortstr, table
from ._method import Method, declared
from ._methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    BasicReturn,
)

# Class connection (10)


class ConnectionRedirect(Method, name="connection.redirect", code=(10, 42)):
    host: str = shortstr()
    known_hosts: str = shortstr()


# Class channel (20)


class ChannelResume(Method, name="channel.resume", code=(20, 50)):
    channel_id: bytes = longstr()


class ChannelPing(Method, name="channel.ping", code=(20, 60)):
    pass


class ChannelPong(Method, name="channel.pong", code=(20, 70)):
    pass


class ChannelOk(Method, name="channel.ok", code=(20, 80)):
    pass


# Class exchange (40), as Qpid extends it


class ExchangeBound(Method, name="exchange.bound", code=(40, 22)):
    exchange: str = shortstr()
    routing_key: str = shortstr()
    queue: str = shortstr()


class ExchangeBoundOk(Method, name="exchange.bound-ok", code=(40, 23)):
    reply_code: int = short()
    reply_text: str = shortstr()


# Class basic (60), as Qpid extends it


class BasicRecoverSyncOk(Method, name="basic.recover-sync-ok", code=(60, 101)):
    pass


class BasicRecoverSync(Method, name="basic.recover-sync", code=(60, 102)):
    requeue: bool = bit()


# Class file (70)


class FileQos(BasicQos, name="file.qos", code=(70, 10)):
    pass


class FileQosOk(Method, name="file.qos-ok", code=(70, 11)):
    pass


class FileConsume(Method, name="file.consume", code=(70, 20)):
    ticket: int = short()
    queue: str = shortstr()
    consumer_tag: str = shortstr()
    no_local: bool = bit()
    no_ack: bool = bit()
    exclusive: bool = bit()
    nowait: bool = bit()
    filter: dict[str, Any] | None = table()


class FileConsumeOk(BasicConsumeOk, name="file.consume-ok", code=(70, 21)):
    pass


class FileCancel(BasicCancel, name="file.cancel", code=(70, 30)):
    pass


class FileCancelOk(BasicCancelOk, name="file.cancel-ok", code=(70, 31)):
    pass


class FileOpen(Method, name="file.open", code=(70, 40)):
    identifier: str = shortstr()
    content_size: int = longlong()


class FileOpenOk(Method, name="file.open-ok", code=(70, 41)):
    staged_size: int = longlong()


class FileStage(Method, name="file.stage", code=(70, 50), carries=True):
    pass


class FilePublish(BasicPublish, name="file.publish", code=(70, 60)):
    identifier: str = shortstr()


class FileReturn(BasicReturn, name="file.return", code=(70, 70), carries=True):
    pass


class FileDeliver(BasicDeliver, name="file.deliver", code=(70, 80)):
    identifier: str = shortstr()


class FileAck(BasicAck, name="file.ack", code=(70, 90)):
    pass


class FileReject(BasicReject, name="file.reject", code=(70, 100)):
    pass


# Class stream (80)


class StreamQos(Method, name="stream.qos", code=(80, 10)):
    prefetch_size: int = long()
    prefetch_count: int = short()
    consume_rate: int = long()
    global_: bool = bit()


class StreamQosOk(Method, name="stream.qos-ok", code=(80, 11)):
    pass


class StreamConsume(Method, name="stream.consume", code=(80, 20)):
    ticket: int = short()
    queue: str = shortstr()
    consumer_tag: str = shortstr()
    no_local: bool = bit()
    exclusive: bool = bit()
    nowait: bool = bit()
    filter: dict[str, Any] | None = table()


class StreamConsumeOk(BasicConsumeOk, name="stream.consume-ok", code=(80, 21)):
    pass


class StreamCancel(BasicCancel, name="stream.cancel", code=(80, 30)):
    pass


class StreamCancelOk(BasicCancelOk, name="stream.cancel-ok", code=(80, 31)):
    pass


class StreamPublish(BasicPublish, name="stream.publish", code=(80, 40), carries=True):
    pass


class StreamReturn(BasicReturn, name="stream.return", code=(80, 50), carries=True):
    pass


class StreamDeliver(Method, name="stream.deliver", code=(80, 60), carries=True):
    consumer_tag: str = shortstr()
    delivery_tag: int = longlong()
    exchange: str = shortstr()
    queue: str = shortstr()


# Class dtx (100)


class DtxSelect(Method, name="dtx.select", code=(100, 10)):
    pass


class DtxSelectOk(Method, name="dtx.select-ok", code=(100, 11)):
    pass


class DtxStart(Method, name="dtx.start", code=(100, 20)):
    dtx_identifier: str = shortstr()


class DtxStartOk(Method, name="dtx.start-ok", code=(100, 21)):
    pass


# Class tunnel (110)


class TunnelRequest(Method, name="tunnel.request", code=(110, 10), carries=True):
    meta_data: dict[str, Any] | None = table()


# Class message (120)


class MessageTransfer(Method, name="message.transfer", code=(120, 10)):
    ticket: int = short()
    destination: str = shortstr()
    redelivered: bool = bit()
    immediate: bool = bit()
    ttl: int = longlong()
    priority: int = octet()
    timestamp: datetime | None = instant()
    delivery_mode: int = octet()
    expiration: datetime | None = instant()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    message_id: str = shortstr()
    correlation_id: str = shortstr()
    reply_to: str = shortstr()
    content_type: str = shortstr()
    content_encoding: str = shortstr()
    user_id: str = shortstr()
    app_id: str = shortstr()
    transaction_id: str = shortstr()
    security_token: bytes = longstr()
    application_headers: dict[str, Any] | None = table()
    body: tuple[int, bytes] = content()


class MessageConsume(Method, name="message.consume", code=(120, 20)):
    ticket: int = short()
    queue: str = shortstr()
    destination: str = shortstr()
    no_local: bool = bit()
    no_ack: bool = bit()
    exclusive: bool = bit()
    filter: dict[str, Any] | None = table()


class MessageCancel(Method, name="message.cancel", code=(120, 30)):
    destination: str = shortstr()


class MessageGet(Method, name="message.get", code=(120, 40)):
    ticket: int = short()
    queue: str = shortstr()
    destination: str = shortstr()
    no_ack: bool = bit()


class MessageRecover(BasicRecover, name="message.recover", code=(120, 50)):
    pass


class MessageOpen(Method, name="message.open", code=(120, 60)):
    reference: bytes = longstr()


class MessageClose(Method, name="message.close", code=(120, 70)):
    reference: bytes = longstr()


class MessageAppend(Method, name="message.append", code=(120, 80)):
    reference: bytes = longstr()
    bytes: bytes = longstr()


class MessageCheckpoint(Method, name="message.checkpoint", code=(120, 90)):
    reference: bytes = longstr()
    identifier: str = shortstr()


class MessageResume(Method, name="message.resume", code=(120, 100)):
    reference: bytes = longstr()
    identifier: str = shortstr()


class MessageQos(BasicQos, name="message.qos", code=(120, 110)):
    pass


class MessageOk(Method, name="message.ok", code=(120, 500)):
    pass


class MessageEmpty(Method, name="message.empty", code=(120, 510)):
    pass


class MessageReject(Method, name="message.reject", code=(120, 520)):
    code_: int = short()
    text: str = shortstr()


class MessageOffset(Method, name="message.offset", code=(120, 530)):
    value: int = longlong()


METHODS_0_9: tuple[type[Method], ...] = declared(vars())
"""All of the above."""

IMPLEMENTED = frozenset((ExchangeBound, ExchangeBoundOk, BasicRecoverSync, BasicRecoverSyncOk))
"""Those that are more than codec here."""
