"""The conventions for single services: names of destinations and operations, and further attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

from ..messaging import Accepted, AmqpValue, Message, Modified, Outcome, Rejected, Released
from ..types import Timestamp

MAX_LENGTH: Final = 1024
"""The longest attribute with text from a peer, in characters."""
NAME: Final = "messaging.destination.name"
STATUS: Final = "messaging.servicebus.disposition_status"


def brief(value: object) -> str:
    """Return a value from a message as a shortened attribute, because the peer chose its length."""
    return str(value[:MAX_LENGTH] if isinstance(value, str | bytes) else value)[:MAX_LENGTH]


# Destinations


def destination(system: str, address: str) -> dict[str, Any]:
    """Return the attributes for an address, including the destination's name.

    Args:
        system: `messaging.system`.
        address: the address of a node.
    """
    found = _DESTINATIONS.get(system, _plain)(address)
    return {name: brief(value) for name, value in found.items()}


def _plain(address: str) -> dict[str, str]:
    return {NAME: address}


def _rabbitmq(address: str) -> dict[str, str]:
    """Parse `/queues/NAME` and `/exchanges/NAME/KEY`; older dialects have plain names."""
    match address.split("/"):
        case ["", "queues", queue]:
            return {NAME: unquote(queue)}
        case ["", "exchanges", exchange, key]:
            return {NAME: f"{unquote(exchange)}:{unquote(key)}", _ROUTING_KEY: unquote(key)}
        case ["", "exchanges", exchange]:
            return {NAME: unquote(exchange)}
    return _plain(address)


def _service_bus(address: str) -> dict[str, str]:
    address = address.removesuffix("/$management")
    found = re.fullmatch(r"(?is)(.+)/subscriptions/([^/]+)(/.+)?", address)
    if found is None:
        return _plain(address)
    topic, subscription, dead_letters = found.groups()
    return {
        NAME: topic if dead_letters is None else address,
        "messaging.destination.subscription.name": subscription,
    }


def _event_hubs(address: str) -> dict[str, str]:
    found = re.fullmatch(r"(?is)(.+?)(?:/consumergroups/([^/]+))?(?:/partitions/([^/]+))?", address)
    if found is None:
        return _plain(address)
    names = (NAME, "messaging.consumer.group.name", "messaging.destination.partition.id")
    return {name: value for name, value in zip(names, found.groups(), strict=True) if value is not None}


_ROUTING_KEY: Final = "messaging.rabbitmq.destination.routing_key"
_DESTINATIONS: Final[Mapping[str, Callable[[str], dict[str, str]]]] = {
    "rabbitmq": _rabbitmq,
    "servicebus": _service_bus,
    "eventhubs": _event_hubs,
}


def is_management(address: str | None) -> bool:
    """Return whether a node takes requests about the broker, or tokens, instead of application messages."""
    return address in ("$cbs", "/management") or (address is not None and address.endswith("$management"))


# Messages


def attributes_of(system: str, message: Message) -> dict[str, Any]:
    """Return the service's attributes for a message received from it."""
    annotations = message.message_annotations
    found: dict[str, Any] = {}
    if system == "rabbitmq" and (key := annotations.get("x-routing-key")):
        found[_ROUTING_KEY] = brief(key)
    if system == "servicebus" and message.delivery_count:
        found["messaging.servicebus.message.delivery_count"] = message.delivery_count
    if system in ("servicebus", "eventhubs"):
        enqueued = annotations.get("x-opt-enqueued-time")
        if isinstance(enqueued, Timestamp):
            found[f"messaging.{system}.message.enqueued_time"] = enqueued // 1000
        elif isinstance(enqueued, datetime):
            found[f"messaging.{system}.message.enqueued_time"] = int(enqueued.timestamp())
    return found


def table(message: Message) -> Mapping[Any, Any]:
    """Return the body of a request or answer if it is a map, else an empty map."""
    body = message.body.value if isinstance(message.body, AmqpValue) else message.body
    return body if isinstance(body, dict) else {}


# Operations


def settling(system: str, outcome: Outcome) -> tuple[str, dict[str, Any]]:
    """Return the name and attributes of settling with an outcome."""
    if system != "servicebus":
        return _SETTLING[type(outcome)], {}
    if isinstance(outcome, Modified) and outcome.undeliverable_here:
        name = "defer"
    else:
        name = _SETTLING_THERE[type(outcome)]
    return name, {STATUS: name}


_SETTLING: Final[Mapping[type, str]] = {
    Accepted: "accept",
    Rejected: "reject",
    Released: "release",
    Modified: "modify",
}
_SETTLING_THERE: Final[Mapping[type, str]] = {
    Accepted: "complete",
    Rejected: "dead_letter",
    Released: "abandon",
    Modified: "abandon",
}


def operation_of(system: str, request: Message) -> tuple[str, str | None, dict[str, Any]] | None:
    """Return name, type and attributes of the operation that a management request asks for; None if it names none."""
    operation = request.application_properties.get("operation")
    if not isinstance(operation, str):
        return None
    if operation.endswith(":update-disposition"):
        name = _DISPOSITIONS.get(table(request).get("disposition-status"), "settle")
        return name, "settle", {STATUS: name} if name in _DISPOSITIONS.values() else {}
    if system == "eventhubs" and operation == "READ":
        operation = f"get-{str(request.application_properties.get('type', '')).rpartition(':')[2]}-properties"
    operation = operation.rpartition(":")[2].replace("-", "_").lower()
    name, kind = _OPERATIONS.get(operation, (operation, None))
    return brief(name), kind, {}


def refusal(answer: Message) -> tuple[str, str] | None:
    """Return condition and description of a refusal; None if the answer is positive."""
    properties = answer.application_properties
    status = properties.get("statusCode", properties.get("status-code"))
    if isinstance(status, int) and 200 <= status < 300:
        return None
    condition = properties.get("errorCondition", properties.get("error-condition"))
    words = properties.get("statusDescription", properties.get("status-description"))
    return brief(status if condition is None else condition), brief(words or "")


_DISPOSITIONS: Final[Mapping[object, str]] = {
    "completed": "complete",
    "abandoned": "abandon",
    "defered": "defer",
    "suspended": "dead_letter",
}
_OPERATIONS: Final[Mapping[str, tuple[str, str | None]]] = {
    "schedule_message": ("schedule", "send"),
    "cancel_scheduled_message": ("cancel_scheduled", None),
    "peek_message": ("peek", "receive"),
    "receive_by_sequence_number": ("receive_deferred", "receive"),
    "renew_lock": ("renew_message_lock", None),
    "batch_delete_messages": ("delete", "settle"),
    "get_eventhub_properties": ("get_event_hub_properties", None),
}
