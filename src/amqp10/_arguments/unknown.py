"""Arguments that a call does not have: what to write in their place, for users who know another library or slip."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .attributes import note_of

MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    "allowed_mechs": ("sasl",),
    "app_properties": ("application_properties",),
    "body": ("message",),
    "callback": ("handler",),
    "client_properties": ("properties",),
    "concurrent": ("concurrency",),
    "connection_timeout": ("connect_timeout",),
    "content": ("body", "message"),
    "conn_str": ("where", "url"),
    "consumer_tag": ("name",),
    "credentials": ("credential", "sasl"),
    "dead_letter": ("dead_letter_exchange", "dead_letters"),
    "dead_letter_queue": ("dead_letter",),
    "delay": ("initial_delay",),
    "delivery_mode": ("durable",),
    "destination": ("address",),
    "entity": ("entity_type",),
    "error_description": ("description",),
    "eventhub_name": ("name",),
    "expiration": ("ttl",),
    "data": ("body", "message"),
    "filter": ("filters",),
    "frame_max": ("max_frame_size",),
    "fully_qualified_namespace": ("where",),
    "headers": ("application_properties",),
    "heartbeat": ("idle_timeout",),
    "http_proxy": ("proxy",),
    "id": ("message_id", "name"),
    "link_credit": ("credit",),
    "label": ("subject",),
    "max_concurrent_calls": ("concurrency",),
    "max_count": ("size", "count"),
    "max_attempts": ("attempts",),
    "max_message_count": ("size",),
    "max_retries": ("attempts",),
    "max_size_in_bytes": ("max_size",),
    "max_wait_time": ("max_wait",),
    "message_handler": ("handler",),
    "on_message": ("handler",),
    "on_message_callback": ("handler",),
    "partition_id": ("partition",),
    "partition_key": ("key",),
    "persistent": ("durable",),
    "prefetch": ("credit",),
    "prefetch_count": ("prefetch", "credit"),
    "presettled": ("settled", "settle_mode"),
    "properties": ("application_properties",),
    "qos": ("credit", "prefetch"),
    "queue": ("address", "entity"),
    "queue_name": ("entity", "address", "name"),
    "reason": ("condition", "description"),
    "rcv_settle_mode": ("receiver_settle_mode",),
    "receive_mode": ("mode",),
    "reconnect_interval": ("reconnect",),
    "recovery_configuration": ("reconnect",),
    "retry_delay": ("reconnect", "retries"),
    "retry_total": ("reconnect", "retries"),
    "schedule_time_utc": ("at",),
    "session_id": ("group_id",),
    "snd_settle_mode": ("settle_mode",),
    "settled": ("settle_mode",),
    "socket_timeout": ("connect_timeout",),
    "ssl": ("tls",),
    "ssl_context": ("tls",),
    "ssl_domain": ("tls",),
    "ssl_options": ("tls",),
    "starting_position": ("start",),
    "time_to_live": ("ttl",),
    "timestamp": ("creation_time",),
    "ttl": ("message_ttl",),
    "timeout": ("connect_timeout", "request_timeout"),
    "topic": ("address",),
    "topic_name": ("address", "entity"),
    "user_properties": ("application_properties",),
    "vhost": ("hostname",),
    "virtual_host": ("hostname",),
    "virtualhost": ("hostname",),
}
"""Words of other libraries, and the arguments that mean the same here: the first one that the call has counts."""

_LIMITED: Final = "`with anyio.fail_after(5):` or `async with asyncio.timeout(5):` limits any call"
ELSEWHERE: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    (
        "url",
        ("host", "login", "password", "port", "user", "userid", "username"),
        "write it in the URL: amqps://USER:PASSWORD@HOST:PORT",
    ),
    (
        "message",
        (
            *(
                "application_properties",
                "content_type",
                "correlation_id",
                "durable",
                "group_id",
                "headers",
                "message_id",
            ),
            *("priority", "properties", "reply_to", "subject", "to", "ttl"),
        ),
        "make a Message of it, which has such fields",
    ),
    ("filters", ("selector",), "filters=[Selector(\"color = 'red'\")] has one"),
    (
        "address",
        ("capabilities", "distribution_mode", "durable", "expiry_policy", "filter", "filters", "selector"),
        "give a Source, or a sender a Target, in place of the address: Source(address, filters=[...])",
    ),
    ("address", ("auto_ack", "auto_settle", "no_ack"), 'settle_mode="settled" has the sender settle all messages'),
    (
        "address",
        ("callback", "message_handler", "on_message", "on_message_callback"),
        "`async for delivery in receiver` takes the messages, or Worker(connection, address, handler)",
    ),
    (
        "source",
        ("dialect", "from_dialect", "from_tls_ca", "to_dialect", "to_tls_ca", "tls"),
        "give a Connection(URL, dialect=...) in place of the URL: it has such settings",
    ),
    (
        "passive",
        (
            *("dead_letter", "dead_letter_exchange", "dead_letter_routing_key", "delivery_limit", "expires"),
            *("max_length", "max_length_bytes", "max_priority", "message_ttl", "overflow", "queue_type", "ttl"),
        ),
        'arguments={"x-message-ttl": 60_000, "x-dead-letter-exchange": ""} has what is named so, with "x-" before it',
    ),
    ("limits", ("memory", "memory_limit"), "limits=BrokerLimits(memory=...) has it"),
    ("", ("exchange", "routing_key"), "the address has it: exchange_address(NAME, KEY) of amqp10.rabbitmq makes one"),
    ("", ("loop",), "it runs in the event loop that calls it"),
    ("message", ("mandatory",), "send() raises MessageReleased where no queue takes the message"),
    ("", ("max_wait_time",), "receive_batch(size, max_wait=5) returns what came by then, and " + _LIMITED),
    ("", ("prefetch", "prefetch_count"), "receiver(address, credit=10) grants it"),
    ("", ("requeue",), "release() has the message delivered again"),
    ("", ("timeout",), _LIMITED),
)
"""What is no argument here: an argument of the calls that are meant, or "" for all; words; what to do instead."""

_PYTHON_MESSAGE: Final = re.compile(r"(\w+)\.(\w+)\(\) got an unexpected keyword argument '(\w+)'")

_FORMS: Final = (
    (
        re.compile(r"'(?:[\w.]+\.)?(\w+)' object does not support the context manager protocol"),
        "`async with` opens it; amqp10.sync has what `with` opens",
    ),
    (
        re.compile(r"'(?:[\w.]+\.)?(\w+)' object does not support the asynchronous context manager protocol"),
        "`with` takes it, because leaving its block waits for nothing",
    ),
    (
        re.compile(r"'(?:[\w.]+\.)?(\w+)' object is not iterable"),
        "`async for` iterates over it; amqp10.sync has what `for` iterates over",
    ),
)
"""Python's errors for a statement that lacks an `async`, or has one too many, and what to write.

