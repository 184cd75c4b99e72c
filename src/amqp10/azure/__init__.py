"""Connect to Azure Service Bus and Event Hubs: `from amqp10.azure import EventHub, ServiceBus`."""

import typing as _typing

from .._arguments import renamed_names as _renamed_names
from .event_hubs import EventBatch as EventBatch
from .event_hubs import EventHub as EventHub
from .event_hubs import EventReader as EventReader
from .event_hubs import EventSender as EventSender
from .event_hubs import HubProperties as HubProperties
from .event_hubs import LastEvent as LastEvent
from .event_hubs import OwnershipLost as OwnershipLost
from .event_hubs import PartitionProperties as PartitionProperties
from .event_hubs import ReceivedEvent as ReceivedEvent
from .processor import BlobLeases as BlobLeases
from .processor import Checkpoint as Checkpoint
from .processor import ConsumerGroup as ConsumerGroup
from .processor import EventProcessor as EventProcessor
from .processor import Lease as Lease
from .processor import LeaseStore as LeaseStore
from .processor import MemoryLeases as MemoryLeases
from .processor import PostgreSQLLeases as PostgreSQLLeases
from .processor import SQLiteLeases as SQLiteLeases
from .service_bus import CorrelationRuleFilter as CorrelationRuleFilter
from .service_bus import EntityNotFound as EntityNotFound
from .service_bus import FalseRuleFilter as FalseRuleFilter
from .service_bus import MessageBatch as MessageBatch
from .service_bus import MessageLockLost as MessageLockLost
from .service_bus import MessageNotFound as MessageNotFound
from .service_bus import NoSession as NoSession
from .service_bus import ReceivedMessage as ReceivedMessage
from .service_bus import Rule as Rule
from .service_bus import RuleExists as RuleExists
from .service_bus import ServerBusy as ServerBusy
from .service_bus import ServiceBus as ServiceBus
from .service_bus import ServiceBusDelivery as ServiceBusDelivery
from .service_bus import ServiceBusError as ServiceBusError
from .service_bus import ServiceBusReceiver as ServiceBusReceiver
from .service_bus import ServiceBusSender as ServiceBusSender
from .service_bus import ServiceBusSession as ServiceBusSession
from .service_bus import SessionCannotBeLocked as SessionCannotBeLocked
from .service_bus import SessionLockLost as SessionLockLost
from .service_bus import SqlRuleFilter as SqlRuleFilter
from .service_bus import SubscriptionRules as SubscriptionRules
from .service_bus import TrueRuleFilter as TrueRuleFilter

__all__ = (
    "BlobLeases",
    "Checkpoint",
    "ConsumerGroup",
    "CorrelationRuleFilter",
    "EntityNotFound",
    "EventBatch",
    "EventHub",
    "EventProcessor",
    "EventReader",
    "EventSender",
    "FalseRuleFilter",
    "HubProperties",
    "LastEvent",
    "Lease",
    "LeaseStore",
    "MemoryLeases",
    "MessageBatch",
    "MessageLockLost",
    "MessageNotFound",
    "NoSession",
    "OwnershipLost",
    "PartitionProperties",
    "PostgreSQLLeases",
    "ReceivedEvent",
    "ReceivedMessage",
    "Rule",
    "RuleExists",
    "SQLiteLeases",
    "ServerBusy",
    "ServiceBus",
    "ServiceBusDelivery",
    "ServiceBusError",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "SessionCannotBeLocked",
    "SessionLockLost",
    "SqlRuleFilter",
    "SubscriptionRules",
    "TrueRuleFilter",
)


if not _typing.TYPE_CHECKING:  # so that type checkers report the names of before
    __getattr__ = _renamed_names(
        __name__,
        {
            "CorrelationFilter": "CorrelationRuleFilter",
            "FalseFilter": "FalseRuleFilter",
            "SqlFilter": "SqlRuleFilter",
            "TrueFilter": "TrueRuleFilter",
        },
    )


def __dir__() -> tuple[str, ...]:
    return __all__
