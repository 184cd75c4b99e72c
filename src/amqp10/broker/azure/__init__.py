"""Azure Service Bus and Event Hubs in the embedded broker: `Broker(azure=AzureConfig(...))`."""

from ..._azure_rules import CorrelationFilter as CorrelationFilter
from ..._azure_rules import FalseFilter as FalseFilter
from ..._azure_rules import Rule as Rule
from ..._azure_rules import SqlFilter as SqlFilter
from ..._azure_rules import TrueFilter as TrueFilter
from ._config import AzureConfig as AzureConfig
from ._config import EventHubConfig as EventHubConfig
from ._config import QueueConfig as QueueConfig
from ._config import SubscriptionConfig as SubscriptionConfig
from ._config import TopicConfig as TopicConfig
from ._connecting import EMULATOR_RULE as EMULATOR_RULE
from ._connecting import connection_string as connection_string
from ._controls import AzureControls as AzureControls

__all__ = (
    "EMULATOR_RULE",
    "AzureConfig",
    "AzureControls",
    "CorrelationFilter",
    "EventHubConfig",
    "FalseFilter",
    "QueueConfig",
    "Rule",
    "SqlFilter",
    "SubscriptionConfig",
    "TopicConfig",
    "TrueFilter",
    "connection_string",
)


def __dir__() -> tuple[str, ...]:
    return __all__