From 3.14 on, some of them name the class with its module.
"""


def no_argument(function: Callable[..., Any], name: str, known: Iterable[str]) -> str:
    """Return the text of an error for an argument that a function, method or constructor does not have.

    Args:
        known: the names of the arguments that it has.
    """
    call = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    return f"{call}() has no argument {name!r}: {instead(name, [each for each in known if each != 'self'])}"


def too_many(function: Callable[..., Any], positional: list[str], known: Iterable[str]) -> str:
    """Return the text of an error for more arguments without a name than a function, method or constructor takes.

    Args:
        positional: the arguments that need no name.
        known: the names of all arguments.
    """
    call = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    takes = ", ".join(each for each in positional if each != "self")
    advice = instead("port", ["url"]) if "url" in positional else f"name the others: {', '.join(known)}"
    what = f"only {takes}" if takes else "no argument"
    return f"{call}() takes {what} without a name: {advice}"


def instead(name: str, known: list[str]) -> str:
    """Return what to write in place of an argument that a call does not have, where its arguments are `known`."""
    meant = next((each for each in MEANT.get(name, ()) if each in known), None)
    if meant is not None:
        return f"use {meant}"
    for argument, words, advice in ELSEWHERE:
        if name in words and argument in ("", *known):
            return advice
    close = difflib.get_close_matches(name.lower(), known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(known)}" if known else "it takes none"


def advise(error: BaseException | None, classes: Iterable[type]) -> None:
    """Add a note to Python's own error for an argument that a method of one of the classes does not have.

    For calls that are made for each message, which no wrapper checks. A missing method gets one, too, of any class, and
    so do a missing `async` or `await`, and the errors in a group.
    """
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            advise(inner, classes)
    elif isinstance(error, AttributeError) and inspect.iscoroutine(error.obj):
        owner, _, method = error.obj.__qualname__.rpartition(".")
        if _named(owner, classes):
            _note(error, f"{method}() is a coroutine function: `await` it")
    elif isinstance(error, AttributeError):
        _note(error, note_of(error))
    elif isinstance(error, TypeError):
        _note(error, _note_of_call(str(error), classes))


def _note_of_call(text: str, classes: Iterable[type]) -> str:
    if (found := _PYTHON_MESSAGE.match(text)) is not None:
        owner, method, name = found.groups()
        for cls in _named(owner, classes):
            if (function := getattr(cls, method, None)) is not None:
                return no_argument(function, name, inspect.signature(function).parameters)
    for form, advice in _FORMS:
        if (found := form.match(text)) is not None and _named(found[1], classes):
            return advice
    return ""


def _named(name: str, classes: Iterable[type]) -> list[type]:
    """Return the classes that have this name themselves or by an heir."""
    return [each for each in classes if name in _names(each)]


def _note(error: BaseException, note: str) -> None:
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _names(cls: type) -> set[str]:
    """Return the names of a class and of those that inherit from it, which do what it declares."""
    heirs: list[type] = cls.__subclasses__()
    return {cls.__name__}.union(*map(_names, heirs))
