"""What a dialect can do beyond sending and receiving, in words that all dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CAPABILITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "released": "a receiver gives a message back unprocessed",
        "rejected": "a receiver rejects a message, which then does not arrive again",
        "modified": "a receiver gives a message back as failed, or as undeliverable to it",
        "settle-second": 'receiver-settle-mode "second": the receiver settles after the sender',
        "drain": "a receiver asks for its credit to be used now or given back",
        "detach-releases": "unsettled messages of a link go back to the queue as soon as it detaches",
        "multi-frame": "messages larger than a frame",
        "streaming": "bodies are sent and received in parts",
        "message-formats": "messages keep their octets and their message-format (1.0: §2.8.11)",
        "abort": "a partly sent message can be taken back",
        "anonymous-terminus": "senders without an address: each message names its own",
        "dynamic": "nodes that the peer creates for a link",
        "terminus-capabilities": "capabilities of a terminus name the kind of node; else it is a queue",
        "annotations": "annotations of messages and outcomes arrive; elsewhere as headers, or not",
        "filters": "the peer selects messages by selectors and other filters",
        "stream-filters": "RabbitMQ's filters for its streams: where to begin, and what to skip",
        "browse": "messages are read and stay in the queue",
        "durable-subscriptions": "subscriptions that outlive their links, by name",
        "transactions": "sends and outcomes that happen all together or not at all",
        "transactions-over-queues": "a transaction may span several queues; elsewhere only one",
        "transactional-acquisition": "a transaction covers what a link hands out (1.0: §4.4.3)",
        "resume": "links continue with their unsettled deliveries after a loss",
        "session-resume": "sessions continue with all of their commands after a loss",
        "find-outcomes": "a commit's answer was lost: the next connection asks for its outcome",
        "virtual-hosts": "a hostname names a virtual host; elsewhere maybe the server (1.0: §2.7.1)",
        "token-nodes": "tokens are put at a node of the peer, such as `$cbs`",
        "update-secret": "the open connection gives the server a new token",
        "requests": "`Connection.native` declares, binds, purges and deletes nodes",
    }
)
"""Each capability, and what it means. Asking a dialect for what it does not list raises `Unsupported`."""
