"""Large messages that go on where a lost connection cut them off: prepare, ready, and the rest.

    sender:   handle-prepare(SHA-1 of the body) + head     receiver: handle-ready(octets of the body that are here)
    sender:   handle-send(recovery=1) + the rest of the body

Two messages are the same if their whole heads are. The server keeps the received part of a message for a while, for
the next handle of the same client with the same restart name. The handle's options have this name ("restart") and the
seconds for which parts are kept ("timeout").

The restart name is that of the link. No other client has it, and the link has it again after a loss.

A server does the same with a large message that it delivered before, with handle-notify in place of handle-send. There
the client's receiver keeps the received part, for its next handle. It recognizes the message by its head without the
number of attempts and the expiry, since the server may have changed these (`known_by`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...engine import IncomingDelivery, IncomingStream
from ...errors import DecodeError
from .._kit.message.mapping import DELIVERY_COUNT
from .message.header_names import TTL
from .wire.commands import MessageHead
from .wire.fragments import Assembly

if TYPE_CHECKING:
    from ...engine import ReceiverLink
    from .wire.values import Table

TIMEOUT: Final = 60
"""Seconds for which a server is asked to keep the received part of a message."""


def restart_options(name: str, taken: set[str]) -> tuple[str, Table]:
    """Return a restart name that is not in `taken`, and the handle options that ask to keep parts under that name."""
    unique, number = name, 1
    while unique in taken:
        unique, number = f"{name}#{number}", number + 1
    return unique, {"restart": unique, "timeout": TIMEOUT}


def restart_terms(options: Table) -> tuple[str, int] | None:
    """Return the restart name and the seconds in a handle's options; None if the options do not ask for a restart."""
    name, timeout = options.get("restart"), options.get("timeout")
    if isinstance(name, str) and name and isinstance(timeout, int) and timeout > 0:
        return name, timeout
    return None


def known_by(head: MessageHead) -> bytes:
    """Return a key by which a receiver recognizes a message that is delivered again."""
    headers = {name: value for name, value in head.headers.items() if name not in (DELIVERY_COUNT, TTL)}
    return replace(head, expiration=0, headers=headers).write()


def kept_part(link: ReceiverLink, assembly: Assembly) -> IncomingDelivery:
    """Return the received part of a message as a delivery, which the owner keeps."""
    head = assembly.head.write()
    delivery = link.delivery_type(link, 0, b"part" + hashlib.sha256(head).digest()[:28], b"", False)
    delivery.stream = IncomingStream()
    delivery.stream.parts.extend((head, *assembly.parts))
    delivery.stream.size = assembly.size
    return delivery


def parts_of(kept: Iterable[IncomingDelivery]) -> dict[bytes, Assembly]:
    """Return the message parts in `kept`, by the encoded heads of the messages."""
    found: dict[bytes, Assembly] = {}
    for delivery in kept:
        stream = getattr(delivery, "stream", None)
        if stream is None or not stream.parts:
            continue
        raw, *parts = stream.parts
        try:
            head, at = MessageHead.read(raw, 0, len(raw))
        except DecodeError:
            continue
        if at == len(raw) and sum(map(len, parts)) <= head.body_size:
            found[raw] = assembly = Assembly(head)
            for part in parts:
                assembly.add(part)
    return found
