"""The methods of 0-9-1 with RabbitMQ's extensions, one declaration each, in the order of their classes and numbers.

Written by `make tables` from `tools/tables/0-9-1.txt`: a change is made there. What only 0-9 final and its drafts have
is in `rare_methods`.
"""

from __future__ import annotations

from typing import Any

from .fields import bit, long, longlong, longstr, octet, raw_shortstr, short, shortstr, table
from .method_table import Method, declared

# Class connection (10)


class ConnectionStart(Method, name="connection.start", code=(10, 10)):
    version_major: int = octet(0)
    version_minor: int = octet(9)
    server_properties: dict[str, Any] | None = table()
    mechanisms: bytes = longstr(b"PLAIN")
    locales: bytes = longstr(b"en_US")


class ConnectionStartOk(Method, name="connection.start-ok", code=(10, 11)):
    client_properties: dict[str, Any] | None = table()
    mechanism: str = shortstr("PLAIN")
    response: bytes = longstr()
    locale: str = shortstr("en_US")


class ConnectionSecure(Method, name="connection.secure", code=(10, 20)):
    challenge: bytes = longstr()


class ConnectionSecureOk(Method, name="connection.secure-ok", code=(10, 21)):
    response: bytes = longstr()


class ConnectionTune(Method, name="connection.tune", code=(10, 30)):
    channel_max: int = short()
    frame_max: int = long()
    heartbeat: int = short()


class ConnectionTuneOk(Method, name="connection.tune-ok", code=(10, 31)):
    channel_max: int = short()
    frame_max: int = long()
    heartbeat: int = short()


class ConnectionOpen(Method, name="connection.open", code=(10, 40)):
    virtual_host: str = shortstr("/")
    capabilities: str = shortstr()
    insist: bool = bit()


class ConnectionOpenOk(Method, name="connection.open-ok", code=(10, 41)):
    known_hosts: str = shortstr()


class ConnectionClose(Method, name="connection.close", code=(10, 50)):
    reply_code: int = short()
    reply_text: str = shortstr()
    class_id: int = short()
    method_id: int = short()


class ConnectionCloseOk(Method, name="connection.close-ok", code=(10, 51)):
    pass


class ConnectionBlocked(Method, name="connection.blocked", code=(10, 60)):
    reason: str = shortstr()


class ConnectionUnblocked(Method, name="connection.unblocked", code=(10, 61)):
    pass


class ConnectionUpdateSecret(Method, name="connection.update-secret", code=(10, 70)):
    new_secret: bytes = longstr()
    reason: str = shortstr()


class ConnectionUpdateSecretOk(Method, name="connection.update-secret-ok", code=(10, 71)):
    pass


# Class channel (20)


class ChannelOpen(Method, name="channel.open", code=(20, 10)):
    out_of_band: str = shortstr()


class ChannelOpenOk(Method, name="channel.open-ok", code=(20, 11)):
    channel_id: bytes = longstr()


class ChannelFlow(Method, name="channel.flow", code=(20, 20)):
    active: bool = bit()


class ChannelFlowOk(Method, name="channel.flow-ok", code=(20, 21)):
    active: bool = bit()


class ChannelClose(Method, name="channel.close", code=(20, 40)):
    reply_code: int = short()
    reply_text: str = shortstr()
    class_id: int = short()
    method_id: int = short()


class ChannelCloseOk(Method, name="channel.close-ok", code=(20, 41)):
    pass


# Class access (30), for old clients


class AccessRequest(Method, name="access.request", code=(30, 10)):
    realm: str = shortstr("/data")
    exclusive: bool = bit()
    passive: bool = bit(True)
    active: bool = bit(True)
    write: bool = bit(True)
    read: bool = bit(True)


class AccessRequestOk(Method, name="access.request-ok", code=(30, 11)):
    ticket: int = short(1)


# Class exchange (40)


class ExchangeDeclare(Method, name="exchange.declare", code=(40, 10)):
    ticket: int = short()
    exchange: str = shortstr()
    type: str = shortstr("direct")
    passive: bool = bit()
    durable: bool = bit()
    auto_delete: bool = bit()
    internal: bool = bit()
    nowait: bool = bit()
    arguments: dict[str, Any] | None = table()


class ExchangeDeclareOk(Method, name="exchange.declare-ok", code=(40, 11)):
    pass


class ExchangeDelete(Method, name="exchange.delete", code=(40, 20)):
    ticket: int = short()
    exchange: str = shortstr()
    if_unused: bool = bit()
    nowait: bool = bit()


class ExchangeDeleteOk(Method, name="exchange.delete-ok", code=(40, 21)):
    pass


class ExchangeBind(Method, name="exchange.bind", code=(40, 30)):
    ticket: int = short()
    destination: str = shortstr()
    source: str = shortstr()
    routing_key: str = shortstr()
    nowait: bool = bit()
    arguments: dict[str, Any] | None = table()


class ExchangeBindOk(Method, name="exchange.bind-ok", code=(40, 31)):
    pass


class ExchangeUnbind(Method, name="exchange.unbind", code=(40, 40)):
    ticket: int = short()
    destination: str = shortstr()
    source: str = shortstr()
    routing_key: str = shortstr()
    nowait: bool = bit()
    arguments: dict[str, Any] | None = table()


class ExchangeUnbindOk(Method, name="exchange.unbind-ok", code=(40, 51)):
    pass


# Class queue (50)


