"""What a dialect can do beyond sending and receiving, in words that all dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CAPABILITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "released": "a receiver gives a message back unprocessed",
        "rejected": "a receiver rejects a message: it does not come again",
        "modified": "a receiver gives a message back as failed, or as undeliverable to it",
        "settle-second": 'receiver-settle-mode "second": the receiver settles after the sender',
        "drain": "a receiver has its credit used now, or given back",
        "detach-releases": "what a link leaves unsettled goes back to its queue at once",
        "multi-frame": "messages larger than a frame",
        "streaming": "bodies are sent and received while they come to be",
        "abort": "a message that is half sent can be taken back",
        "anonymous-terminus": "senders without an address: each message says where it goes",
        "dynamic": "nodes that the peer makes for a link",
        "filters": "the peer chooses messages: selectors and other filters",
        "stream-filters": "RabbitMQ's filters for its streams: where to begin, and what to skip",
        "browse": "messages are looked at, and stay",
        "durable-subscriptions": "subscriptions that outlive their links, by name",
        "transactions": "work that happens as a whole or not at all",
        "resume": "links take up their unsettled deliveries again after a loss",
        "session-resume": "sessions do, with all that they had said",
        "requests": "queues and exchanges are declared, bound, emptied and deleted: `Connection.native`",
    }
)
"""Each capability, and what it means. Asking a dialect for what it does not list raises `Unsupported`."""
