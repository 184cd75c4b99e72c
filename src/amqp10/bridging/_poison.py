"""Finds the message over which a target ended its link, so that the bridge can go on without it.

Dialects without an outcome for a refusal end the message's channel (0-9-1) or session (0-10), without naming the
message. So all messages without an outcome are sent again one by one, on a new link each time. A message over which the
link ends again is refused by the target.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from ..errors import AmqpError, EndpointError, LinkDetached, SessionEnded
from ..messaging import Error, Rejected
from ._in_flight import InFlightMessage, Phase
from ._mover import Mover, payload_of

if TYPE_CHECKING:
    from ._links import SourceLink, TargetLink
    from ._settings import Settings

ABOUT_A_MESSAGE: Final = frozenset(
    {
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:not-allowed",
        "amqp:not-implemented",
        "amqp:precondition-failed",
        "amqp:link:message-size-exceeded",
    }
)
"""Conditions caused by a message, not by the address, the user or the server."""
POSSIBLY_ABOUT_A_MESSAGE: Final = frozenset({"amqp:unauthorized-access"})
"""Conditions that a message may cause if others are accepted: RabbitMQ uses one for a wrong user-id."""


class PoisonIsolatingMover(Mover):
    """A mover that goes on without the messages that the target refuses.

    Args:
        attach_again: attaches another link to the target.
    """

    def __init__(
        self,
        settings: Settings,
        source: SourceLink,
        target: TargetLink,
        refused_link: TargetLink | None,
        attach_again: Callable[[], Awaitable[TargetLink]],
    ) -> None:
        super().__init__(settings, source, target, refused_link)
        self._attach_again = attach_again

    def _fault(self) -> EndpointError | None:
        """Return the error that ended the target's link, if a message may have caused it."""
        cause = self._target.cause if not self._source.over else None
        about = (
            isinstance(cause, LinkDetached | SessionEnded)
            and str(cause.condition) in ABOUT_A_MESSAGE | POSSIBLY_ABOUT_A_MESSAGE
        )
        return cause if about else None  # type: ignore[return-value]

    def set(self) -> None:
        if self._stopped or self._fault() is None:
            super().set()
            return
        self._target.report_end()
        self._wake()
        self._changed()

    def on_outcome(self, message: InFlightMessage) -> None:
        super().on_outcome(message)
        self._changed()

    async def _send_next(self) -> None:
        if self._fault() is not None:
            await self._isolate_poison()
            return
        try:
            await super()._send_next()
        except (AmqpError, anyio.ClosedResourceError):
            if self._fault() is None:
                raise

    async def _isolate_poison(self) -> None:
        """Send all messages without an outcome again, one by one."""
        in_flight, cause = self.in_flight, self._fault()
        suspects = [each for each in in_flight.by_delivery.values() if each.phase is Phase.SENT and not each.refusal]
        doubtful: list[tuple[InFlightMessage, EndpointError]] = []
        for message in suspects:
            if message.stale:
                in_flight.drop(message)
                continue
            fault = await self._send_alone(message)
            if fault is None:
                continue
            cause = fault
            in_flight.set_phase(message, Phase.WAITING)
            if str(fault.condition) in POSSIBLY_ABOUT_A_MESSAGE and not in_flight.moved:
                doubtful.append((message, fault))
            else:
                self._refuse(message, fault)
        if cause is not None and (not suspects or (doubtful and not in_flight.moved)):
            self.fail(cause)
            await anyio.sleep_forever()  # until the group is cancelled
        for message, fault in doubtful:
            self._refuse(message, fault)
        await self._attach()

    async def _attach(self) -> None:
        """Attach a link to the target unless there is one."""
        if self._target.over:
            self._target = await self._attach_again()
            self._target.watch(self)

    async def _send_alone(self, message: InFlightMessage) -> EndpointError | None:
        """Send a message again, alone; return the error that ended the link, or None."""
        in_flight = self.in_flight
        await self._attach()
        again = message.sent is not None and message.sent.handed_over
        in_flight.set_phase(message, Phase.WAITING)
        await self._target.wait_sendable(len(message.source.payload))
        self._forward(message, self._target, payload_of(message), None)
        await self._wait_until(lambda: message.phase is not Phase.SENT or self._is_done(message) or self._target.over)
        if self._is_done(message):
            in_flight.duplicates += again and not message.refusal
            return None
        return self._fault() if message.phase is Phase.SENT else None

    def _refuse(self, message: InFlightMessage, fault: EndpointError) -> None:
        self._on_refused(message, Rejected(Error(str(fault.condition), fault.description)))

    def _is_done(self, message: InFlightMessage) -> bool:
        return message.source not in self.in_flight.by_delivery
