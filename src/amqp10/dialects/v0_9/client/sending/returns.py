"""Returns: publishes that no queue took come back, and only their content tells which ones they were (§1.8.3.9)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .....messaging import ACCEPTED, Outcome, Rejected, Returned, TransactionalState
from .....types import Symbol
from ...codes import as_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .....engine import OutgoingDelivery
    from ...wire.methods import BasicReturn
    from .publish_writer import PublishWriter


UNROUTABLE = (312, 313)
"""Reply codes: no queue is bound for the message, or no queue with a consumer."""


def outcome_of(method: BasicReturn) -> Outcome:
    """Return the outcome that a return gives its message."""
    error = as_error(method.reply_code, method.reply_text)
    assert error.info is not None
    error.info |= {Symbol("exchange"): method.exchange, Symbol("routing-key"): method.routing_key}
    return Returned(error) if method.reply_code in UNROUTABLE else Rejected(error)


class Returnable:
    """Publishes that may come back, to be found by what comes back of them.

    Publishes of one route with the same properties and body are as good as each other; the oldest of them is taken. If
    the peer has changed something, the most similar publish is taken: what came back must not be taken for sent.
    However many there are, one is found in a few steps.
    """

    def __init__(self) -> None:
        self._alike: dict[tuple[object, ...], deque[OutgoingDelivery]] = {}  # oldest first
        self._count = 0

    def __len__(self) -> int:
        """Return how many publishes were added; they are kept, whatever became of them."""
        return self._count

    def add(self, writer: PublishWriter, delivery: OutgoingDelivery) -> None:
        """Add a publish of `writer`, newer than all others."""
        route, body = writer.map(delivery.payload)
        self._count += 1
        for likeness in _likenesses(route.exchange, route.key, route.properties, body):
            self._alike.setdefault(likeness, deque()).append(delivery)

    def find(self, method: BasicReturn, properties: bytes, body: bytes) -> OutgoingDelivery | None:
        """Return the publish that came back; None if every publish to its address has its outcome."""
        for likeness in _likenesses(method.exchange, method.routing_key, properties, body):
            alike = self._alike.get(likeness)
            while alike:
                if _may_come_back(alike[0]):
                    return alike[0]
                alike.popleft()
        return None


def _may_come_back(delivery: OutgoingDelivery) -> bool:
    """Return whether a publish has not been confirmed or returned; in a transaction each is accepted at first."""
    state = delivery.remote_state
    return state is None or (isinstance(state, TransactionalState) and state.outcome == ACCEPTED)


def _likenesses(exchange: str, key: str, properties: bytes, body: bytes) -> Iterator[tuple[object, ...]]:
    """Yield what two publishes to one address may have in common, the most first."""
    yield exchange, key, properties, body
    yield exchange, key, None, body
    yield exchange, key, properties, None
    yield exchange, key, None, None
