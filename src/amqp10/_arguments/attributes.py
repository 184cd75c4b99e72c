"""Names of methods that a class does not have: what to call in their place, for users who know another library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

_BLOCK: Final = "its block opens and closes it: `async with`, or `with` in amqp10.sync"
_CONNECTION: Final = {
    **dict.fromkeys(("aclose", "close", "connect", "disconnect", "start", "stop"), _BLOCK),
    "basic_consume": "use receiver(address)",
    "basic_publish": "use sender(address), and its send()",
    "consume": "use receiver(address), which `async for` iterates over, or Worker(connection, address, handler)",
    "channel": "use sender(address) or receiver(address), or session()",
    "create_receiver": "use receiver(address)",
    "create_sender": "use sender(address)",
    "exchange_declare": "use native.declare_exchange(), or amqp10.rabbitmq.management in 1.0",
    "publish": "use sender(address), and its send()",
    "receive": "use receiver(address), and its receive()",
    "queue_declare": "use native.declare_queue(), or amqp10.rabbitmq.management in 1.0",
    "send": "use sender(address), and its send()",
}
_SETTLING: Final = {
    "ack": "use accept()",
    "abandon": "use modify(delivery_failed=True)",
    "complete": "use accept()",
    "dead_letter": "use reject()",
    "nack": "use modify(delivery_failed=True), or release() for a message that was not tried",
    "requeue": "use release()",
}
_OF_DELIVERIES: Final = (
    "the delivery that a receiver returns has accept, reject and release; a Worker accepts the message when its "
    "handler returns, and tries again or dead-letters it when its handler raises"
)
_TOPOLOGY: Final = {
    "declare": "use declare_queue() or declare_exchange()",
    "exchange_declare": "use declare_exchange()",
    "exchange_delete": "use delete_exchange()",
    "queue_bind": "use bind()",
    "queue_declare": "use declare_queue()",
    "queue_delete": "use delete_queue()",
    "queue_purge": "use purge_queue()",
    "queue_unbind": "use unbind()",
}
_MEANT: Final[Mapping[str, Mapping[str, str]]] = {
    "Connection": _CONNECTION,
    "Delivery": _SETTLING,
    "EventHub": {
        **dict.fromkeys(("close", "connect"), _BLOCK),
        "create_batch": "use sender(), whose `batch` makes one",
        "get_eventhub_properties": "use properties()",
        "get_partition_ids": "use properties(), which has the partitions",
        "get_partition_properties": "use partition_properties(partition)",
        "receive": "use reader(partition), or EventProcessor(hub, handler, store=...) for all partitions",
        "receive_batch": "use reader(partition), or EventProcessor(hub, handler, store=..., batch_size=...)",
        "send_batch": "use sender(), and its send()",
        "send_event": "use sender(), and its send()",
    },
    "Message": dict.fromkeys(("accept", "modify", "reject", "release", *_SETTLING), _OF_DELIVERIES),
    "Management": {**_TOPOLOGY, "exchange_bind": "use bind()"},
    "Native": _TOPOLOGY,
    "Receiver": {
        "ack": "the delivery that receive() returns has accept, reject and release",
        "basic_consume": "iterate over the receiver, which yields deliveries",
        "consume": "iterate over the receiver, which yields deliveries",
        "get": "use receive()",
        "issue_credit": "use add_credit()",
        "receive_messages": "use receive_batch()",
        "recv": "use receive()",
    },
    "Sender": {
        "basic_publish": "use send()",
        "produce": "use send()",
        "publish": "use send()",
        "put": "use send()",
        "send_batch": "use send_many()",
        "send_message": "use send()",
        "send_messages": "use send_many()",
    },
    "ServiceBus": {
        **dict.fromkeys(("close", "connect"), _BLOCK),
        "get_queue_receiver": "use receiver(queue)",
        "get_queue_sender": "use sender(queue)",
        "get_subscription_receiver": "use receiver(topic, subscription)",
        "get_topic_sender": "use sender(topic)",
    },
    "ServiceBusDelivery": {
        "accept": "use complete()",
        "ack": "use complete()",
        "modify": "use abandon()",
        "nack": "use abandon()",
        "reject": "use dead_letter()",
        "release": "use abandon()",
    },
    "ServiceBusReceiver": {
        "peek_messages": "use peek()",
        "receive_deferred_messages": "use receive_deferred()",
        "receive_messages": "use receive_batch()",
    },
    "ServiceBusSender": {
        "cancel_scheduled_messages": "use cancel_scheduled()",
        "create_message_batch": "use batch()",
        "schedule_messages": "use schedule() or schedule_many()",
        "send_messages": "use send_many()",
    },
    "Worker": dict.fromkeys(
        ("run", "serve", "start"), "its block, `async with Worker(...) as worker`, starts it, and until_signal() waits"
    ),
}
"""Methods of other libraries by the class that is taken for theirs, and what to call here."""

_CONSTRUCTORS: Final[Mapping[str, Mapping[str, str]]] = {
    "EventHub": {
        "from_connection_string": "use EventHub(connection_string, name)",
    },
    "ServiceBus": {
        "from_connection_string": "use ServiceBus(connection_string)",
    },
}
"""Constructors of other libraries by the class that is taken for theirs, and what to call here."""

_PACKAGE: Final = __name__.partition(".")[0]

C = TypeVar("C", bound=type[Any])


def hinted(cls: C) -> C:
    """Decorate a class: the error for a method that it does not have says what to call in its place.

    Not for classes whose attributes are read for each message: Python 3.11 reads all attributes of a class with
    `__getattr__` more slowly. `advise` adds a note to their errors.
    """
    cls.__getattr__ = _missing
    return cls


class HintedClass(type):
    """The type of classes whose error for a constructor that they do not have says what to call in its place."""

    if not TYPE_CHECKING:  # or type checkers would know every name

        def __getattr__(cls, name: str) -> Any:
            hint = next(
                (names[name] for each in cls.__mro__ if name in (names := _CONSTRUCTORS.get(each.__name__, {}))), ""
            )
            text = f"type object {cls.__name__!r} has no attribute {name!r}"
            raise AttributeError(f"{text}: {hint}" if hint else text, name=name, obj=cls)


def _missing(instance: object, name: str) -> Any:
    try:
        return object.__getattribute__(instance, name)  # fails as before, also within a property
    except AttributeError as error:
        hint = _hint(instance, name)
        if hint:
            error.args = (f"{error}: {hint}",)
        raise


def note_of(error: AttributeError) -> str:
    """Return what to call in place of a missing attribute; "" if that is not known, or the error says it."""
    hint = _hint(error.obj, error.name or "")
    return "" if not hint or hint in str(error) else f"{type(error.obj).__name__} has no {error.name}: {hint}"


def _hint(instance: object, name: str) -> str:
    classes = type(instance).__mro__
    if any(name in vars(each) for each in classes):
        return ""  # it is there, and failed within
    ours = [each for each in classes if each.__module__.partition(".")[0] == _PACKAGE]
    return next((_MEANT[each.__name__][name] for each in ours if name in _MEANT.get(each.__name__, ())), "")
