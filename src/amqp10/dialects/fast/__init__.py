"""AMQP/Fast 0.7 (AMQ RFC 006, 2005), as a sans-IO engine.

- `engine` and `login` the connection · `link` sessions and links as far as both ends share them · `restart` large
  messages that go on after a loss
- `wire/` commands and fragments as octets · `message/` messages of AMQP 1.0 and termini, and back
- `client/` and `server/` the two ends
"""

from ...engine import Dialect
from .client.connection import client_engine
from .engine import CAPABILITIES
from .requests import Index as Index
from .requests import List as List
from .requests import Show as Show
from .server.connection import server_engine
from .wire.frames import INITIATION
from .wire.trace import CommandTracer

DIALECT = Dialect(
    name="fast",
    headers=(INITIATION,),
    capabilities=CAPABILITIES,
    client=client_engine,
    server=server_engine,
    tracer=CommandTracer,
    analysis="amqp10.dialects.fast.wire.analysis:CommandAnalysis",
    greeting=((2, b"\x0a"),),
    native="amqp10.amqpfast:Native",
    later=True,
)

__all__ = ("DIALECT", "Index", "List", "Show")
