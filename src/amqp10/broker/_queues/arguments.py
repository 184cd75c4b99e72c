"""The arguments of a declared queue, parsed.

They are RabbitMQ's (https://www.rabbitmq.com/docs/queues#optional-arguments).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .._errors import Refused
from .message import MIN_TTL

_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
KNOWN: Final = frozenset(
    (
        *("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-max-age"),
        *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority", "x-delivery-limit"),
        *("x-single-active-consumer", "x-queue-type", "x-consumer-timeout"),
        *("x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max"),
    )
)
"""The arguments that have a meaning here."""
TYPES: Final = ("classic", "quorum", "stream")
"""The types of queues."""
RETRIES: Final = ("all", "failed", "returned")
"""Which messages that come back wait in a quorum queue: all, only `failed` ones, or only the others."""


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """How a queue was declared.

    Attributes:
        durable: whether a store keeps it.
        exclusive: whether it belongs to one connection, and ends with it.
        auto_delete: whether it ends with its last consumer.
        arguments: the arguments as they came.
    """

    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed arguments of a queue; times are in seconds, None: not given.

    Attributes:
        ttl: the most time that a message waits.
        expires: how long an unused queue is kept.
        max_length, max_bytes: the most waiting messages, and the most bytes.
        overflow: what happens to messages beyond that.
        dead_letter: the exchange and routing key for messages that are rejected, expired or too many; key None: the
            message's own.
        max_priority: the highest priority of messages; 0: there are no priorities.
        delivery_limit: how often a message may fail; negative: without limit.
        single_active: whether only one consumer gets messages, while the others wait to take its place.
        consumer_timeout: how long a consumer of a quorum queue may take for a message.
        retry_type: which messages that come back wait in a quorum queue, one of `RETRIES`, or None.
        retry_min, retry_max: how long they wait, after the first failed attempt and at most.
    """

    ttl: float | None = None
    expires: float | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter: tuple[str, str | None] | None = None
    max_priority: int = 0
    delivery_limit: int | None = None
    single_active: bool = False
    consumer_timeout: float | None = None
    retry_type: str | None = None
    retry_min: float = 0.0
    retry_max: float = 0.0

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Arguments:
        """Parse arguments; unknown ones that begin with x- are accepted and have no effect.

        Raises:
            Refused: a value is invalid, or asks for something that is not supported.
        """
        exchange, key = text(arguments, "x-dead-letter-exchange"), text(arguments, "x-dead-letter-routing-key")
        if exchange is None and key is not None:
            raise wrong("x-dead-letter-routing-key", "needs an x-dead-letter-exchange")
        overflow = text(arguments, "x-overflow") or "drop-head"
        if overflow not in _OVERFLOWS:
            raise wrong("x-overflow", f"must be one of {', '.join(_OVERFLOWS)}, not {overflow!r:.60}")
        single = arguments.get("x-single-active-consumer", False)
        if not isinstance(single, bool):
            raise wrong("x-single-active-consumer", f"must be true or false, not {single!r:.60}")
        ttl, expires = number(arguments, "x-message-ttl"), number(arguments, "x-expires", least=1)
        timeout = number(arguments, "x-consumer-timeout")
        least, most = (number(arguments, f"x-delayed-retry-{end}", least=None) or 0 for end in ("min", "max"))
        retry = text(arguments, "x-delayed-retry-type")
        return cls(
            ttl=None if ttl is None else max(ttl / 1000, MIN_TTL),
            expires=None if expires is None else expires / 1000,
            max_length=number(arguments, "x-max-length"),
            max_bytes=number(arguments, "x-max-length-bytes"),
            overflow=overflow,
            dead_letter=None if exchange is None else (exchange, key),
            max_priority=number(arguments, "x-max-priority", most=255) or 0,
            delivery_limit=number(arguments, "x-delivery-limit", least=None),
            single_active=single,
            consumer_timeout=None if timeout is None else timeout / 1000,
            # RabbitMQ accepts any word and any number here; meaningless ones turn the retry off.
            retry_type=retry if retry in RETRIES and least > 0 else None,
            retry_min=least / 1000,
            retry_max=(most if most > 0 else least) / 1000,
        )


def check_lasting(terms: QueueDeclaration) -> None:
    """Check that a quorum queue or a stream is declared as durable, and neither exclusive nor auto-delete.

    Raises:
        Refused: it is not.
    """
    kind = terms.arguments.get("x-queue-type")
    if kind in ("quorum", "stream") and (terms.exclusive or terms.auto_delete or not terms.durable):
        raise Refused("amqp:precondition-failed", f"a {kind} queue is durable, and neither exclusive nor auto-delete")


def queue_type(arguments: Mapping[str, Any]) -> str:
    """Return the type of queue that is asked for.

    Raises:
        Refused: there is no such type.
    """
    kind = text(arguments, "x-queue-type") or TYPES[0]
    if kind not in TYPES:
        raise wrong("x-queue-type", f"must be one of {', '.join(TYPES)}, not {kind!r:.60}")
    return kind


def number(
    arguments: Mapping[str, Any], name: str, *, least: int | None = 0, most: int = 0xFFFF_FFFF_FFFF
) -> int | None:
    """Return the number of an argument, or None if it is not given.

    Raises:
        Refused: it is not a number, or is out of range.
    """
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not (least is None or least <= value) or value > most:
        range_ = "" if least is None else f" of {least} at least"
        raise wrong(name, f"must be a number{range_}, not {value!r:.60}")
    return int(value)


def text(arguments: Mapping[str, Any], name: str) -> str | None:
    """Return the string of an argument, or None if it is not given.

    Raises:
        Refused: it is not a string.
    """
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong(name, f"must be a string, not {value!r:.60}")
    return value


def wrong(name: str, description: str) -> Refused:
    """Return the error for an argument that is refused."""
    return Refused("amqp:precondition-failed", f"{name} {description}")
