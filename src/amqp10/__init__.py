"""An AMQP client on asyncio and trio, for AMQP 1.0 and the dialects before it.

    async with Connection("amqp://localhost:5672") as connection:
        async with connection.sender("orders") as sender:
            await sender.send(Message("hello"))

`amqp10` has the client's classes and errors, and these modules stand beside it:

    amqp10.sync      the client without async
    amqp10.rabbitmq  queues, exchanges and bindings of RabbitMQ
    amqp10.azure     Service Bus and Event Hubs
    amqp10.worker    handlers with retries, dead letters and a graceful shutdown
    amqp10.otel      traces and metrics by OpenTelemetry
    amqp10.broker    the embedded broker
    amqp10.testing   the test kit

`help(amqp10.sync)` describes one of them, and `amqp10 --help` the commands. To read the code, begin with the page
"How it is built" of the documentation: it shows the packages and the way of a message.
"""

import importlib
import typing

from ._compiled import COMPILED as COMPILED
from ._version import __version__ as __version__
from .errors import AmqpError as AmqpError
from .errors import AuthenticationFailed as AuthenticationFailed
from .errors import ConnectionClosed as ConnectionClosed
from .errors import ConnectionLost as ConnectionLost
from .errors import DecodeError as DecodeError
from .errors import DeliveryAborted as DeliveryAborted
from .errors import DeliveryUncertain as DeliveryUncertain
from .errors import EncodeError as EncodeError
from .errors import EndpointError as EndpointError
from .errors import FilterNotApplied as FilterNotApplied
from .errors import HandshakeRefused as HandshakeRefused
from .errors import InsecureTransport as InsecureTransport
from .errors import LinkDetached as LinkDetached
from .errors import LocalProtocolError as LocalProtocolError
from .errors import ManagementError as ManagementError
from .errors import MessageModified as MessageModified
from .errors import MessageNotAccepted as MessageNotAccepted
from .errors import MessageRejected as MessageRejected
from .errors import MessageReleased as MessageReleased
from .errors import RedirectRefused as RedirectRefused
from .errors import RemoteProtocolError as RemoteProtocolError
from .errors import RequestRefused as RequestRefused
from .errors import SessionEnded as SessionEnded
from .errors import StaleDelivery as StaleDelivery
from .errors import StoreError as StoreError
from .errors import TransactionError as TransactionError
from .errors import TransactionInDoubt as TransactionInDoubt
from .errors import TransactionRolledBack as TransactionRolledBack
from .errors import Unsupported as Unsupported
from .messaging import Accepted as Accepted
from .messaging import AmqpSequence as AmqpSequence
from .messaging import AmqpValue as AmqpValue
from .messaging import ApplicationPropertiesFilter as ApplicationPropertiesFilter
from .messaging import Data as Data
from .messaging import DeleteOnClose as DeleteOnClose
from .messaging import DeleteOnNoLinks as DeleteOnNoLinks
from .messaging import DeleteOnNoLinksOrMessages as DeleteOnNoLinksOrMessages
from .messaging import DeleteOnNoMessages as DeleteOnNoMessages
from .messaging import DeliveryState as DeliveryState
from .messaging import DirectBinding as DirectBinding
from .messaging import EndsWith as EndsWith
from .messaging import Error as Error
from .messaging import EventPosition as EventPosition
from .messaging import Filter as Filter
from .messaging import HeadersBinding as HeadersBinding
from .messaging import Message as Message
from .messaging import Modified as Modified
from .messaging import NoLocal as NoLocal
from .messaging import Outcome as Outcome
from .messaging import PropertiesFilter as PropertiesFilter
from .messaging import Received as Received
from .messaging import Rejected as Rejected
from .messaging import Released as Released
from .messaging import Selector as Selector
from .messaging import Source as Source
from .messaging import SqlFilter as SqlFilter
from .messaging import StartsWith as StartsWith
from .messaging import StreamFilter as StreamFilter
from .messaging import StreamMatchUnfiltered as StreamMatchUnfiltered
from .messaging import StreamOffset as StreamOffset
from .messaging import Target as Target
from .messaging import TopicBinding as TopicBinding
from .messaging import selector_literal as selector_literal
from .net import TLS as TLS
from .net import Proxy as Proxy
from .net import WebSocket as WebSocket
from .sasl import Anonymous as Anonymous
from .sasl import External as External
from .sasl import Mechanism as Mechanism
from .sasl import OAuthBearer as OAuthBearer
from .sasl import Plain as Plain
from .sasl import ScramSha1 as ScramSha1
from .sasl import ScramSha1Plus as ScramSha1Plus
from .sasl import ScramSha256 as ScramSha256
from .sasl import ScramSha256Plus as ScramSha256Plus
from .sasl import ScramSha512 as ScramSha512
from .sasl import ScramSha512Plus as ScramSha512Plus
from .sasl import XOAuth2 as XOAuth2
from .tokens import SasKey as SasKey
from .tokens import Token as Token
from .tokens import TokenProvider as TokenProvider
from .types import Array as Array
from .types import Byte as Byte
from .types import Char as Char
from .types import Decimal32 as Decimal32
from .types import Decimal64 as Decimal64
from .types import Decimal128 as Decimal128
from .types import Described as Described
from .types import Float as Float
from .types import Int as Int
from .types import Map as Map
from .types import Short as Short
from .types import Symbol as Symbol
from .types import Timestamp as Timestamp
from .types import UByte as UByte
from .types import UInt as UInt
from .types import ULong as ULong
from .types import UShort as UShort

