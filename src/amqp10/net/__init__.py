"""The only sockets: URLs, TLS settings, byte streams, and the one loop that drives an engine over a stream."""

from ._accept import accept as accept
from ._accept import accept_websocket as accept_websocket
from ._accept import listen_tcp as listen_tcp
from ._accept import listen_unix as listen_unix
from ._ask import ask as ask
from ._ask import automatic as automatic
from ._ask import choose_dialect as choose_dialect
from ._connect import connect as connect
from ._connect import require_wsproto as require_wsproto
from ._fork import keep_from_children as keep_from_children
from ._pump import Pump as Pump
from ._retry import backoff as backoff
from ._route import Proxy as Proxy
from ._route import Route as Route
from ._route import WebSocket as WebSocket
from ._stream import StreamFacts as StreamFacts
from ._stream import TLSSettings as TLSSettings
from ._tls import TLS as TLS
from ._tls import CertificateName as CertificateName
from ._tls import end_point_of as end_point_of
from ._tls import shown_certificate as shown_certificate
from ._trace import traced as traced
from ._url import PORTS as PORTS
from ._url import Endpoint as Endpoint
from ._url import check_host as check_host
from ._url import is_loopback as is_loopback
from ._url import parse_url as parse_url
from ._url import same_host as same_host
from ._url import visible as visible

__all__ = (
    "PORTS",
    "TLS",
    "CertificateName",
    "Endpoint",
    "Proxy",
    "Pump",
    "Route",
    "StreamFacts",
    "TLSSettings",
    "WebSocket",
    "accept",
    "accept_websocket",
    "ask",
    "automatic",
    "backoff",
    "check_host",
    "choose_dialect",
    "connect",
    "end_point_of",
    "is_loopback",
    "keep_from_children",
    "listen_tcp",
    "listen_unix",
    "parse_url",
    "require_wsproto",
    "same_host",
    "shown_certificate",
    "traced",
    "visible",
)
