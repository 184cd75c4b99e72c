"""AMQP 0-9-1, 0-9 final and the draft before it: tables of methods, framings, and one engine for all three.

`_fields`, `_method`, `_methods`, `_properties`, `_table` values and octets · `_frames` frames · `_variant` which of the
three · `_mapping`, `_outgoing`, `_incoming` messages · `_engine` the facade · `_connection` channel 0 · `_channel` the
others · `_client`, `_session`, `_link`, `_sender`, `_receiver`, `_acks`, `_requests`, `_transactions` the client's
side, `_runs`, `_sound`, `_held`, `_posted` what makes it quick · `_server` and the others of that name a server's
"""

from __future__ import annotations

from functools import partial

from ...engine import Dialect
from ._asks import GetMessage as GetMessage
from ._asks import Got as Got
from ._asks import LimitUnsettled as LimitUnsettled
from ._asks import Recover as Recover
from ._asks import UpdateSecret as UpdateSecret
from ._client import CAPABILITIES, client
from ._server import server
from ._trace import FrameTracer
from ._variant import V0_9, V0_9_1, V0_9_DRAFT, Variant

START = b"\x00\x0a\x00\x0a"  # connection.start: where it begins tells the draft from 0-8, which has the same header


def _dialect(variant: Variant) -> Dialect:
    # The draft's consumers have no arguments.
    capabilities = CAPABILITIES - {"stream-filters"} if variant.structured else CAPABILITIES
    return Dialect(
        name=variant.name,
        headers=(variant.header,),
        capabilities=capabilities,
        client=partial(client, variant, capabilities),
        server=partial(server, variant, capabilities),
        tracer=partial(FrameTracer, variant),
        greeting=((0, b"\x01"), (variant.framing.head.size, START)),
        native="amqp10.amqp091:Native",
    )


DIALECT = _dialect(V0_9_1)
FINAL = _dialect(V0_9)
DRAFT = _dialect(V0_9_DRAFT)

__all__ = ("DIALECT", "DRAFT", "FINAL", "GetMessage", "Got", "LimitUnsettled", "Recover", "UpdateSecret")
