"""RabbitMQ's addresses."""

from __future__ import annotations

import pytest

from amqp10.rabbitmq import exchange_address, queue_address


@pytest.mark.parametrize(
    ("name", "address"),
    [("orders", "/queues/orders"), ("a/b c%", "/queues/a%2Fb%20c%25"), ("käse", "/queues/k%C3%A4se")],
)
def test_queue(name: str, address: str) -> None:
    """Names are percent-encoded, slashes too."""
    assert queue_address(name) == address


def test_exchange() -> None:
    """With a routing key and without."""
    assert exchange_address("e", "order.created") == "/exchanges/e/order.created"
    assert exchange_address("a/b", "c/d") == "/exchanges/a%2Fb/c%2Fd"
    assert exchange_address("e") == exchange_address("e", "") == "/exchanges/e"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_27_names_that_cannot_be(name: str) -> None:
    """Pitfall 27: the default exchange has no address of this form, and dots would be another path."""
    for make in (queue_address, exchange_address):
        with pytest.raises(ValueError, match="cannot be the name of a queue or exchange"):
            make(name)
    assert queue_address("...") == "/queues/..."
