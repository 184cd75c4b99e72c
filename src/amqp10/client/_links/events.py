"""What a connection tells of its links: lost, restored, and what became of their deliveries."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

from ..._arguments import counted
from ...errors import AmqpError
from .._core.faces import core_of
from .._events import ConnectionEvent, because
from .link import Link


@dataclass(frozen=True, slots=True)
class LinkEvent(ConnectionEvent):
    """The base of those that concern one link."""

    link: Link

    def fields(self) -> dict[str, Any]:
        fields = ConnectionEvent.fields(self)
        core = core_of(self.link)
        address = getattr(core.terminus, "address", None)
        return {**fields, "amqp_link": core.name, "amqp_link_kind": core.kind, "amqp_address": address}

    @property
    def _which(self) -> str:
        fields = LinkEvent.fields(self)
        return f"{fields['amqp_link_kind']} {fields['amqp_address']!r:.200} (link {self.link.name!r:.100})"


@dataclass(frozen=True, slots=True)
class LinkInterrupted(LinkEvent):
    """The peer detached a link or ended its session; it is to be attached again."""

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "link_detached"
    cause: AmqpError | None

    def describe(self) -> str:
        return f"{self._which} was detached, and is to be attached again{because(self.cause)}"


@dataclass(frozen=True, slots=True)
class LinkLost(LinkEvent):
    """The peer refused or detached a link, or ended its session, and it is not attached again.

    It is logged at level INFO: the error is raised to whoever uses the link.
    """

    kind: ClassVar[str] = "link_lost"
    cause: AmqpError

    def describe(self) -> str:
        return f"{self._which} is over{because(self.cause)}"


@dataclass(frozen=True, slots=True)
class LinkRestored(LinkEvent):
    """A link is attached again.

    Attributes:
        resumed: with its unsettled deliveries (§2.6.13).
    """

    kind: ClassVar[str] = "link_restored"
    resumed: bool

    def describe(self) -> str:
        return f"{self._which} is attached again{', with its deliveries' if self.resumed else ''}"


@dataclass(frozen=True, slots=True)
class ReceiverActivity(LinkEvent):
    """A receiver became the one that gets the messages of a queue, or another one did: see `Receiver.active`.

    Attributes:
        active: it is this one.
    """

    kind: ClassVar[str] = "receiver_activity"
    active: bool

    def describe(self) -> str:
        return f"{self._which} {'gets the messages' if self.active else 'waits: another consumer gets the messages'}"


@dataclass(frozen=True, slots=True)
class MessagesRepeated(LinkEvent):
    """Messages are sent again after a loss: it is not known whether they arrived, or known that they did not.

    Attributes:
        count: how many.
        cause: why the link was lost.
    """

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "messages_repeated"
    count: int
    cause: AmqpError | None

    def describe(self) -> str:
        return f"{self._which} sends {counted(self.count, 'message')} again that had no outcome{because(self.cause)}"


@dataclass(frozen=True, slots=True)
class MessagesUncertain(LinkEvent):
    """Of messages it will never be known whether they arrived, and they are not sent again.

    Attributes:
        count: how many.
        cause: why the link was lost.
    """

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "messages_uncertain"
    count: int
    cause: AmqpError | None

    def describe(self) -> str:
        return f"{self._which} does not know what became of {counted(self.count, 'message')}{because(self.cause)}"


@dataclass(frozen=True, slots=True)
class DeliveriesStale(LinkEvent):
    """Deliveries came back to the peer, unsettled, with a link that was lost: it delivers their messages again.

    Attributes:
        count: how many; those that nobody had taken yet are among them.
        cause: why the link was lost.
    """

    level: ClassVar[int] = logging.WARNING
    kind: ClassVar[str] = "deliveries_returned"
    count: int
    cause: AmqpError | None

    def describe(self) -> str:
        returned = counted(self.count, "unsettled delivery")
        again = "it comes again" if self.count == 1 else "they come again"
        return f"{returned} of {self._which} went back: {again}{because(self.cause)}"
