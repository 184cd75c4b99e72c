"""AMQP/Fast 0.7 (AMQ RFC 006, 2005), as a sans-IO engine.

`_values`, `_record`, `_commands`, `_frames` the codec · `_mapping`, `_headers` messages of AMQP 1.0 and back ·
`_content`, `_incoming` fragments · `_codes`, `_services`, `_tables` words of the one in those of the other ·
`_engine` both ends · `_client*` and `_server*` one each
"""

from ...engine import Dialect
from ._client import client
from ._engine import CAPABILITIES
from ._frames import INITIATION
from ._requests import Index as Index
from ._requests import List as List
from ._requests import Show as Show
from ._server import server
from ._trace import CommandTracer

DIALECT = Dialect(
    name="fast",
    headers=(INITIATION,),
    capabilities=CAPABILITIES,
    client=client,
    server=server,
    tracer=CommandTracer,
    greeting=((2, b"\x0a"),),
    native="amqp10.amqpfast:Native",
    later=True,
)

__all__ = ("DIALECT", "Index", "List", "Show")
