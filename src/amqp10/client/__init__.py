"""What users hold: connections, sessions, links, deliveries; and the helpers for one-off use."""

from ._browser import Browser as Browser
from ._connection import Connection as Connection
from ._delivery import Delivery as Delivery
from ._delivery import SentDelivery as SentDelivery
from ._management import Management as Management
from ._observe import ConnectionAttempted as ConnectionAttempted
from ._observe import ConnectionBlocked as ConnectionBlocked
from ._observe import ConnectionEvent as ConnectionEvent
from ._observe import ConnectionGivenUp as ConnectionGivenUp
from ._observe import ConnectionInterrupted as ConnectionInterrupted
from ._observe import ConnectionRestored as ConnectionRestored
from ._observe import ConnectionUnblocked as ConnectionUnblocked
from ._observe import DeclarationRefused as DeclarationRefused
from ._observe import LinkInterrupted as LinkInterrupted
from ._observe import LinkRestored as LinkRestored
from ._oneoff import receive as receive
from ._oneoff import send as send
from ._receiver import Receiver as Receiver
from ._reconnect import Address as Address
from ._reconnect import ConnectionDetails as ConnectionDetails
from ._reconnect import Reconnect as Reconnect
from ._request import ReplyReceiver as ReplyReceiver
from ._request import Requester as Requester
from ._respond import Request as Request
from ._respond import Responder as Responder
from ._sender import Sender as Sender
from ._session import Session as Session
from ._settings import ConnectionSettings as ConnectionSettings
from ._store import DeliveryStore as DeliveryStore
from ._store import LinkKey as LinkKey
from ._store import MemoryDeliveryStore as MemoryDeliveryStore
from ._store import StoredDelivery as StoredDelivery
from ._store_sqlite import SQLiteDeliveryStore as SQLiteDeliveryStore
from ._stream import BodyWriter as BodyWriter
from ._transaction import Transaction as Transaction

__all__ = (
    "Address",
    "BodyWriter",
    "Browser",
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
    "Delivery",
    "DeliveryStore",
    "LinkInterrupted",
    "LinkKey",
    "LinkRestored",
    "Management",
    "MemoryDeliveryStore",
    "Receiver",
    "Reconnect",
    "ReplyReceiver",
    "Request",
    "Requester",
    "Responder",
    "SQLiteDeliveryStore",
    "Sender",
    "SentDelivery",
    "Session",
    "StoredDelivery",
    "Transaction",
    "receive",
    "send",
)
