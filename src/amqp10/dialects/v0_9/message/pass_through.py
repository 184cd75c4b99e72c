"""Properties of 0-9-1 messages that came, kept for a while to be sent on as they came: for speed alone.

A broker maps a message that it takes to 1.0 (`from_basic`), and back for a consumer of the same dialect (`to_basic`).
If nothing changed the payload on its way, the properties that came are those to send. A payload is known by being the
same object, so that no other message with equal sections gets them. `ToBasic.map` is the plain twin, for all others.

benchmarks/budget.py, "broker_through_0_9_1"
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Final

from ....messaging import data_head
from ..wire.tables import Tables
from .from_basic import read_route
from .places import ACQUIRED_COUNT
from .to_basic import CONTENT_HEADER, PublishTemplate

MAX_KEPT: Final = 512
"""Messages whose properties are kept: those of a few reads, which a broker hands out after each read."""
MAX_OCTETS: Final = 8192
"""The largest payload whose properties are kept."""

# The mapping begins each message with a header, a list8; one without is of properties that have no place in 1.0.
_HEADER: Final = b"\0\x53\x70\xc0"
_DELIVERY_COUNT: Final = 5  # the place of the delivery-count, which is last in the header (§3.2.1)
_ACQUIRED: Final = ACQUIRED_COUNT.encode()


class PassThrough:
    """The properties of the last messages that came, for all connections of a process: servers share messages."""

    def __init__(self) -> None:
        # From the identity of a payload, which is kept with it: else another object could get that identity.
        self._kept: OrderedDict[int, tuple[bytes, PublishTemplate, int]] = OrderedDict()

    def keep(self, payload: bytes, route: bytes, properties: bytes, body: bytes) -> None:
        """Keep the properties of a message that was mapped to `payload`, if they say all that it is.

        Args:
            payload, route, properties, body: see `FromBasic.map`; the content contains no others.
        """
        size = len(body)
        if (
            len(payload) > MAX_OCTETS
            or not payload.startswith(_HEADER)
            or not payload.endswith(data_head(size) + body)
            # Attempts become the bit "redelivered".
            or payload[len(_HEADER) + 1] >= _DELIVERY_COUNT
            or _ACQUIRED in payload
        ):
            return
        kept = self._kept
        if len(kept) >= MAX_KEPT:
            kept.popitem(last=False)
        exchange, key = read_route(route)
        kept[id(payload)] = payload, PublishTemplate(exchange, key, properties, False), size

    def find(self, payload: bytes, max_payload: int) -> tuple[PublishTemplate, bytes] | None:
        """Return what `ToBasic.map` does for a payload that came a short time ago; None for any other.

        Args:
            max_payload: the largest payload that the peer takes in a frame, octets; the properties must fit.
        """
        kept = self._kept.get(id(payload))
        if kept is None or len(kept[1].properties) + CONTENT_HEADER > max_payload:
            return None
        return kept[1], payload[len(payload) - kept[2] :]


@cache
def pass_through(tables: Tables) -> PassThrough:
    """Return what is kept of messages whose tables are such: each dialect has its own."""
    return PassThrough()
