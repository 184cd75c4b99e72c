"""A message at rest in a queue, and what the broker learns about it without decoding it."""

from .entry import EMPTY_MESSAGE as EMPTY_MESSAGE
from .entry import MIN_TTL as MIN_TTL
from .entry import Clock as Clock
from .entry import QueuedMessage as QueuedMessage
from .entry import message_of as message_of

__all__ = ["EMPTY_MESSAGE", "MIN_TTL", "Clock", "QueuedMessage", "message_of"]
