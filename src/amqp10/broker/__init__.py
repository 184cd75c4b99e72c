"""A broker in this process, in memory or with a store: for development, tests and small services."""

from ._broker import Broker as Broker
from ._facts import ExchangeFacts as ExchangeFacts
from ._facts import QueueFacts as QueueFacts
from ._facts import SubscriptionFacts as SubscriptionFacts
from ._facts import TopicFacts as TopicFacts
from ._limits import BrokerLimits as BrokerLimits
from ._quarantine import Quarantine as Quarantine
from ._quarantine import QuarantinedMessage as QuarantinedMessage
from ._users import Action as Action
from ._users import Authorize as Authorize
from ._users import Permissions as Permissions
from ._users import User as User
from ._users import read_users as read_users
from ._virtual_hosts import VirtualHost as VirtualHost

__all__ = (
    "Action",
    "Authorize",
    "Broker",
    "BrokerLimits",
    "ExchangeFacts",
    "Permissions",
    "Quarantine",
    "QuarantinedMessage",
    "QueueFacts",
    "SubscriptionFacts",
    "TopicFacts",
    "User",
    "VirtualHost",
    "read_users",
)
