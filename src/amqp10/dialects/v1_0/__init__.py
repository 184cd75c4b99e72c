"""AMQP 1.0: Parts 2, 4 and 5 of the specification, as a sans-IO engine. A directory of it by section:

`_performatives` §2.7, §5.3.3 · `_frames` §2.3 · `_states` §2.4.6, §2.5.5, §2.6 · `_window` §2.5.6 · `_credit` §2.6.7 ·
`_connection` §2.4 · `_session` §2.5 · `_link`, `_sender`, `_receiver` §2.6 · `_sasl_layer` §5.3 · `_engine` the
facade · `_trace` frames as lines
"""

from ...engine import Dialect
from ._engine import CAPABILITIES, client, server
from ._frames import AMQP_HEADER, SASL_HEADER
from ._trace import FrameTracer

DIALECT = Dialect(
    name="1.0",
    headers=(SASL_HEADER, AMQP_HEADER),
    capabilities=CAPABILITIES,
    client=client,
    server=server,
    tracer=FrameTracer,
)

__all__ = ("DIALECT",)
