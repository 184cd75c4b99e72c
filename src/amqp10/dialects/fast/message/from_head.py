"""A message that came in, as the encoded message of AMQP 1.0 that the owner gets; whole, or its front to begin with."""

from __future__ import annotations

import time

from ....errors import AmqpError
from ....messaging import data_head
from ..codes import BadContents
from ..wire.commands import MessageHead
from ..wire.fragments import Assembly
from .to_head import SECTIONS, WHOLE, from_fast, message_of


def payload_of(
    assembly: Assembly, *, redelivered: bool = False, mime_type: str = "", encoding: str = "", to: str | None = None
) -> tuple[bytes, int]:
    """Return the encoded message and its message-format; the arguments are those of `from_fast`.

    Raises:
        BadContents: the message does not match its head or its hash.
    """
    body = assembly.body()
    try:
        return from_fast(
            assembly.head,
            body,
            time.time(),
            redelivered=redelivered,
            mime_type=mime_type,
            encoding=encoding,
            to=to,
        )
    except AmqpError as error:
        raise BadContents(f"a message whose properties cannot be interpreted: {error}") from None


def stream_front(head: MessageHead, now: float, *, redelivered: bool = False, to: str | None = None) -> bytes:
    """Return the octets before those of the body, for a message whose body is read while it comes in."""
    if head.mime_type == WHOLE:
        return b""
    front = message_of(head, now, redelivered=redelivered, to=to)
    front.body = None
    sections = front.encode_head()
    return sections if head.mime_type == SECTIONS else sections + data_head(head.body_size)
