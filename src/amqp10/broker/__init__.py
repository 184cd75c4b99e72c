"""A broker in this process, in memory or with a store: for development, tests and small services."""

from ._broker import Broker as Broker
from ._facts import ExchangeFacts as ExchangeFacts
from ._facts import QueueFacts as QueueFacts
from ._facts import SubscriptionFacts as SubscriptionFacts
from ._facts import TopicFacts as TopicFacts
from ._quarantine import Quarantine as Quarantine
from ._quarantine import QuarantinedMessage as QuarantinedMessage

__all__ = (
    "Broker",
    "ExchangeFacts",
    "Quarantine",
    "QuarantinedMessage",
    "QueueFacts",
    "SubscriptionFacts",
    "TopicFacts",
)
