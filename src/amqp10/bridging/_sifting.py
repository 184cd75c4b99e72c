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
from ._mover import Mover, payload_of
from ._transit import Phase, Transit

if TYPE_CHECKING:
    from ._ends import Ending, Outlet
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
PERHAPS: Final = frozenset({"amqp:unauthorized-access"})
"""Conditions that a message may cause if others are accepted: RabbitMQ uses one for a wrong user-id."""


class SiftingMover(Mover):
    """A mover that goes on without the messages that the target refuses.

    Args:
        anew: attaches another link to the target.
    """

    def __init__(
        self,
        settings: Settings,
        source: Ending,
        target: Outlet,
        aside: Outlet | None,
        anew: Callable[[], Awaitable[Outlet]],
    ) -> None:
        super().__init__(settings, source, target, aside)
        self._anew = anew

    def _fault(self) -> EndpointError | None:
        """Return the error that ended the target's link, if a message may have caused it."""
        cause = self._target.cause if not self._source.over else None
        about = isinstance(cause, LinkDetached | SessionEnded) and str(cause.condition) in ABOUT_A_MESSAGE | PERHAPS
        return cause if about else None  # type: ignore[return-value]

    def set(self) -> None:
        if self._stopped or self._fault() is None:
            super().set()
            return
        self._target.report_end()
        self._wake()
        self._changed()

    def look(self, transit: Transit) -> None:
        super().look(transit)
        self._changed()

    async def _pass_on(self) -> None:
        if self._fault() is not None:
            await self._sift()
            return
        try:
            await super()._pass_on()
        except (AmqpError, anyio.ClosedResourceError):
            if self._fault() is None:
                raise

    async def _sift(self) -> None:
        """Send all messages without an outcome again, one by one."""
        flight, cause = self.flight, self._fault()
        suspects = [each for each in flight.held.values() if each.phase is Phase.OUT and not each.aside]
        doubtful: list[tuple[Transit, EndpointError]] = []
        for transit in suspects:
            if transit.stale:
                flight.drop(transit)
                continue
            over = await self._alone(transit)
            if over is None:
                continue
            cause = over
            flight.settled(transit, Phase.WAITING)
            if str(over.condition) in PERHAPS and not flight.moved:
                doubtful.append((transit, over))
            else:
                self._refuse(transit, over)
        if cause is not None and (not suspects or (doubtful and not flight.moved)):
            self.fail(cause)
            await anyio.sleep_forever()  # until the group is cancelled
        for transit, over in doubtful:
            self._refuse(transit, over)
        await self._attach()

    async def _attach(self) -> None:
        """Attach a link to the target unless there is one."""
        if self._target.over:
            self._target = await self._anew()
            self._target.watch(self)

    async def _alone(self, transit: Transit) -> EndpointError | None:
        """Send a message again, alone; return the error that ended the link, or None."""
        flight = self.flight
        await self._attach()
        again = transit.sent is not None and transit.sent.handed_over
        flight.settled(transit, Phase.WAITING)
        await self._target.room(len(transit.source.payload))
        self._hand_over(transit, self._target, payload_of(transit), None)
        await self._until(lambda: transit.phase is not Phase.OUT or self._is_done(transit) or self._target.over)
        if self._is_done(transit):
            flight.duplicates += again and not transit.aside
            return None
        return self._fault() if transit.phase is Phase.OUT else None

    def _refuse(self, transit: Transit, over: EndpointError) -> None:
        self._refused(transit, Rejected(Error(str(over.condition), over.description)))

    def _is_done(self, transit: Transit) -> bool:
        return transit.source not in self.flight.held
