"""The requirements of each broker beyond the specification, as data with a source for each fact."""

from ._brokers import ACTIVEMQ as ACTIVEMQ
from ._brokers import ARTEMIS as ARTEMIS
from ._brokers import BROKER_J as BROKER_J
from ._brokers import EMBEDDED as EMBEDDED
from ._brokers import EVENT_HUBS as EVENT_HUBS
from ._brokers import GENERIC as GENERIC
from ._brokers import IBM_MQ as IBM_MQ
from ._brokers import PROFILES as PROFILES
from ._brokers import RABBITMQ as RABBITMQ
from ._brokers import SERVICE_BUS as SERVICE_BUS
from ._brokers import SOLACE as SOLACE
from ._brokers import profile as profile
from ._brokers import recognize as recognize
from ._profile import Fact as Fact
from ._profile import NodeKind as NodeKind
from ._profile import Profile as Profile
from ._profile import TransactionSupport as TransactionSupport

__all__ = (
    "ACTIVEMQ",
    "ARTEMIS",
    "BROKER_J",
    "EMBEDDED",
    "EVENT_HUBS",
    "GENERIC",
    "IBM_MQ",
    "PROFILES",
    "RABBITMQ",
    "SERVICE_BUS",
    "SOLACE",
    "Fact",
    "NodeKind",
    "Profile",
    "TransactionSupport",
    "profile",
    "recognize",
)


def __dir__() -> tuple[str, ...]:
    return __all__
