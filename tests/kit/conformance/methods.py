"""What a broker of 0-9-1 says."""

from __future__ import annotations

import pytest

from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT

from ..broker.older_clients import Client09

FAMILY = pytest.mark.parametrize(
    ("name", "variant"), [("0-9-1", V0_9_1), ("0-9", V0_9), ("0-9-draft", V0_9_DRAFT)], ids=["0-9-1", "0-9", "draft"]
)


def said_by(client: Client09, *methods: Method) -> list[tuple[str, int]]:
    """The names of the answers, with the codes of those that close."""
    return [(each.name, getattr(each, "reply_code", 0)) for each in client.do(*methods)]
