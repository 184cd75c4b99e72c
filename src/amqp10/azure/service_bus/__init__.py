"""Azure Service Bus: `async with ServiceBus(connection_string) as bus: ...`."""

from ..._azure_rules import CorrelationRuleFilter as CorrelationRuleFilter
from ..._azure_rules import FalseRuleFilter as FalseRuleFilter
from ..._azure_rules import Rule as Rule
from ..._azure_rules import SqlRuleFilter as SqlRuleFilter
from ..._azure_rules import TrueRuleFilter as TrueRuleFilter
from .._batch import MessageBatch as MessageBatch
from ._bus import ServiceBus as ServiceBus
from ._errors import EntityNotFound as EntityNotFound
from ._errors import MessageLockLost as MessageLockLost
from ._errors import MessageNotFound as MessageNotFound
from ._errors import NoSession as NoSession
from ._errors import RuleExists as RuleExists
from ._errors import ServerBusy as ServerBusy
from ._errors import ServiceBusError as ServiceBusError
from ._errors import SessionCannotBeLocked as SessionCannotBeLocked
from ._errors import SessionLockLost as SessionLockLost
from ._received import ReceivedMessage as ReceivedMessage
from ._received import ServiceBusDelivery as ServiceBusDelivery
from ._receiver import ServiceBusReceiver as ServiceBusReceiver
from ._receiver import ServiceBusSession as ServiceBusSession
from ._rules import SubscriptionRules as SubscriptionRules
from ._sender import ServiceBusSender as ServiceBusSender

__all__ = (
    "CorrelationRuleFilter",
    "EntityNotFound",
    "FalseRuleFilter",
    "MessageBatch",
    "MessageLockLost",
    "MessageNotFound",
    "NoSession",
    "ReceivedMessage",
    "Rule",
    "RuleExists",
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


def __dir__() -> tuple[str, ...]:
    return __all__
