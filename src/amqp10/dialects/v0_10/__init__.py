"""AMQP 0-10: sessions that count their commands, and complete them.

- `engine`, `login` and `states` the connection (§9.1) · `session` and `command_ids` (§7, §9.2)
- `link` what all links share
- `wire/` frames (§3.2), typed values (§3), controls and commands (§9, §10) · `message/` messages of AMQP 1.0 and back
- `client/` and `server/` the two ends of a session
"""

from ...engine import Dialect
from .capabilities import CAPABILITIES
from .client.connection import ClientEngine
from .client.requests import Invoke as Invoke
from .server.connection import ServerEngine
from .wire.commands import DtxCommit as DtxCommit
from .wire.commands import DtxEnd as DtxEnd
from .wire.commands import DtxForget as DtxForget
from .wire.commands import DtxGetTimeout as DtxGetTimeout
from .wire.commands import DtxPrepare as DtxPrepare
from .wire.commands import DtxRecover as DtxRecover
from .wire.commands import DtxRollback as DtxRollback
from .wire.commands import DtxSelect as DtxSelect
from .wire.commands import DtxSetTimeout as DtxSetTimeout
from .wire.commands import DtxStart as DtxStart
from .wire.commands import Xid as Xid
from .wire.frames import PROTOCOL_HEADER
from .wire.struct import Command as Command
from .wire.trace import FrameTracer

DIALECT = Dialect(
    name="0-10",
    headers=(PROTOCOL_HEADER,),
    capabilities=CAPABILITIES,
    client=ClientEngine,
    server=ServerEngine,
    tracer=FrameTracer,
    analysis="amqp10.dialects.v0_10.wire.analysis:CommandAnalysis",
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
