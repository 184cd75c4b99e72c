"""Requests to RabbitMQ's management node: they go out on one link of a pair, and replies come in on the other.

The pair is two links of one session, with one name and opposite directions (AMQP Request-Response Messaging with Link
Pairing 1.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...engine import MANAGEMENT, LinkTerms
from ...messaging import Source, Target
from ...types import Symbol
from .._sending.core import SenderCore
from .._sending.sender import Sender
from .requester import ReplyCore, ReplyReceiver, Requester

if TYPE_CHECKING:
    from .._core.connection import SessionCore

ME: Final = "$me"
"""The reply-to for the other link of the pair."""
PAIRED: Final = {Symbol("paired"): True}


def paired_requester(session: SessionCore, name: str, credit: int) -> Requester:
    """Make a requester over a pair of links, to be attached by `async with`.

    Args:
        name: the name of both links.
        credit: how many replies the peer may send ahead.
    """
    connection = session.connection
    requests = LinkTerms(name, source=Source(ME), target=Target(MANAGEMENT), settle_mode="settled", properties=PAIRED)
    replies = LinkTerms(name, source=Source(MANAGEMENT), target=Target(ME), settle_mode="settled", properties=PAIRED)
    sender = connection.link_type(Sender)(SenderCore(connection, session, requests))
    return Requester(sender, ReplyReceiver(ReplyCore(connection, session, replies, credit)), ME)
