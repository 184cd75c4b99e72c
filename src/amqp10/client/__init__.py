"""What users hold: connections, sessions, links, deliveries; and the helpers for one-off use."""

from ._browser import Browser as Browser
from ._connection import Connection as Connection
from ._delivery import Delivery as Delivery
from ._delivery import SentDelivery as SentDelivery
from ._management import Management as Management
from ._oneoff import receive as receive
from ._oneoff import send as send
from ._receiver import Receiver as Receiver
from ._request import ReplyReceiver as ReplyReceiver
from ._request import Requester as Requester
from ._respond import Request as Request
from ._respond import Responder as Responder
from ._sender import Sender as Sender
from ._session import Session as Session
from ._settings import ConnectionSettings as ConnectionSettings
from ._stream import BodyWriter as BodyWriter
from ._transaction import Transaction as Transaction

__all__ = (
    "BodyWriter",
    "Browser",
    "Connection",
    "ConnectionSettings",
    "Delivery",
    "Management",
    "Receiver",
    "ReplyReceiver",
    "Request",
    "Requester",
    "Responder",
    "Sender",
    "SentDelivery",
    "Session",
    "Transaction",
    "receive",
    "send",
)
