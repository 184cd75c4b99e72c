"""A broker in this process, in memory or with a store: for development, tests and small services."""

from ._broker import Broker as Broker
from ._configuration import read_config as read_config
from ._limits import BrokerLimits as BrokerLimits
from ._quarantine import Quarantine as Quarantine
from ._quarantine import QuarantinedMessage as QuarantinedMessage
from ._snapshots import ExchangeFacts as ExchangeFacts
from ._snapshots import QueueFacts as QueueFacts
from ._snapshots import SubscriptionFacts as SubscriptionFacts
from ._snapshots import TopicFacts as TopicFacts
from ._tokens.rules import JwtKey as JwtKey
from ._tokens.rules import SasRule as SasRule
from ._tokens.rules import TokenRules as TokenRules
from ._users.users import Action as Action
from ._users.users import Authorize as Authorize
from ._users.users import Permissions as Permissions
from ._users.users import User as User
from ._users.users import read_users as read_users
from ._virtual_hosts import VirtualHost as VirtualHost

__all__ = (
    "Action",
    "Authorize",
    "Broker",
    "BrokerLimits",
    "ExchangeFacts",
    "JwtKey",
    "Permissions",
    "Quarantine",
    "QuarantinedMessage",
    "QueueFacts",
    "SasRule",
    "SubscriptionFacts",
    "TokenRules",
    "TopicFacts",
    "User",
    "VirtualHost",
    "read_config",
    "read_users",
)


def __dir__() -> tuple[str, ...]:
    return __all__
