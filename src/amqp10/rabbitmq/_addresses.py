"""RabbitMQ's addresses, version 2 (https://www.rabbitmq.com/docs/amqp#addresses), with percent-encoded names."""

from __future__ import annotations

from urllib.parse import quote

from .._arguments import checked


@checked
def queue_address(name: str) -> str:
    """Return the address of a queue, to receive from and to send to: `/queues/NAME`.

    Raises:
        ValueError: `name` is "", "." or "..", which cannot be the name of a queue.
    """
    return f"/queues/{escape(name)}"


@checked
def exchange_address(name: str, key: str | None = None) -> str:
    """Return the address of an exchange, to send to: `/exchanges/NAME/KEY`, or `/exchanges/NAME` for an empty key.

    Raises:
        ValueError: `name` is "", "." or "..". The default exchange, "", has no address: use that of the queue.
    """
    address = f"/exchanges/{escape(name)}"
    return address if not key else f"{address}/{quote(key, safe='')}"


def escape(name: str) -> str:
    """Escape a name for use in a path, by percent-encoding.

    RabbitMQ's management normalizes paths: "." and "..", percent-encoded or not, would name another resource.
    """
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot be the name of a queue or exchange")
    return quote(name, safe="")
