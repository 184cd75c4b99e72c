"""RabbitMQ's addresses, version 2 (https://www.rabbitmq.com/docs/amqp#addresses): names are percent-encoded in them."""

from __future__ import annotations

from urllib.parse import quote


def queue_address(name: str) -> str:
    """The address of a queue, to receive from and to send to: `/queues/NAME`.

    Raises:
        ValueError: no queue can have that name: it is "", "." or "..".
    """
    return f"/queues/{escape(name)}"


def exchange_address(name: str, key: str | None = None) -> str:
    """The address of an exchange, to send to: `/exchanges/NAME/KEY`, or `/exchanges/NAME` for an empty routing key.

    Raises:
        ValueError: no exchange can have that name: it is "", "." or "..". The default exchange, "", has no address:
            a queue has.
    """
    address = f"/exchanges/{escape(name)}"
    return address if not key else f"{address}/{quote(key, safe='')}"


def escape(name: str) -> str:
    """A name as it stands in a path.

    RabbitMQ's management normalizes paths: "." and "..", percent-encoded or not, would name something else in them.
    """
    if name in ("", ".", ".."):
        raise ValueError(f"no queue or exchange can be named {name!r}")
    return quote(name, safe="")
