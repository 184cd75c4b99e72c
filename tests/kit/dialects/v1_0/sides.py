"""What the owners of two engines know of their sessions, links and deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from amqp10.engine import (
    IncomingDelivery,
    OutgoingDelivery,
)


@dataclass(eq=False)
class Sent:
    """A delivery as its sender's owner knows it."""

    delivery: OutgoingDelivery
    payload: bytes
    whole: bool
    aborted: bool = False


@dataclass(eq=False)
class SessionSide:
    """One end of a session."""

    side: str
    session: Any
    label: str
    ending: bool = False  # its owner has ended it
    over: bool = False


@dataclass(eq=False)
class LinkSide:
    """One end of a link. Its key names the link at both ends, as long as neither has ended it."""

    side: str
    link: Any
    on: SessionSide
    number: int
    detaching: bool = False
    over: bool = False
    sent: list[Sent] = field(default_factory=list)
    got: list[tuple[IncomingDelivery, bytes]] = field(default_factory=list)
    reading: list[tuple[IncomingDelivery, list[bytes]]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.on.label, self.link.name, (self.side == "client") is self.link.is_sender

    @property
    def partial(self) -> Sent | None:
        return self.sent[-1] if self.sent and not self.sent[-1].whole and not self.sent[-1].aborted else None


def pick(things: Sequence[Any], which: int) -> Any:
    return things[which % len(things)] if things else None
