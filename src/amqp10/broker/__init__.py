"""A broker in this process, in memory or with a store: for development, tests and small services."""

import typing as _typing

from .._arguments import renamed_names as _renamed_names
from ._broker import Broker as Broker
from ._configuration import read_config as read_config
from ._limits import BrokerLimits as BrokerLimits
from ._quarantine import Quarantine as Quarantine
from ._quarantine import QuarantinedMessage as QuarantinedMessage
from ._snapshots import ExchangeSnapshot as ExchangeSnapshot
from ._snapshots import QueueSnapshot as QueueSnapshot
from ._snapshots import SubscriptionSnapshot as SubscriptionSnapshot
from ._snapshots import TopicSnapshot as TopicSnapshot
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
    "ExchangeSnapshot",
    "JwtKey",
    "Permissions",
    "Quarantine",
    "QuarantinedMessage",
    "QueueSnapshot",
    "SasRule",
    "SubscriptionSnapshot",
    "TokenRules",
    "TopicSnapshot",
    "User",
    "VirtualHost",
    "read_config",
    "read_users",
)


if not _typing.TYPE_CHECKING:  # so that type checkers report the names of before
    __getattr__ = _renamed_names(
        __name__,
        {
            "ExchangeFacts": "ExchangeSnapshot",
            "QueueFacts": "QueueSnapshot",
            "SubscriptionFacts": "SubscriptionSnapshot",
            "TopicFacts": "TopicSnapshot",
        },
    )


def __dir__() -> tuple[str, ...]:
    return __all__
