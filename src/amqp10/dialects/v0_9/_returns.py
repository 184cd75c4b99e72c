"""Returns: publishes that no queue took come back, and only their content says which ones they were (§1.8.3.9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...messaging import Outcome, Rejected, Returned
from ...types import Symbol
from ._codes import as_error

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery
    from ._methods import BasicReturn
    from ._sender import SenderEndpoint

UNROUTABLE = (312, 313)
"""No queue was bound for it; or none with a consumer."""


def outcome_of(method: BasicReturn) -> Outcome:
    """What a return says of its message."""
    error = as_error(method.reply_code, method.reply_text)
    assert error.info is not None
    error.info |= {Symbol("exchange"): method.exchange, Symbol("routing-key"): method.routing_key}
    return Returned(error) if method.reply_code in UNROUTABLE else Rejected(error)


def find_returned(
    publishes: Iterable[tuple[SenderEndpoint, OutgoingDelivery]], method: BasicReturn, properties: bytes, body: bytes
) -> OutgoingDelivery | None:
    """The publish that came back; None if none of these went there.

    Those of one route with the same properties and body are as good as each other; the oldest of them is taken. Should
    the peer have changed something, the nearest is: nobody may take for sent what came back.
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