class QueueDeclare(Method, name="queue.declare", code=(50, 10)):
    ticket: int = short()
    queue: str = shortstr()
    passive: bool = bit()
    durable: bool = bit()
    exclusive: bool = bit()
    auto_delete: bool = bit()
    nowait: bool = bit()
    arguments: dict[str, Any] | None = table()


class QueueDeclareOk(Method, name="queue.declare-ok", code=(50, 11)):
    queue: str = shortstr()
    message_count: int = long()
    consumer_count: int = long()


class QueueBind(Method, name="queue.bind", code=(50, 20)):
    ticket: int = short()
    queue: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    nowait: bool = bit()
    arguments: dict[str, Any] | None = table()


class QueueBindOk(Method, name="queue.bind-ok", code=(50, 21)):
    pass


class QueuePurge(Method, name="queue.purge", code=(50, 30)):
    ticket: int = short()
    queue: str = shortstr()
    nowait: bool = bit()


class QueuePurgeOk(Method, name="queue.purge-ok", code=(50, 31)):
    message_count: int = long()


class QueueDelete(Method, name="queue.delete", code=(50, 40)):
    ticket: int = short()
    queue: str = shortstr()
    if_unused: bool = bit()
    if_empty: bool = bit()
    nowait: bool = bit()


class QueueDeleteOk(Method, name="queue.delete-ok", code=(50, 41)):
    message_count: int = long()


class QueueUnbind(Method, name="queue.unbind", code=(50, 50)):
    ticket: int = short()
    queue: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    arguments: dict[str, Any] | None = table()


class QueueUnbindOk(Method, name="queue.unbind-ok", code=(50, 51)):
    pass


# Class basic (60)


class BasicQos(Method, name="basic.qos", code=(60, 10)):
    prefetch_size: int = long()
    prefetch_count: int = short()
    global_: bool = bit()


class BasicQosOk(Method, name="basic.qos-ok", code=(60, 11)):
    pass


class BasicConsume(Method, name="basic.consume", code=(60, 20)):
    ticket: int = short()
    queue: str = shortstr()
    consumer_tag: str = shortstr()
    no_local: bool = bit()
    no_ack: bool = bit()
    exclusive: bool = bit()
    nowait: bool = bit()
    arguments: dict[str, Any] | None = table()


class BasicConsumeOk(Method, name="basic.consume-ok", code=(60, 21)):
    consumer_tag: str = shortstr()


class BasicCancel(Method, name="basic.cancel", code=(60, 30)):
    consumer_tag: str = shortstr()
    nowait: bool = bit()


class BasicCancelOk(Method, name="basic.cancel-ok", code=(60, 31)):
    consumer_tag: str = shortstr()


class BasicPublish(Method, name="basic.publish", code=(60, 40), carries=True):
    ticket: int = short()
    exchange: str = raw_shortstr()
    routing_key: str = raw_shortstr()
    mandatory: bool = bit()
    immediate: bool = bit()


class BasicReturn(Method, name="basic.return", code=(60, 50), carries=True):
    reply_code: int = short()
    reply_text: str = shortstr()
    exchange: str = raw_shortstr()
    routing_key: str = raw_shortstr()


class BasicDeliver(Method, name="basic.deliver", code=(60, 60), carries=True):
    consumer_tag: str = shortstr()
    delivery_tag: int = longlong()
    redelivered: bool = bit()
    exchange: str = raw_shortstr()
    routing_key: str = raw_shortstr()


class BasicGet(Method, name="basic.get", code=(60, 70)):
    ticket: int = short()
    queue: str = shortstr()
    no_ack: bool = bit()


class BasicGetOk(Method, name="basic.get-ok", code=(60, 71), carries=True):
    delivery_tag: int = longlong()
    redelivered: bool = bit()
    exchange: str = raw_shortstr()
    routing_key: str = raw_shortstr()
    message_count: int = long()


class BasicGetEmpty(Method, name="basic.get-empty", code=(60, 72)):
    cluster_id: str = shortstr()


class BasicAck(Method, name="basic.ack", code=(60, 80)):
    delivery_tag: int = longlong()
    multiple: bool = bit()


class BasicReject(Method, name="basic.reject", code=(60, 90)):
    delivery_tag: int = longlong()
    requeue: bool = bit(True)


class BasicRecoverAsync(Method, name="basic.recover-async", code=(60, 100)):
    requeue: bool = bit()


class BasicRecover(Method, name="basic.recover", code=(60, 110)):
    requeue: bool = bit()


class BasicRecoverOk(Method, name="basic.recover-ok", code=(60, 111)):
    pass


class BasicNack(Method, name="basic.nack", code=(60, 120)):
    delivery_tag: int = longlong()
    multiple: bool = bit()
    requeue: bool = bit(True)


# Class confirm (85)


class ConfirmSelect(Method, name="confirm.select", code=(85, 10)):
    nowait: bool = bit()


class ConfirmSelectOk(Method, name="confirm.select-ok", code=(85, 11)):
    pass


# Class tx (90)


class TxSelect(Method, name="tx.select", code=(90, 10)):
    pass


class TxSelectOk(Method, name="tx.select-ok", code=(90, 11)):
    pass


class TxCommit(Method, name="tx.commit", code=(90, 20)):
    pass


class TxCommitOk(Method, name="tx.commit-ok", code=(90, 21)):
    pass


class TxRollback(Method, name="tx.rollback", code=(90, 30)):
    pass


class TxRollbackOk(Method, name="tx.rollback-ok", code=(90, 31)):
    pass


METHODS: tuple[type[Method], ...] = declared(vars())
"""All of the above."""
