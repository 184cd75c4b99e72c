"""The frames of AMQP 1.0 as lines to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ....engine import MANAGEMENT, takes_tokens
from ....errors import DecodeError
from ....messaging import Message
from ....messaging.sections import PROPERTIES, descriptor_at, section_at
from ....types import Composite
from ..._kit.tracer import BothDirections, Direction, show_body, show_call
from .frames import AMQP_HEADER, SASL_HEADER, TLS_HEADER, FrameReader
from .performatives import Attach, SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse, Transfer

HEADERS: Final = {AMQP_HEADER: "AMQP 1.0", SASL_HEADER: "SASL", TLS_HEADER: "TLS"}
SASL: Final = frozenset({SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome})
_SECRET: Final = {"initial_response", "response", "challenge", "additional_data"}

HEADER_SIZE: Final = 8


def describe(performative: Composite) -> str:
    """Return the performative with the fields that have a value, secrets left out."""
    values = ((each.name, getattr(performative, each.name), each.absent) for each in performative.fields)
    fields = [(name, value) for name, value, absent in values if value != absent]
    return show_call(type(performative).__name__, fields, _SECRET if type(performative) in SASL else ())


class FrameTracer(BothDirections):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of what transfers carry, too; never that of messages to and from `$cbs`, or of those
            that may be: by the anonymous terminus, where the address cannot be read.
    """

    def __init__(self, bodies: bool = False) -> None:
        super().__init__(FrameDirection(self), FrameDirection(self))
        self._bodies = bodies
        self.secret: set[Link] = set()  # links whose messages carry tokens
        self.anonymous: set[Link] = set()  # links whose messages say where they go
        self._unfinished: dict[Link, bool] = {}  # of an anonymous link, whether its delivery carries a token

    def payload(self, direction: FrameDirection, channel: int, performative: Composite, payload: bytes) -> str:
        """Return how what follows a performative is shown."""
        size = f" + {len(payload)} bytes" if payload else ""
        if not self._bodies or not isinstance(performative, Transfer):
            return size
        link = direction, channel, performative.handle
        secret = link in self.secret or (link in self.anonymous and self._may_be_token(link, performative, payload))
        if secret or not payload:
            return f"{size} <secret>" if payload else ""
        return size + show_body(payload)

    def _may_be_token(self, link: Link, transfer: Transfer, payload: bytes) -> bool:
        """Return whether the delivery may go to `$cbs`: the first transfer tells, if it has the address."""
        secret = self._unfinished.pop(link, None)
        if secret is None:
            secret = bool(transfer.resume) or _leads_to_tokens(payload)
        if transfer.more and not transfer.aborted:
            self._unfinished[link] = secret
        return secret


class FrameDirection(Direction):
    """One way, cut into headers and frames."""

    def __init__(self, tracer: FrameTracer) -> None:
        self._tracer = tracer
        self._rest = b""

    def read(self, data: bytes) -> Iterator[str]:
        self._rest += data
        while (item := self._cut()) is not None:
            yield self._line(item)

    def forget(self) -> None:
        self._rest = b""

    def _cut(self) -> bytes | None:
        """Return the next header or frame. No frame is as large as a header's first bytes would make it."""
        rest = self._rest
        size = HEADER_SIZE if rest.startswith(b"AMQP") else max(int.from_bytes(rest[:4], "big"), HEADER_SIZE)
        if len(rest) < size:
            return None
        self._rest = rest[size:]
        return rest[:size]

    def _line(self, item: bytes) -> str:
        if item.startswith(b"AMQP"):
            return f"header {HEADERS.get(item, repr(item))}"
        reader = FrameReader(len(item))
        reader.feed(item)
        frame = reader.next()
        assert frame is not None
        _, channel, performative, payload = frame
        if performative is None:
            return f"[{channel}] empty"
        if isinstance(performative, Attach):
            link = (self, channel, performative.handle)
            secret, anonymous = self._tracer.secret, self._tracer.anonymous
            (secret.add if _carries_tokens(performative) else secret.discard)(link)
            address = getattr(performative.target, "address", None)
            (anonymous.add if address in (None, "", MANAGEMENT) else anonymous.discard)(link)
        return (
            f"[{channel}] {describe(performative)}{self._tracer.payload(self, channel, performative, bytes(payload))}"
        )


Link = tuple[FrameDirection, int, int]


def _carries_tokens(attach: Attach) -> bool:
    """Return whether the messages of this link are those of `$cbs`, to it or from it."""
    termini: tuple[Any, ...] = (attach.source, attach.target)
    return any(takes_tokens(getattr(terminus, "address", None)) for terminus in termini)


def _leads_to_tokens(payload: bytes) -> bool:
    """Return whether a message that begins so may be for `$cbs`: its address says so, or cannot be read."""
    at = 0
    try:
        while at < len(payload):
            code, _ = descriptor_at(payload, at)
            if code > PROPERTIES:
                return at == 0  # it says no address, or in a wrong order, which RabbitMQ takes
            _, _, end = section_at(payload, at)
            if code == PROPERTIES:
                return takes_tokens(Message.decode(payload[:end]).to)
            at = end
    except (DecodeError, IndexError):
        pass
    return True
