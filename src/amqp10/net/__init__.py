"""The only sockets: URLs, TLS settings, byte streams, and the one loop that drives an engine over a stream."""

from ._fork import keep_from_children as keep_from_children
from ._pump import Pump as Pump
from ._stream import StreamFacts as StreamFacts
from ._stream import TLSSettings as TLSSettings
from ._stream import accept as accept
from ._stream import connect as connect
from ._stream import listen_tcp as listen_tcp
from ._stream import listen_unix as listen_unix
from ._tls import TLS as TLS
from ._trace import traced as traced
from ._url import Endpoint as Endpoint
from ._url import parse_url as parse_url

__all__ = (
    "TLS",
    "Endpoint",
    "Pump",
    "StreamFacts",
    "TLSSettings",
    "accept",
    "connect",
    "keep_from_children",
    "listen_tcp",
    "listen_unix",
    "parse_url",
    "traced",
)