if typing.TYPE_CHECKING:
    from .bridging import Bridge as Bridge
    from .bridging import BridgePlan as BridgePlan
    from .bridging import BridgeReport as BridgeReport
    from .bridging import PlannedEnd as PlannedEnd
    from .bridging import bridge as bridge
    from .client import BodyWriter as BodyWriter
    from .client import Browser as Browser
    from .client import CbsTokens as CbsTokens
    from .client import Connection as Connection
    from .client import ConnectionAttempted as ConnectionAttempted
    from .client import ConnectionBlocked as ConnectionBlocked
    from .client import ConnectionDetails as ConnectionDetails
    from .client import ConnectionEvent as ConnectionEvent
    from .client import ConnectionGivenUp as ConnectionGivenUp
    from .client import ConnectionInterrupted as ConnectionInterrupted
    from .client import ConnectionRestored as ConnectionRestored
    from .client import ConnectionSettings as ConnectionSettings
    from .client import ConnectionUnblocked as ConnectionUnblocked
    from .client import DeclarationRefused as DeclarationRefused
    from .client import DeliveriesStale as DeliveriesStale
    from .client import Delivery as Delivery
    from .client import DeliveryStore as DeliveryStore
    from .client import DialectName as DialectName
    from .client import Health as Health
    from .client import LinkHealth as LinkHealth
    from .client import LinkInterrupted as LinkInterrupted
    from .client import LinkKey as LinkKey
    from .client import LinkLost as LinkLost
    from .client import LinkRestored as LinkRestored
    from .client import LoginTokens as LoginTokens
    from .client import Management as Management
    from .client import MemoryDeliveryStore as MemoryDeliveryStore
    from .client import MessagesRepeated as MessagesRepeated
    from .client import MessagesUncertain as MessagesUncertain
    from .client import Receiver as Receiver
    from .client import ReceiverActivity as ReceiverActivity
    from .client import Reconnect as Reconnect
    from .client import Request as Request
    from .client import Requester as Requester
    from .client import Responder as Responder
    from .client import Sender as Sender
    from .client import SentDelivery as SentDelivery
    from .client import Session as Session
    from .client import SQLiteDeliveryStore as SQLiteDeliveryStore
    from .client import StoredDelivery as StoredDelivery
    from .client import TokenRefused as TokenRefused
    from .client import TokenRenewed as TokenRenewed
    from .client import Transaction as Transaction
    from .client import from_environment as from_environment
    from .client import receive as receive
    from .client import send as send
    from .worker import DeadLetter as DeadLetter
    from .worker import Retries as Retries
    from .worker import Retry as Retry
    from .worker import Worker as Worker

__all__ = (
    "COMPILED",
    "TLS",
    "Accepted",
    "AmqpError",
    "AmqpSequence",
    "AmqpValue",
    "Anonymous",
    "ApplicationPropertiesFilter",
    "Array",
    "AuthenticationFailed",
    "BodyWriter",
    "Bridge",
    "BridgePlan",
    "BridgeReport",
    "Browser",
    "Byte",
    "CbsTokens",
    "Char",
    "Connection",
    "ConnectionAttempted",
    "ConnectionBlocked",
    "ConnectionClosed",
    "ConnectionDetails",
    "ConnectionEvent",
    "ConnectionGivenUp",
    "ConnectionInterrupted",
    "ConnectionLost",
    "ConnectionRestored",
    "ConnectionSettings",
    "ConnectionUnblocked",
    "Data",
    "DeadLetter",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "DeclarationRefused",
    "DecodeError",
    "DeleteOnClose",
    "DeleteOnNoLinks",
    "DeleteOnNoLinksOrMessages",
    "DeleteOnNoMessages",
    "DeliveriesStale",
    "Delivery",
    "DeliveryAborted",
    "DeliveryState",
    "DeliveryStore",
    "DeliveryUncertain",
    "Described",
    "DialectName",
    "DirectBinding",
    "EncodeError",
    "EndpointError",
    "EndsWith",
    "Error",
    "EventPosition",
    "External",
    "Filter",
    "FilterNotApplied",
    "Float",
    "HandshakeRefused",
    "HeadersBinding",
    "Health",
    "InsecureTransport",
    "Int",
    "LinkDetached",
    "LinkHealth",
    "LinkInterrupted",
    "LinkKey",
    "LinkLost",
    "LinkRestored",
    "LocalProtocolError",
    "LoginTokens",
    "Management",
    "ManagementError",
    "Map",
    "Mechanism",
    "MemoryDeliveryStore",
    "Message",
    "MessageModified",
    "MessageNotAccepted",
    "MessageRejected",
    "MessageReleased",
    "MessagesRepeated",
    "MessagesUncertain",
    "Modified",
    "NoLocal",
    "OAuthBearer",
    "Outcome",
    "Plain",
    "PlannedEnd",
    "PropertiesFilter",
    "Proxy",
    "Received",
    "Receiver",
    "ReceiverActivity",
    "Reconnect",
    "RedirectRefused",
    "Rejected",
    "Released",
    "RemoteProtocolError",
    "Request",
    "RequestRefused",
    "Requester",
    "Responder",
    "Retries",
    "Retry",
    "SQLiteDeliveryStore",
    "SasKey",
    "ScramSha1",
    "ScramSha1Plus",
    "ScramSha256",
    "ScramSha256Plus",
    "ScramSha512",
    "ScramSha512Plus",
    "Selector",
    "Sender",
    "SentDelivery",
    "Session",
    "SessionEnded",
    "Short",
    "Source",
    "SqlFilter",
    "StaleDelivery",
    "StartsWith",
    "StoreError",
    "StoredDelivery",
    "StreamFilter",
    "StreamMatchUnfiltered",
    "StreamOffset",
    "Symbol",
    "Target",
    "Timestamp",
    "Token",
    "TokenProvider",
    "TokenRefused",
    "TokenRenewed",
    "TopicBinding",
    "Transaction",
    "TransactionError",
    "TransactionInDoubt",
    "TransactionRolledBack",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "Unsupported",
    "WebSocket",
    "Worker",
    "XOAuth2",
    "bridge",
    "from_environment",
    "receive",
    "selector_literal",
    "send",
)

