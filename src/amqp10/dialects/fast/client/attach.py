"""Which kind of link the client attaches, by what its terms ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....messaging import Coordinator
from ..message.destinations import TOPIC, opening
from .browser import ClientBrowser
from .receiver import ClientReceiver
from .sender import ClientSender
from .transactions import ClientCoordinator

if TYPE_CHECKING:
    from ....engine import IncomingDelivery, LinkTerms, OutgoingDelivery
    from .parents import ClientLinkSession, ClientSessionEngine


def sender(
    session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[OutgoingDelivery] | None
) -> ClientSender | ClientCoordinator:
    """Attach a link for sending.

    Raises:
        LocalProtocolError, Unsupported: AMQP/Fast cannot express the terms, or the connection has no free number.
    """
    if isinstance(terms.target, Coordinator):
        return ClientCoordinator(session, terms)
    _check_numbers(session.engine)
    command = opening(terms, producer=True)
    link = ClientSender(session, terms, resuming)
    link.begin(command)
    return link


def receiver(
    session: ClientLinkSession, terms: LinkTerms, resuming: Iterable[IncomingDelivery] | None
) -> ClientReceiver:
    """Attach a link for receiving.

    Raises:
        LocalProtocolError, Unsupported: AMQP/Fast cannot express the terms, or the connection has no free number.
    """
    _check_numbers(session.engine)
    command = opening(terms, producer=False)
    source = terms.source
    if source is None:
        ending = ClientReceiver(session, terms, None)
        ending.begin_ending(command)
        return ending
    copies = source.distribution_mode == "copy" and command.service_type != TOPIC
    link = (ClientBrowser if copies else ClientReceiver)(session, terms, resuming)
    link.begin(command)
    return link


def _check_numbers(engine: ClientSessionEngine) -> None:
    """Raise `LocalProtocolError` if no channel or handle is free, before the link begins."""
    engine.free_channel()
    engine.free_handle()
