"""What users hold: connections, sessions, links, deliveries; and the helpers for one-off use."""

from ._connection import Connection as Connection
from ._environment import from_environment as from_environment
from ._events import ConnectionAttempted as ConnectionAttempted
from ._events import ConnectionBlocked as ConnectionBlocked
from ._events import ConnectionEvent as ConnectionEvent
from ._events import ConnectionGivenUp as ConnectionGivenUp
from ._events import ConnectionInterrupted as ConnectionInterrupted
from ._events import ConnectionRestored as ConnectionRestored
from ._events import ConnectionUnblocked as ConnectionUnblocked
from ._events import DeclarationRefused as DeclarationRefused
from ._events import TokenRefused as TokenRefused
from ._events import TokenRenewed as TokenRenewed
from ._health import Health as Health
from ._health import LinkHealth as LinkHealth
from ._links.events import DeliveriesStale as DeliveriesStale
from ._links.events import LinkInterrupted as LinkInterrupted
from ._links.events import LinkLost as LinkLost
from ._links.events import LinkRestored as LinkRestored
from ._links.events import MessagesRepeated as MessagesRepeated
from ._links.events import MessagesUncertain as MessagesUncertain
from ._links.events import ReceiverActivity as ReceiverActivity
from ._one_shot import receive as receive
from ._one_shot import send as send
from ._receiving.browser import Browser as Browser
from ._receiving.delivery_face import Delivery as Delivery
from ._receiving.receiver import Receiver as Receiver
from ._requests.management import Management as Management
from ._requests.requester import ReplyReceiver as ReplyReceiver
from ._requests.requester import Requester as Requester
from ._requests.responder import Request as Request
from ._requests.responder import Responder as Responder
from ._sending.body_writer import BodyWriter as BodyWriter
from ._sending.delivery_face import SentDelivery as SentDelivery
from ._sending.sender import Sender as Sender
from ._session import Session as Session
from ._settings import Address as Address
from ._settings import CbsTokens as CbsTokens
from ._settings import ConnectionDetails as ConnectionDetails
from ._settings import ConnectionSettings as ConnectionSettings
from ._settings import DialectName as DialectName
from ._settings import LoginTokens as LoginTokens
from ._settings import Reconnect as Reconnect
from ._stores.sqlite import SQLiteDeliveryStore as SQLiteDeliveryStore
from ._stores.store import DeliveryStore as DeliveryStore
from ._stores.store import LinkKey as LinkKey
from ._stores.store import MemoryDeliveryStore as MemoryDeliveryStore
from ._stores.store import StoredDelivery as StoredDelivery
from ._transactions.transaction import Transaction as Transaction

__all__ = (
    "Address",
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
    "ReplyReceiver",
    "Request",
    "Requester",
    "Responder",
    "SQLiteDeliveryStore",
    "Sender",
    "SentDelivery",
    "Session",
    "StoredDelivery",
    "TokenRefused",
    "TokenRenewed",
    "Transaction",
    "from_environment",
    "receive",
    "send",
)


def __dir__() -> tuple[str, ...]:
    return __all__
