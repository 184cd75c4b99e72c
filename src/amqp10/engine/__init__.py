"""The contract between protocol and world: engines, events, dialects.

`_protocol` is the page to read first; `_owners` and `_dispatch` have who hears of events, `_fast_lane` what exists for
speed.
"""

from ._addresses import Address as Address
from ._addresses import parse_address as parse_address
from ._addresses import route_address as route_address
from ._capabilities import CAPABILITIES as CAPABILITIES
from ._deliveries import CopiedDelivery as CopiedDelivery
from ._deliveries import ImmediateDelivery as ImmediateDelivery
from ._deliveries import IncomingDelivery as IncomingDelivery
from ._deliveries import IncomingStream as IncomingStream
from ._deliveries import OutgoingDelivery as OutgoingDelivery
from ._deliveries import RoutedDelivery as RoutedDelivery
from ._deliveries import deliveries as deliveries
from ._dialect import LINK_PAIR as LINK_PAIR
from ._dialect import MANAGEMENT as MANAGEMENT
from ._dialect import OTHER_PROTOCOLS as OTHER_PROTOCOLS
from ._dialect import TOKENS as TOKENS
from ._dialect import Dialect as Dialect
from ._dialect import Tracer as Tracer
from ._dialect import dialect as dialect
from ._dialect import dialect_names as dialect_names
from ._dialect import dialects as dialects
from ._dialect import foreign_header as foreign_header
from ._dialect import is_a_header as is_a_header
from ._dialect import register_dialect as register_dialect
from ._dialect import takes_tokens as takes_tokens
from ._dispatcher import Dispatcher as Dispatcher
from ._dispatcher import Handlers as Handlers
from ._engine_owner import EngineOwner as EngineOwner
from ._events import Authenticated as Authenticated
from ._events import ConnectionEnded as ConnectionEnded
from ._events import ConnectionOpened as ConnectionOpened
from ._events import CreditChanged as CreditChanged
from ._events import DeliveriesReceived as DeliveriesReceived
from ._events import DeliveriesResumed as DeliveriesResumed
from ._events import DeliveriesUnresumed as DeliveriesUnresumed
from ._events import FlowReceived as FlowReceived
from ._events import LinkAttached as LinkAttached
from ._events import LinkEnded as LinkEnded
from ._events import LinkIncomplete as LinkIncomplete
from ._events import OutcomesMissed as OutcomesMissed
from ._events import OutcomesReceived as OutcomesReceived
from ._events import PartsReceived as PartsReceived
from ._events import PeerBlocked as PeerBlocked
from ._events import RequestAnswered as RequestAnswered
from ._events import RequestReceived as RequestReceived
from ._events import RunAccepted as RunAccepted
from ._events import SessionBegun as SessionBegun
from ._events import SessionResumed as SessionResumed
from ._events import SessionUnmapped as SessionUnmapped
from ._events import SettlementsReceived as SettlementsReceived
from ._events import UntrackedAccepted as UntrackedAccepted
from ._events import WindowOpened as WindowOpened
from ._fast_lane import UnsettledCount as UnsettledCount
from ._fast_lane import count_unsettled as count_unsettled
from ._negotiation import Negotiation as Negotiation
from ._owners import NO_LINK_OWNER as NO_LINK_OWNER
from ._owners import NO_SESSION_OWNER as NO_SESSION_OWNER
from ._owners import LinkOwner as LinkOwner
from ._owners import OutcomeCounter as OutcomeCounter
from ._owners import SessionOwner as SessionOwner
from ._parents import LinkSession as LinkSession
from ._parents import SessionEngine as SessionEngine
from ._protocol import Engine as Engine
from ._protocol import Event as Event
from ._protocol import Link as Link
from ._protocol import MemoryKeeper as MemoryKeeper
from ._protocol import ReceiverLink as ReceiverLink
from ._protocol import SenderLink as SenderLink
from ._protocol import Session as Session
from ._protocol import SessionKeeper as SessionKeeper
from ._terms import ConnectionTerms as ConnectionTerms
from ._terms import LinkTerms as LinkTerms
from ._terms import ReceiverSettleMode as ReceiverSettleMode
from ._terms import Role as Role
from ._terms import SenderSettleMode as SenderSettleMode
from ._terms import SessionTerms as SessionTerms
from ._topology_requests import DELAYED_RETRY_CAPABILITY as DELAYED_RETRY_CAPABILITY
from ._topology_requests import ON_DEMAND_ARGUMENT as ON_DEMAND_ARGUMENT
from ._topology_requests import ON_DEMAND_CAPABILITY as ON_DEMAND_CAPABILITY
from ._topology_requests import Acquire as Acquire
from ._topology_requests import BeginBranch as BeginBranch
from ._topology_requests import Bind as Bind
from ._topology_requests import BindingFacts as BindingFacts
from ._topology_requests import BranchId as BranchId
from ._topology_requests import CompleteBranch as CompleteBranch
from ._topology_requests import DeclareExchange as DeclareExchange
from ._topology_requests import DeclareQueue as DeclareQueue
from ._topology_requests import DeleteExchange as DeleteExchange
from ._topology_requests import DeleteQueue as DeleteQueue
from ._topology_requests import ExchangeFacts as ExchangeFacts
from ._topology_requests import LimitBranch as LimitBranch
from ._topology_requests import PendingRequest as PendingRequest
from ._topology_requests import PrepareBranch as PrepareBranch
from ._topology_requests import PurgeQueue as PurgeQueue
from ._topology_requests import QueryBinding as QueryBinding
from ._topology_requests import QueryBranches as QueryBranches
from ._topology_requests import QueryExchange as QueryExchange
from ._topology_requests import QueryQueue as QueryQueue
from ._topology_requests import QueueFacts as QueueFacts
from ._topology_requests import Request as Request
from ._topology_requests import RequestResult as RequestResult
from ._topology_requests import RequestRules as RequestRules
from ._topology_requests import RequestSession as RequestSession
from ._topology_requests import Unbind as Unbind

