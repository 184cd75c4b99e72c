"""The contract between protocol and world: engines, events, dialects. `_api` is the page to read first."""

from ._addresses import Address as Address
from ._addresses import parse_address as parse_address
from ._addresses import route_address as route_address
from ._api import Engine as Engine
from ._api import Link as Link
from ._api import ReceiverLink as ReceiverLink
from ._api import SenderLink as SenderLink
from ._api import Session as Session
from ._api import SessionKeeper as SessionKeeper
from ._arrived import PortioningReceiver as PortioningReceiver
from ._arrived import Run as Run
from ._backlog import Backlog as Backlog
from ._capabilities import CAPABILITIES as CAPABILITIES
from ._delivery import CopiedDelivery as CopiedDelivery
from ._delivery import IncomingDelivery as IncomingDelivery
from ._delivery import IncomingStream as IncomingStream
from ._delivery import OutgoingDelivery as OutgoingDelivery
from ._delivery import RoutedDelivery as RoutedDelivery
from ._dialect import OTHER_PROTOCOLS as OTHER_PROTOCOLS
from ._dialect import Dialect as Dialect
from ._dialect import Tracer as Tracer
from ._dialect import dialect as dialect
from ._dialect import dialect_names as dialect_names
from ._dialect import dialects as dialects
from ._dialect import foreign_header as foreign_header
from ._dialect import is_a_header as is_a_header
from ._dialect import register_dialect as register_dialect
from ._dialect import takes_tokens as takes_tokens
from ._events import Authenticated as Authenticated
from ._events import ConnectionEnded as ConnectionEnded
from ._events import ConnectionOpened as ConnectionOpened
from ._events import CreditChanged as CreditChanged
from ._events import DeliveriesReceived as DeliveriesReceived
from ._events import DeliveriesResumed as DeliveriesResumed
from ._events import DeliveriesUnresumed as DeliveriesUnresumed
from ._events import Event as Event
from ._events import FlowReceived as FlowReceived
from ._events import LinkAttached as LinkAttached
from ._events import LinkEnded as LinkEnded
from ._events import LinkIncomplete as LinkIncomplete
from ._events import OutcomesMissed as OutcomesMissed
from ._events import OutcomesReceived as OutcomesReceived
from ._events import PartsReceived as PartsReceived
from ._events import PeerBlocked as PeerBlocked
from ._events import PostsAccepted as PostsAccepted
from ._events import RequestAnswered as RequestAnswered
from ._events import RequestReceived as RequestReceived
from ._events import SessionBegun as SessionBegun
from ._events import SessionResumed as SessionResumed
from ._events import SessionUnmapped as SessionUnmapped
from ._events import SettlementsReceived as SettlementsReceived
from ._events import WindowOpened as WindowOpened
from ._negotiate import Negotiation as Negotiation
from ._requests import Acquire as Acquire
from ._requests import Bind as Bind
from ._requests import BindingFacts as BindingFacts
from ._requests import BranchId as BranchId
from ._requests import CompleteBranch as CompleteBranch
from ._requests import DeclareExchange as DeclareExchange
from ._requests import DeclareQueue as DeclareQueue
from ._requests import DeleteExchange as DeleteExchange
from ._requests import DeleteQueue as DeleteQueue
from ._requests import ExchangeFacts as ExchangeFacts
from ._requests import LimitBranch as LimitBranch
from ._requests import PendingRequest as PendingRequest
from ._requests import PrepareBranch as PrepareBranch
from ._requests import PurgeQueue as PurgeQueue
from ._requests import QueryBinding as QueryBinding
from ._requests import QueryBranches as QueryBranches
from ._requests import QueryExchange as QueryExchange
from ._requests import QueryQueue as QueryQueue
from ._requests import QueueFacts as QueueFacts
from ._requests import Request as Request
from ._requests import RequestRules as RequestRules
from ._requests import Unbind as Unbind
from ._terms import ConnectionTerms as ConnectionTerms
from ._terms import LinkTerms as LinkTerms
from ._terms import ReceiverSettleMode as ReceiverSettleMode
from ._terms import Role as Role
from ._terms import SenderSettleMode as SenderSettleMode
from ._terms import SessionTerms as SessionTerms
from ._timed import TimedEngine as TimedEngine

__all__ = (
    "CAPABILITIES",
    "OTHER_PROTOCOLS",
    "Acquire",
    "Address",
    "Authenticated",
    "Backlog",
    "Bind",
    "BindingFacts",
    "BranchId",
    "CompleteBranch",
    "ConnectionEnded",
    "ConnectionOpened",
    "ConnectionTerms",
    "CopiedDelivery",
    "CreditChanged",
    "DeclareExchange",
    "DeclareQueue",
    "DeleteExchange",
    "DeleteQueue",
    "DeliveriesReceived",
    "DeliveriesResumed",
    "DeliveriesUnresumed",
    "Dialect",
    "Engine",
    "Event",
    "ExchangeFacts",
    "FlowReceived",
    "IncomingDelivery",
    "IncomingStream",
    "LimitBranch",
    "Link",
    "LinkAttached",
    "LinkEnded",
    "LinkIncomplete",
    "LinkTerms",
    "Negotiation",
    "OutcomesMissed",
    "OutcomesReceived",
    "OutgoingDelivery",
    "PartsReceived",
    "PeerBlocked",
    "PendingRequest",
    "PortioningReceiver",
    "PostsAccepted",
    "PrepareBranch",
    "PurgeQueue",
    "QueryBinding",
    "QueryBranches",
    "QueryExchange",
    "QueryQueue",
    "QueueFacts",
    "ReceiverLink",
    "ReceiverSettleMode",
    "Request",
    "RequestAnswered",
    "RequestReceived",
    "RequestRules",
    "Role",
    "RoutedDelivery",
    "Run",
    "SenderLink",
    "SenderSettleMode",
    "Session",
    "SessionBegun",
    "SessionKeeper",
    "SessionResumed",
    "SessionTerms",
    "SessionUnmapped",
    "SettlementsReceived",
    "TimedEngine",
    "Tracer",
    "Unbind",
    "WindowOpened",
    "dialect",
    "dialect_names",
    "dialects",
    "foreign_header",
    "is_a_header",
    "parse_address",
    "register_dialect",
    "route_address",
    "takes_tokens",
)
