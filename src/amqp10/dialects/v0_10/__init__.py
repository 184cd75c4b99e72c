"""AMQP 0-10: sessions that count their commands, and complete them. A directory of it, by the specification's parts:

`_values` §3 what says its type · `_declare` §3.7 what is declared · `_controls`, `_commands`, `_topology`, `_content`
§9, §10 the declarations · `_frames` §3.2 · `_ledger`, `_session` §7 · `_client_session` with `_publisher`,
`_subscriber`, `_transactions`, `_requests`, and `_aftermath` of what they leave · `_server_session` with `_intake`,
`_outlet`, `_server_requests` · `_headers`, `_write_message`, `_read_message` messages of AMQP 1.0 and back · `_login`,
`_engine` the connection · `_capabilities` · `_trace` frames as lines
"""

from ...engine import Dialect
from ._capabilities import CAPABILITIES
from ._declare import Command as Command
from ._engine import client, server
from ._frames import PROTOCOL_HEADER
from ._requests import Invoke as Invoke
from ._topology import DtxCommit as DtxCommit
from ._topology import DtxEnd as DtxEnd
from ._topology import DtxForget as DtxForget
from ._topology import DtxGetTimeout as DtxGetTimeout
from ._topology import DtxPrepare as DtxPrepare
from ._topology import DtxRecover as DtxRecover
from ._topology import DtxRollback as DtxRollback
from ._topology import DtxSelect as DtxSelect
from ._topology import DtxSetTimeout as DtxSetTimeout
from ._topology import DtxStart as DtxStart
from ._topology import Xid as Xid
from ._trace import FrameTracer

DIALECT = Dialect(
    name="0-10",
    headers=(PROTOCOL_HEADER,),
    capabilities=CAPABILITIES,
    client=client,
    server=server,
    tracer=FrameTracer,
    native="amqp10.amqp010:Native",
)

__all__ = (
    "DIALECT",
    "Command",
    "DtxCommit",
    "DtxEnd",
    "DtxForget",
    "DtxGetTimeout",
    "DtxPrepare",
    "DtxRecover",
    "DtxRollback",
    "DtxSelect",
    "DtxSetTimeout",
    "DtxStart",
    "Invoke",
    "Xid",
)