# Each name above is imported on first use, so that a process that only runs a broker does not load the client.
_LATER: typing.Final = {
    **dict.fromkeys(
        (
            "Bridge",
            "BridgePlan",
            "BridgeReport",
            "PlannedEnd",
            "bridge",
        ),
        ".bridging",
    ),
    **dict.fromkeys(
        (
            "BodyWriter",
            "Browser",
            "CbsTokens",
            "Connection",
            "ConnectionAttempted",
            "ConnectionBlocked",
            "ConnectionDetails",
            "ConnectionEvent",
            "ConnectionGivenUp",
            "ConnectionInterrupted",
            "ConnectionRestored",
            "ConnectionSettings",
            "ConnectionUnblocked",
            "DeclarationRefused",
            "DeliveriesStale",
            "Delivery",
            "DeliveryStore",
            "DialectName",
            "Health",
            "LinkHealth",
            "LinkInterrupted",
            "LinkKey",
            "LinkLost",
            "LinkRestored",
            "LoginTokens",
            "Management",
            "MemoryDeliveryStore",
            "MessagesRepeated",
            "MessagesUncertain",
            "Receiver",
            "ReceiverActivity",
            "Reconnect",
            "Request",
            "Requester",
            "Responder",
            "Sender",
            "SentDelivery",
            "Session",
            "SQLiteDeliveryStore",
            "StoredDelivery",
            "TokenRefused",
            "TokenRenewed",
            "Transaction",
            "from_environment",
            "receive",
            "send",
        ),
        ".client",
    ),
    **dict.fromkeys(
        (
            "DeadLetter",
            "Retries",
            "Retry",
            "Worker",
        ),
        ".worker",
    ),
}

# Names of the modules beside this one, which programs look for here first.
_BESIDE: typing.Final = {
    "azure": ("EventHub", "EventProcessor", "ServiceBus"),
    "broker": ("Broker", "BrokerLimits", "TokenRules"),
    "otel": ("instrument",),
    "rabbitmq": ("management",),
    "sync": (),
    "testing": ("BackgroundBroker", "FaultProxy", "ScriptedPeer"),
    "worker": ("SessionWorker", "worker_from_environment"),
}

# What other libraries call what a connection makes.
_MADE: typing.Final = {
    **dict.fromkeys(("Producer", "Publisher"), "connection.sender(address) makes one that sends"),
    **dict.fromkeys(
        ("Consumer", "Subscriber"), "connection.receiver(address) makes one, or Worker(connection, address, handler)"
    ),
    **dict.fromkeys(
        ("Channel", "Client"), "use Connection(url), whose sender(address) and receiver(address) need no more"
    ),
}

if not typing.TYPE_CHECKING:  # with `__getattr__`, type checkers would accept any name

    def __getattr__(name: str) -> typing.Any:
        if name not in _LATER:
            module = next((each for each, names in _BESIDE.items() if name in names), None)
            if module is not None:
                # From an AttributeError, `from amqp10 import NAME` makes an error without this text.
                raise ImportError(f"{name} is in another module: from {__name__}.{module} import {name}", name=name)
            if name in _MADE:
                raise ImportError(f"{__name__} has no {name}: {_MADE[name]}", name=name)
            advice = f": import {__name__}.{name}" if name in _BESIDE else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
        found = globals()[name] = getattr(importlib.import_module(_LATER[name], __name__), name)
        return found


def __dir__() -> tuple[str, ...]:
    return __all__
