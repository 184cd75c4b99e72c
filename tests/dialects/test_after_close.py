"""What a side writes after its close of the connection: nothing. 0-10 and 0-9-1 have tests of their own."""

from __future__ import annotations

import pytest

from amqp10.testing import EnginePair


@pytest.mark.parametrize("dialect", ["1.0", "fast"])
def test_nothing_follows_our_close(dialect: str) -> None:
    """A client that ends links and sessions after its close of the connection writes nothing for them."""
    pair = EnginePair(dialect=dialect)
    pair.open()
    sender, _ = pair.attach(credit=1)
    receiver, _ = pair.attach(credit=1, sender="server")
    pair.client.close()
    assert pair.client.data_to_send()
    for link in (sender, receiver):
        link.detach()
    sender.session.end()
    assert pair.client.data_to_send() == b""
