"""What a sender keeps of a delivery that is settled before it is whole."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from amqp10.engine import ConnectionTerms, OutgoingDelivery, dialect
from amqp10.testing import Disposition, EngineScript, Transfer


class Watched(OutgoingDelivery):
    """A delivery whose end can be seen."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("ends", ["whole", "aborted"])
def test_settled_in_part(ends: str) -> None:
    """Nothing, once the last frame or the abort is written: its payload may be large."""
    script = EngineScript(dialect("1.0").client(ConnectionTerms("tested"), None, True))
    script.open()
    link = script.sender(script.session(), credit=5)
    link.delivery_type = Watched
    delivery = link.send(b"one", more=True)
    link.settle(delivery)
    if ends == "whole":
        link.send_more(delivery, b"two")
    else:
        link.abort(delivery)
    script.expect(Transfer, more=True)
    if ends == "whole":
        script.expect(Transfer, more=False)
        script.expect(Disposition, first=0, settled=True)
    else:
        script.expect(Transfer, aborted=True)
    assert isinstance(delivery, Watched)
    kept = ref(delivery)
    del delivery
    gc.collect()
    assert kept() is None
