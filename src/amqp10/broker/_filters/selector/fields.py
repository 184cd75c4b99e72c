"""The names in a selector, and the value of a message that each stands for, in the types that selectors compute with.

JMS names follow https://svn.apache.org/repos/asf/qpid/trunk/qpid/specs/apache-filters.xml, "Java Message Service
Support", where fields have the prefix `amqp.`. JMSType is an exception: it is the subject, as in the AMQP JMS mapping,
Qpid JMS, Artemis and Broker-J. Names of sections follow the AMQP filter expressions 1.0, section 6.4.4.4:
https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929312
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from .values import Candidate, Value, plain

# JMS names

_HEADER: Final = ("durable", "priority", "ttl", "first_acquirer")
_PROPERTIES: Final = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)


def _identifier(value: Any) -> Any:
    """Return a message-id as JMS shows it: as a string, with a prefix that names any other type."""
    if isinstance(value, UUID):
        return f"ID:AMQP_UUID:{value}"
    if isinstance(value, bytes):
        return f"ID:AMQP_BINARY:{value.hex().upper()}"
    return f"ID:AMQP_ULONG:{int(value)}" if isinstance(value, int) else value


def _user(candidate: Candidate) -> str | None:
    user = candidate.message.user_id
    return None if user is None else user.decode(errors="replace")


_JMS: Final[dict[str, Value]] = {
    "JMSCorrelationID": lambda candidate: _identifier(candidate.field("correlation_id")),
    "JMSDeliveryMode": lambda candidate: "PERSISTENT" if candidate.message.durable else "NON_PERSISTENT",
    "JMSDestination": lambda candidate: candidate.field("to"),
    "JMSExpiration": lambda candidate: plain(candidate.message.absolute_expiry_time) or 0,
    "JMSMessageID": lambda candidate: _identifier(candidate.field("message_id")),
    "JMSPriority": lambda candidate: plain(candidate.message.priority),
    "JMSRedelivered": lambda candidate: candidate.entry.failures > 0,
    "JMSReplyTo": lambda candidate: candidate.field("reply_to"),
    "JMSTimestamp": lambda candidate: plain(candidate.message.creation_time) or 0,
    "JMSType": lambda candidate: candidate.field("subject"),
    "JMSXDeliveryCount": lambda candidate: candidate.entry.failures + 1,
    "JMSXGroupID": lambda candidate: candidate.field("group_id"),
    "JMSXGroupSeq": lambda candidate: plain(candidate.message.group_sequence),
    "JMSXUserID": _user,
}


# Names of sections


def _header(name: str) -> Value:
    return lambda candidate: plain(getattr(candidate.message, name))


def _property(name: str) -> Value:
    return lambda candidate: plain(candidate.field(name))


def application_property(name: str) -> Value:
    """Return the value that the application property of this name has."""
    return lambda candidate: plain(candidate.application_properties.get(name))


def _annotation(name: str) -> Value:
    return lambda candidate: plain(candidate.message.message_annotations.get(name))


_COUNT: Final[dict[str, Value]] = {"delivery_count": lambda candidate: candidate.entry.failures}
_HEADER_FIELDS: Final[dict[str, Value]] = {name: _header(name) for name in _HEADER} | _COUNT
_PROPERTIES_FIELDS: Final[dict[str, Value]] = {name: _property(name) for name in _PROPERTIES}
_FIELDS: Final[dict[str, dict[str, Value]]] = {
    "amqp": _HEADER_FIELDS | _PROPERTIES_FIELDS,
    "header": _HEADER_FIELDS,
    "h": _HEADER_FIELDS,
    "properties": _PROPERTIES_FIELDS,
    "p": _PROPERTIES_FIELDS,
}
_MAPS: Final[dict[str, Callable[[str], Value]]] = {
    "application_properties": application_property,
    "application-properties": application_property,
    "a": application_property,
    "message_annotations": _annotation,
    "message-annotations": _annotation,
    "m": _annotation,
}


def jms_field(name: str) -> Value:
    """Return the value that a name in a JMS selector stands for.

    Raises:
        ValueError: there is no section of that name, or it has no such field.
    """
    return _JMS.get(name) or section_field(name)


def section_field(name: str) -> Value:
    """Return the value that a name stands for: a field of a section, or an application property.

    Raises:
        ValueError: there is no section of that name, or it has no such field.
    """
    section, dot, field = name.partition(".")
    if not dot:
        return application_property(name)
    if section in _MAPS:
        return _MAPS[section](field)
    if section not in _FIELDS:
        raise ValueError(f"there is no section {section!r}; quote a property whose name has a dot")
    if field not in _FIELDS[section]:
        raise ValueError(f"{section} has no field {field!r}")
    return _FIELDS[section][field]
