"""AMQP 0-9-1, 0-9 final and the draft before it: tables of methods, framings, and one engine for all three.

- `engine` the facade · `connection` channel 0 · `channel` the others · `variant` which of the three · `draft` what only
  the draft has
- `wire/` frames, methods and tables as octets · `message/` messages of AMQP 1.0 and back
- `client/` and `server/` the two ends
"""

from __future__ import annotations

from functools import partial

from ...engine import Dialect
from .client.connection import CAPABILITIES, client_engine
from .requests import GetMessage as GetMessage
from .requests import Got as Got
from .requests import LimitUnsettled as LimitUnsettled
from .requests import Recover as Recover
from .requests import UpdateSecret as UpdateSecret
from .server.connection import server_engine
from .wire.trace import FrameTracer
from .wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant

START = b"\x00\x0a\x00\x0a"  # connection.start: where it begins tells the draft from 0-8, which has the same header

LACKS = {
    "0-9-1": frozenset[str](),
    "0-9": frozenset({"update-secret"}),
    "0-9-draft": frozenset({"update-secret", "stream-filters"}),  # its consumers have no arguments
}
"""What each variant lacks of `CAPABILITIES`."""


def _dialect(variant: Variant) -> Dialect:
    capabilities = CAPABILITIES - LACKS[variant.name]
    return Dialect(
        name=variant.name,
        headers=(variant.header,),
        capabilities=capabilities,
        client=partial(client_engine, variant, capabilities),
        server=partial(server_engine, variant, capabilities),
        tracer=partial(FrameTracer, variant),
        analysis="amqp10.dialects.v0_9.wire.analysis:MethodAnalysis",
        greeting=((0, b"\x01"), (variant.framing.head.size, START)),
        native="amqp10.amqp091:Native",
        automatic=variant is not V0_9_DRAFT,
    )


DIALECT = _dialect(V0_9_1)
FINAL = _dialect(V0_9)
DRAFT = _dialect(V0_9_DRAFT)

__all__ = ("DIALECT", "DRAFT", "FINAL", "GetMessage", "Got", "LimitUnsettled", "Recover", "UpdateSecret")
