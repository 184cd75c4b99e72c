"""All socket code: URLs, TLS settings, byte streams, and the loop that drives an engine over a stream."""

from ._connecting.backoff import backoff as backoff
from ._connecting.connect import connect as connect
from ._connecting.connect import require_wsproto as require_wsproto
from ._connecting.options import Proxy as Proxy
from ._connecting.options import TransportOptions as TransportOptions
from ._connecting.options import WebSocket as WebSocket
from ._connecting.probe import ask as ask
from ._connecting.probe import automatic as automatic
from ._connecting.probe import choose_dialect as choose_dialect
from ._fork import keep_from_children as keep_from_children
from ._listen import accept as accept
from ._listen import accept_websocket as accept_websocket
from ._listen import close_listener as close_listener
from ._listen import keep_accepting as keep_accepting
from ._listen import listen_tcp as listen_tcp
from ._listen import listen_unix as listen_unix
from ._pump import Pump as Pump
from ._signal import Signal as Signal
from ._signal import signal_type as signal_type
from ._streams.base import StreamFacts as StreamFacts
from ._streams.base import TLSSettings as TLSSettings
from ._streams.base import describe as describe
from ._streams.tls_settings import TLS as TLS
from ._streams.tls_settings import CertificateName as CertificateName
from ._streams.tls_settings import end_point_of as end_point_of
from ._streams.tls_settings import shown_certificate as shown_certificate
from ._streams.traced import traced as traced
from ._threads import accepting as accepting
from ._threads import waiting as waiting
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
    "Signal",
    "StreamFacts",
    "TLSSettings",
    "TransportOptions",
    "WebSocket",
    "accept",
    "accept_websocket",
    "accepting",
    "ask",
    "automatic",
    "backoff",
    "check_host",
    "choose_dialect",
    "close_listener",
    "connect",
    "describe",
    "end_point_of",
    "is_loopback",
    "keep_accepting",
    "keep_from_children",
    "listen_tcp",
    "listen_unix",
    "parse_url",
    "require_wsproto",
    "same_host",
    "shown_certificate",
    "signal_type",
    "traced",
    "visible",
    "waiting",
)
