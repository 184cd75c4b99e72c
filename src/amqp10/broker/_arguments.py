"""The arguments of a queue that somebody declares, understood.

What they mean is RabbitMQ's (https://www.rabbitmq.com/docs/queues#optional-arguments).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ._address import AddressError

_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
# What is taken to be no time at all: a message that a consumer waits for is handed out before it is over.
_AT_ONCE: Final = 0.01
KNOWN: Final = frozenset(
    (
        *("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-max-age"),
        *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority", "x-delivery-limit"),
        *("x-single-active-consumer", "x-queue-type"),
    )
)
"""Names of the arguments that mean something here."""
TYPES: Final = ("classic", "quorum", "stream")
"""Of queues; the first two are the same here."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a queue, understood; times in seconds, None where they say nothing.

    Attributes:
        ttl: how long a message waits at most.
        expires: how long the queue is kept that nobody uses.
        most, most_bytes: what it holds at most; of messages, those that wait.
        overflow: what becomes of more than that.
        dead_letter: exchange and routing key for what is rejected, expired or too much; None for the message's own key.
        priorities: of messages, 0 for none.
        attempts: how often a message may fail.
        single: one consumer is given messages, the others wait to take its place.
    """

    ttl: float | None = None
    expires: float | None = None
    most: int | None = None
    most_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter: tuple[str, str | None] | None = None
    priorities: int = 0
    attempts: int | None = None
    single: bool = False

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Arguments:
        """Understand them; those that begin with x- and are not known change nothing here, and are taken as they are.

        Raises:
            AddressError: a value makes no sense, or what it asks for is not to be had here.
        """
        exchange, key = text(arguments, "x-dead-letter-exchange"), text(arguments, "x-dead-letter-routing-key")
        if exchange is None and key is not None:
            raise wrong("x-dead-letter-routing-key", "goes with an x-dead-letter-exchange")
        overflow = text(arguments, "x-overflow") or "drop-head"
        if overflow not in _OVERFLOWS:
            raise wrong("x-overflow", f"is one of {', '.join(_OVERFLOWS)}, not {overflow!r:.60}")
        single = arguments.get("x-single-active-consumer", False)
        if not isinstance(single, bool):
            raise wrong("x-single-active-consumer", f"is true or false, not {single!r:.60}")
        ttl, expires = number(arguments, "x-message-ttl"), number(arguments, "x-expires", least=1)
        return cls(
            ttl=None if ttl is None else max(ttl / 1000, _AT_ONCE),
            expires=None if expires is None else expires / 1000,
            most=number(arguments, "x-max-length"),
            most_bytes=number(arguments, "x-max-length-bytes"),
            overflow=overflow,
            dead_letter=None if exchange is None else (exchange, key),
            priorities=number(arguments, "x-max-priority", most=255) or 0,
            attempts=number(arguments, "x-delivery-limit"),
            single=single,
        )


def queue_type(arguments: Mapping[str, Any]) -> str:
    """What sort of queue is asked for.

    Raises:
        AddressError: there is no such sort.
    """
    asked = text(arguments, "x-queue-type") or TYPES[0]
    if asked not in TYPES:
        raise wrong("x-queue-type", f"is one of {', '.join(TYPES)}, not {asked!r:.60}")
    return asked


def number(arguments: Mapping[str, Any], name: str, *, least: int = 0, most: int = 0xFFFF_FFFF_FFFF) -> int | None:
    """The number of that argument, None where it is not given; AddressError where it is another."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise wrong(name, f"is a number of {least} at least, not {value!r:.60}")
    return int(value)


def text(arguments: Mapping[str, Any], name: str) -> str | None:
    """The string of that argument, None where it is not given; AddressError where it is something else."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong(name, f"is a string, not {value!r:.60}")
    return value


def wrong(name: str, description: str) -> AddressError:
    """Why an argument is refused."""
    return AddressError("amqp:precondition-failed", f"{name} {description}")