__all__ = (
    "CAPABILITIES",
    "DELAYED_RETRY_CAPABILITY",
    "LINK_PAIR",
    "MANAGEMENT",
    "NO_LINK_OWNER",
    "NO_SESSION_OWNER",
    "ON_DEMAND_ARGUMENT",
    "ON_DEMAND_CAPABILITY",
    "OTHER_PROTOCOLS",
    "TOKENS",
    "Acquire",
    "Address",
    "Authenticated",
    "BeginBranch",
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
    "Dispatcher",
    "Engine",
    "EngineOwner",
    "Event",
    "ExchangeFacts",
    "FlowReceived",
    "Handlers",
    "ImmediateDelivery",
    "IncomingDelivery",
    "IncomingStream",
    "LimitBranch",
    "Link",
    "LinkAttached",
    "LinkEnded",
    "LinkIncomplete",
    "LinkOwner",
    "LinkSession",
    "LinkTerms",
    "MemoryKeeper",
    "Negotiation",
    "OutcomeCounter",
    "OutcomesMissed",
    "OutcomesReceived",
    "OutgoingDelivery",
    "PartsReceived",
    "PeerBlocked",
    "PendingRequest",
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
    "RequestResult",
    "RequestRules",
    "RequestSession",
    "Role",
    "RoutedDelivery",
    "RunAccepted",
    "SenderLink",
    "SenderSettleMode",
    "Session",
    "SessionBegun",
    "SessionEngine",
    "SessionKeeper",
    "SessionOwner",
    "SessionResumed",
    "SessionTerms",
    "SessionUnmapped",
    "SettlementsReceived",
    "Tracer",
    "Unbind",
    "UnsettledCount",
    "UntrackedAccepted",
    "WindowOpened",
    "count_unsettled",
    "deliveries",
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
