"""Addresses of exchanges and queues: RabbitMQ's second version, and plain names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.engine import Address, parse_address, route_address
from amqp10.rabbitmq import exchange_address, queue_address

NAMES = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: name not in (".", ".."))


@pytest.mark.parametrize(
    ("text", "exchange", "key"),
    [
        ("orders", "", "orders"),
        ("a/b", "", "a/b"),
        ("/queues/orders", "", "orders"),
        ("/queues/a%2Fb%20%C3%A9", "", "a/b é"),
        ("/exchanges/e/key", "e", "key"),
        ("/exchanges/e/a%2Fb", "e", "a/b"),
        ("/exchanges/e/", "e", ""),
        ("/exchanges/e", "e", None),
        ("/topics/t", "", "/topics/t"),
    ],
)
def test_reads(text: str, exchange: str, key: str | None) -> None:
    """Each spelling names an exchange and a routing key."""
    assert parse_address(text) == Address(exchange, key)


@pytest.mark.parametrize("text", ["", "/queues/", "/queues/a/b", "/exchanges/e/a/b", "/queues/%ff"])
def test_refuses(text: str) -> None:
    """What begins like such an address and means nothing is an error, and no queue of that name."""
    with pytest.raises(ValueError, match="address"):
        parse_address(text)


@given(NAMES, NAMES)
def test_agrees_with_rabbitmq_addresses(name: str, key: str) -> None:
    """What the addresses for RabbitMQ say is read back, whatever the names are, and written the same."""
    assert parse_address(queue_address(name)).queue == name
    assert parse_address(exchange_address(name, key)) == Address(name, key)
    assert route_address("", name) == queue_address(name)
    assert route_address(name, key) == exchange_address(name, key)
    assert str(parse_address(exchange_address(name))) == exchange_address(name)
