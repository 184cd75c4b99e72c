"""A message at rest in a queue, and what the broker learns about it without decoding it."""

from .entry import EMPTY_MESSAGE as EMPTY_MESSAGE
from .entry import MIN_TTL as MIN_TTL
from .entry import Clock as Clock
from .entry import QueuedMessage as QueuedMessage
from .entry import message_of as message_of
from .front import UNREAD as UNREAD
from .front import application_properties_at as application_properties_at
from .front import properties_of as properties_of
from .front import text_in as text_in

__all__ = [
    "EMPTY_MESSAGE",
    "MIN_TTL",
    "UNREAD",
    "Clock",
    "QueuedMessage",
    "application_properties_at",
    "message_of",
    "properties_of",
    "text_in",
]
