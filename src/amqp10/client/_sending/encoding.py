"""A message that is given as its body alone."""

from __future__ import annotations

from ...errors import EncodeError
from ...messaging import Message


def encoded_body(body: object) -> bytes:
    """Return the encoded message that has just this body.

    Raises:
        EncodeError: the body, or a value in it, has no AMQP type.
    """
    try:
        return Message(body).encode()
    except EncodeError as error:
        if isinstance(body, list | tuple) and any(isinstance(each, Message) for each in body):
            raise EncodeError(f"{error}: use send_many for several messages") from None
        raise
