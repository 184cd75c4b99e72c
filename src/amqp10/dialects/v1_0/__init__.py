"""AMQP 1.0: Parts 2, 4 and 5 of the specification, as a sans-IO engine.

engine                    the facade, sasl_layer §5.3 before it, states §2.4.6, §2.5.5, §2.6
connection session link   §2.4, §2.5, §2.6; parents: what each knows of those above it
window credit             of a session §2.5.6, of a link §2.6.7; partial: deliveries that are on the way
endpoints/                sender and receiver §2.6; parts of a session: dispositions §2.7.6, deliveries without objects
resumption/               the part of a link that resumes after a loss §2.6.13; unsettled_map: the fate of each delivery
wire/                     frames §2.3, performatives §2.7, §5.3.3; `trace` shows them as lines
"""

from ...engine import Dialect
from .engine import CAPABILITIES, client, server
from .wire.frames import AMQP_HEADER, SASL_HEADER
from .wire.trace import FrameTracer

DIALECT = Dialect(
    name="1.0",
    headers=(SASL_HEADER, AMQP_HEADER),
    capabilities=CAPABILITIES,
    client=client,
    server=server,
    tracer=FrameTracer,
    analysis="amqp10.dialects.v1_0.wire.analysis:FrameAnalysis",
    vhost_prefix="vhost:",  # as RabbitMQ's own clients for 1.0 have it
    tls_header=True,
)

__all__ = ("DIALECT",)
