"""The attached links of a bridge, and the mover between them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..client.internals import core_of
from ..messaging import Source, Target
from ._batches import BatchMover
from ._ends import Ending, ExactCore, Intake, Outlet, intake, outlet
from ._guarantee import Way, check_copying, check_kept, check_rejecting, check_streaming, check_unsettled, way_of
from ._mover import Mover
from ._sifting import SiftingMover
from ._streams import StreamMover, stream_intake

if TYPE_CHECKING:
    from ..client import Connection
    from ..engine import ReceiverSettleMode
    from ._settings import Settings

Guarantee = Way | Literal["at-least-once"]


@dataclass(frozen=True, slots=True)
class Joined:
    """The links and mover between two connections.

    Attributes:
        guarantee: the guarantee of delivery.
        mover: moves the messages.
        links: the source's link first; there may be another for refused messages, and more that were added later.
    """

    guarantee: Guarantee
    mover: Mover
    links: list[Ending | Outlet]


async def join(
    settings: Settings,
    source: tuple[Connection, Source],
    target: tuple[Connection, Target | None],
    name: str | None,
    stack: AsyncExitStack,
) -> Joined:
    """Attach both ends.

    Args:
        name: the name of links that are resumed.
        stack: leaves the links.

    Raises:
        Unsupported: an end does not support a setting.
        LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: an end refused its address, or is gone.
        DeliveryUncertain: exactly once, and an end has forgotten the messages that an earlier process had in flight.

    Cancelling: the stack leaves the attached links.
    """
    guarantee: Guarantee = way_of(source[0], target[0]) if settings.exactly_once else "at-least-once"
    if settings.copy:
        check_copying(source[0])
    if settings.on_refused == "reject":
        check_rejecting(source[0])
    mode: ReceiverSettleMode = "second" if guarantee == "resume" else "first"
    name = name if guarantee == "resume" else None
    if settings.stream:
        check_streaming(source[0], target[0])
        taking: Ending = stream_intake(*source)
    else:
        taking = intake(*source, name=name, mode=mode, copy=settings.copy)
    giving = outlet(*target, name=name, mode=mode)
    links: list[Ending | Outlet] = [taking, giving]
    aside = outlet(target[0], Target(settings.refused_to)) if settings.refused_to is not None else None
    if aside is not None:
        links.append(aside)

    async def anew() -> Outlet:
        """Attach another link to the target."""
        link = outlet(*target)
        links.append(link)
        return await stack.enter_async_context(link)

    if not settings.stream and (settings.on_refused != "stop" or aside is not None):
        mover: Mover = SiftingMover(settings, taking, giving, aside, anew)
    else:
        kind = StreamMover if settings.stream else BatchMover if guarantee == "transactions" else Mover
        mover = kind(settings, taking, giving, aside)
    if isinstance(taking, Intake):
        mover.recover(taking, giving)
    # The source first, so that the messages of an earlier process are here before the target reports their outcomes.
    for link in list(links):
        core = core_of(link)
        if isinstance(core, ExactCore):
            core.transacted = guarantee == "transactions"
        await stack.enter_async_context(link)
        if guarantee == "resume":
            check_kept(link)
        elif link is taking:
            check_unsettled(taking)
        if mover.failure is not None:
            raise mover.failure
    return Joined(guarantee, mover, links)
