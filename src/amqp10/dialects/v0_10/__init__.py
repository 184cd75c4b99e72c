"""AMQP 0-10: sessions that count their commands, and complete them. A directory of it, by the specification's parts:

`_values` §3 what says its type · `_declare` §3.7 what is declared · `_controls`, `_commands`, `_topology`, `_content`
§9, §10 the declarations · `_frames` §3.2 · `_ledger`, `_session` §7 · `_client_session` with `_publisher`,
`_subscriber`, `_transactions`, `_requests` · `_server_session` with `_intake`, `_outlet`, `_server_requests` ·
`_headers`, `_write_message`, `_read_message` messages of AMQP 1.0 and back · `_login`, `_engine` the connection ·
`_trace` frames as lines
"""

from ...engine import Dialect
from ._engine import CAPABILITIES, client, server
from ._frames import PROTOCOL_HEADER
from ._trace import FrameTracer

DIALECT = Dialect(
    name="0-10",
    headers=(PROTOCOL_HEADER,),
    capabilities=CAPABILITIES,
    client=client,
    server=server,
    tracer=FrameTracer,
)

__all__ = ("DIALECT",)
