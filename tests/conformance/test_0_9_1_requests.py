"""AMQP 0-9-1 and its kin: declaring, binding and deleting, where RabbitMQ or Qpid go beyond the specification."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10.dialects.v0_9._methods import ExchangeDeclare, QueueBind, QueueDeclare
from amqp10.dialects.v0_9._methods_0_9 import ExchangeBound, ExchangeBoundOk
from amqp10.dialects.v0_9._variant import V0_9, V0_9_1, V0_9_DRAFT, Variant

from ._older import Client09

FAMILY = pytest.mark.parametrize(
    ("name", "variant"), [("0-9-1", V0_9_1), ("0-9", V0_9), ("0-9-draft", V0_9_DRAFT)], ids=["0-9-1", "0-9", "draft"]
)

# Whether something is bound


@pytest.mark.deviation(
    "0-9-1 exchange.bound", "the method, which Qpid added, is answered", "Qpid's clients ask with it"
)
@FAMILY
@pytest.mark.parametrize(
    ("exchange", "key", "queue", "code"),
    [
        ("e", "k", "q", 0),
        ("e", "k", "", 0),
        ("e", "", "q", 0),
        ("e", "", "", 0),
        ("absent", "k", "q", 1),
        ("e", "k", "absent", 2),
        ("e", "", "absent", 2),
        ("empty", "", "", 3),
        ("empty", "", "q", 4),
        ("e", "", "other", 4),
        ("e", "absent", "", 5),
        ("empty", "k", "", 5),
        ("e", "k", "other", 6),
        ("e", "absent", "q", 6),
        ("", "", "", 0),
        ("", "", "q", 0),
        ("", "q", "", 0),
        ("", "q", "q", 0),
        ("", "", "absent", 2),
        ("", "absent", "", 5),
        ("", "k", "q", 6),
    ],
)
def test_bound(name: str, variant: Variant, exchange: str, key: str, queue: str, code: int) -> None:
    """With Qpid's codes; a name that is left out does not matter, and is not that of the last queue declared."""
    client = Client09(name=name, variant=variant)
    client.do(
        ExchangeDeclare(exchange="empty"),
        ExchangeDeclare(exchange="e"),
        QueueDeclare(queue="q"),
        QueueDeclare(queue="other"),
        QueueBind(queue="q", exchange="e", routing_key="k"),
    )
    (said,) = client.do(ExchangeBound(exchange, key, queue))
    assert isinstance(said, ExchangeBoundOk)
    assert (said.reply_code, bool(said.reply_text)) == (code, code != 0)


def test_bound_with_long_names() -> None:
    """The words are cut where a short string ends, within no character."""
    said: Any = Client09().do(ExchangeBound("é" * 127, "", ""))[0]
    assert said.reply_code == 1
    assert 250 < len(said.reply_text.encode()) <= 255
