"""Returns: publishes that no queue took come back, and only their content tells which ones they were (§1.8.3.9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ....messaging import Outcome, Rejected, Returned
from ....types import Symbol
from ..codes import as_error

if TYPE_CHECKING:
    from ....engine import OutgoingDelivery
    from ..message.to_basic import Route
    from ..wire.methods import BasicReturn

    class Mapper(Protocol):
        """A link that converts its messages."""

        def map(self, payload: bytes) -> tuple[Route, bytes]: ...


UNROUTABLE = (312, 313)
"""Reply codes: no queue is bound for the message, or no queue with a consumer."""


def outcome_of(method: BasicReturn) -> Outcome:
    """Return the outcome that a return gives its message."""
    error = as_error(method.reply_code, method.reply_text)
    assert error.info is not None
    error.info |= {Symbol("exchange"): method.exchange, Symbol("routing-key"): method.routing_key}
    return Returned(error) if method.reply_code in UNROUTABLE else Rejected(error)


def find_returned(
    publishes: Iterable[tuple[Mapper, OutgoingDelivery]], method: BasicReturn, properties: bytes, body: bytes
) -> OutgoingDelivery | None:
    """Return the publish that came back; None if nothing was published to its address.

    Publishes of one route with the same properties and body are as good as each other; the oldest of them is taken. If
    the peer has changed something, the most similar publish is taken: what came back must not be taken for sent.
    """
    found, likeness = None, 0
    for link, delivery in publishes:
        route, whole = link.map(delivery.payload)
        if (route.exchange, route.key) != (method.exchange, method.routing_key):
            continue
        alike = 1 + 2 * (whole == body) + (route.properties == properties)
        if alike > likeness:
            found, likeness = delivery, alike
            if alike == 4:
                break
    return found
