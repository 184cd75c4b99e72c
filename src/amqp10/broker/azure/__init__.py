"""Azure Service Bus and Event Hubs in the embedded broker: `Broker(azure=AzureConfig(...))`."""

import typing as _typing

from ..._arguments import renamed_names as _renamed_names
from ..._azure_rules import CorrelationRuleFilter as CorrelationRuleFilter
from ..._azure_rules import FalseRuleFilter as FalseRuleFilter
from ..._azure_rules import Rule as Rule
from ..._azure_rules import SqlRuleFilter as SqlRuleFilter
from ..._azure_rules import TrueRuleFilter as TrueRuleFilter
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
    "CorrelationRuleFilter",
    "EventHubConfig",
    "FalseRuleFilter",
    "QueueConfig",
    "Rule",
    "SqlRuleFilter",
    "SubscriptionConfig",
    "TopicConfig",
    "TrueRuleFilter",
    "connection_string",
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
