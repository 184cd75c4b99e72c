"""What crosses the wire, as lines to read: one a header or frame. Secrets never get into a line.

A tracer reads the bytes for itself, beside the engine: it costs nothing where nobody traces, and shows what really
crossed, in the order of each direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...engine import Tracer, takes_tokens
from ...errors import AmqpError, DecodeError
from ...messaging import Message
from ...messaging._layout import PROPERTIES, descriptor_at, section_at
from ...types import Composite
from ._frames import AMQP_HEADER, SASL_HEADER, TLS_HEADER, FrameReader
from ._performatives import (
    Attach,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)

HEADERS: Final = {AMQP_HEADER: "AMQP 1.0", SASL_HEADER: "SASL", TLS_HEADER: "TLS"}
SASL: Final = frozenset({SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome})
_SECRET: Final = {"initial_response", "response", "challenge", "additional_data"}

SHOWN_BODY: Final = 256
HEADER_SIZE: Final = 8


def describe(performative: Composite) -> str:
    """The performative with the fields that say something, secrets left out."""
    shown = []
    for each in performative.fields:
        value = getattr(performative, each.name)
        if value == each.absent:
            continue
        secret = each.name in _SECRET and type(performative) in SASL and value is not None
        shown.append(f"{each.name}={'<secret>' if secret else repr(value)}")
    return f"{type(performative).__name__}({', '.join(shown)})"


class FrameTracer(Tracer):
    """Both directions of one connection.

    Args:
        bodies: show the beginning of what transfers carry, too; never that of messages to and from `$cbs`, or of those
            that may be: by the anonymous terminus, where the address cannot be read.
    """

    def __init__(self, bodies: bool = False) -> None:
        self._bodies = bodies
        self._sent = Direction(self)
        self._received = Direction(self)
        self.secret: set[Link] = set()  # links whose messages carry tokens
        self.anonymous: set[Link] = set()  # links whose messages say where they go
        self._unfinished: dict[Link, bool] = {}  # of an anonymous link, whether its delivery carries a token

    def sent(self, data: bytes) -> list[str]:
        return [f"> {line}" for line in self._sent.lines(data)]

    def received(self, data: bytes) -> list[str]:
        return [f"< {line}" for line in self._received.lines(data)]

    def payload(self, direction: Direction, channel: int, performative: Composite, payload: bytes) -> str:
        """How what follows a performative is shown."""
        size = f" + {len(payload)} bytes" if payload else ""
        if not self._bodies or not isinstance(performative, Transfer):
            return size
        link = direction, channel, performative.handle
        secret = link in self.secret or (link in self.anonymous and self._may_be_token(link, performative, payload))
        if secret or not payload:
            return f"{size} <secret>" if payload else ""
        rest = "..." if len(payload) > SHOWN_BODY else ""
        return f"{size} {payload[:SHOWN_BODY]!r}{rest}"

    def _may_be_token(self, link: Link, transfer: Transfer, payload: bytes) -> bool:
        """Whether the delivery goes to `$cbs`, or it cannot be told: the first transfer says, if it has the address."""
        secret = self._unfinished.pop(link, None)
        if secret is None:
            secret = bool(transfer.resume) or _leads_to_tokens(payload)
        if transfer.more and not transfer.aborted:
            self._unfinished[link] = secret
        return secret


class Direction:
    """One way, cut into headers and frames."""

    def __init__(self, tracer: FrameTracer) -> None:
        self._tracer = tracer
        self._rest = b""
        self._lost = False

    def lines(self, data: bytes) -> Iterator[str]:
        """A line for each header and frame that these bytes complete."""
        if self._lost:
            yield f"{len(data)} bytes"
            return
        self._rest += data
        try:
            while (item := self._cut()) is not None:
                yield self._line(item)
        except AmqpError as error:
            self._lost = True
            self._rest = b""
            yield f"no frames from here on: {error}"

    def _cut(self) -> bytes | None:
        """The next header or frame. No frame is as large as a header's first bytes would make it."""
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
            (anonymous.discard if getattr(performative.target, "address", None) else anonymous.add)(link)
        return (
            f"[{channel}] {describe(performative)}{self._tracer.payload(self, channel, performative, bytes(payload))}"
        )


Link = tuple[Direction, int, int]


def _carries_tokens(attach: Attach) -> bool:
    """Whether the messages of this link are those of `$cbs`, to it or from it."""
    termini: tuple[Any, ...] = (attach.source, attach.target)
    return any(takes_tokens(getattr(terminus, "address", None)) for terminus in termini)


def _leads_to_tokens(payload: bytes) -> bool:
    """Whether a message that begins so is for `$cbs`, or its address is not here, or not to be read."""
    at = 0
    try:
        while at < len(payload):
            code, _ = descriptor_at(payload, at)
            if code > PROPERTIES:
                return False  # it says no address
            _, _, end = section_at(payload, at)
            if code == PROPERTIES:
                return takes_tokens(Message.decode(payload[:end]).to)
            at = end
    except (DecodeError, IndexError):
        pass
    return True
