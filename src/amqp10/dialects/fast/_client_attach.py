"""Which kind of link the client attaches, by what its terms ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...messaging import Coordinator
from ._client_browser import ClientBrowser
from ._client_receiver import ClientReceiver
from ._client_sender import ClientSender
from ._client_transactions import ClientCoordinator
from ._services import TOPIC, opening

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, LinkTerms, OutgoingDelivery
    from ._client import ClientEngine
    from ._client_session import ClientSession


def sender(
    session: ClientSession, terms: LinkTerms, resuming: Iterable[OutgoingDelivery] | None
) -> ClientSender | ClientCoordinator:
    """A link for sending.

    Raises:
        LocalProtocolError, Unsupported: it cannot be said.
    """
    if isinstance(terms.target, Coordinator):
        return ClientCoordinator(session, terms)
    _check_room(session.engine)
    command = opening(terms, producer=True)
    link = ClientSender(session, terms, resuming)
    link.begin(command)
    return link


def receiver(session: ClientSession, terms: LinkTerms, resuming: Iterable[IncomingDelivery] | None) -> ClientReceiver:
    """A link for receiving.

    Raises:
        LocalProtocolError, Unsupported: it cannot be said.
    """
    _check_room(session.engine)
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


def _check_room(engine: ClientEngine) -> None:
    """Raise before anything is begun of a link for which there is no channel or handle."""
    engine.free_channel()
    engine.free_handle()
