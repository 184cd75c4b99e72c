"""The attached links of a bridge, and the mover between them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..client.internals import core_of
from ..messaging import Source, Target
from ._guarantee import (
    ExactlyOnce,
    check_copying,
    check_kept,
    check_rejecting,
    check_streaming,
    check_unsettled,
    guarantee_of,
)
from ._links import ConsumingSourceLink, ResumableLinkCore, SourceLink, TargetLink, make_source_link, make_target_link
from ._mover import Mover
from ._poison import PoisonIsolatingMover
from ._streams import StreamMover, make_streaming_source_link
from ._transactional import TransactionalMover

if TYPE_CHECKING:
    from ..client import Connection
    from ..engine import ReceiverSettleMode
    from ._settings import Settings

Guarantee = ExactlyOnce | Literal["at-least-once"]


@dataclass(frozen=True, slots=True)
class AttachedLinks:
    """The links and mover between two connections.

    Attributes:
        guarantee: the guarantee of delivery.
        mover: moves the messages.
        links: the source's link first; there may be another for refused messages, and more that were added later.
    """

    guarantee: Guarantee
    mover: Mover
    links: list[SourceLink | TargetLink]


async def attach_links(
    settings: Settings,
    source: tuple[Connection, Source],
    target: tuple[Connection, Target | None],
    name: str | None,
    stack: AsyncExitStack,
) -> AttachedLinks:
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
    guarantee: Guarantee = guarantee_of(source[0], target[0]) if settings.exactly_once else "at-least-once"
    if settings.copy:
        check_copying(source[0])
    if settings.on_refused == "reject":
        check_rejecting(source[0])
    mode: ReceiverSettleMode = "second" if guarantee == "resume" else "first"
    name = name if guarantee == "resume" else None
    if settings.stream:
        check_streaming(source[0], target[0])
        source_link: SourceLink = make_streaming_source_link(*source)
    else:
        source_link = make_source_link(*source, name=name, mode=mode, copy=settings.copy)
    target_link = make_target_link(*target, name=name, mode=mode)
    links: list[SourceLink | TargetLink] = [source_link, target_link]
    refused_link = make_target_link(target[0], Target(settings.refused_to)) if settings.refused_to is not None else None
    if refused_link is not None:
        links.append(refused_link)

    async def attach_again() -> TargetLink:
        """Attach another link to the target."""
        link = make_target_link(*target)
        links.append(link)
        return await stack.enter_async_context(link)

    if not settings.stream and (settings.on_refused != "stop" or refused_link is not None):
        mover: Mover = PoisonIsolatingMover(settings, source_link, target_link, refused_link, attach_again)
    else:
        kind = StreamMover if settings.stream else TransactionalMover if guarantee == "transactions" else Mover
        mover = kind(settings, source_link, target_link, refused_link)
    if isinstance(source_link, ConsumingSourceLink):
        mover.recover(source_link, target_link)
    # The source first, so that the messages of an earlier process are here before the target reports their outcomes.
    for link in list(links):
        core = core_of(link)
        if isinstance(core, ResumableLinkCore):
            core.transacted = guarantee == "transactions"
        await stack.enter_async_context(link)
        if guarantee == "resume":
            check_kept(link)
        elif link is source_link:
            check_unsettled(source_link)
        if mover.failure is not None:
            raise mover.failure
    return AttachedLinks(guarantee, mover, links)
