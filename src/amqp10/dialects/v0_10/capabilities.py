"""What AMQP 0-10 can do, in the words that all dialects share."""

from __future__ import annotations

from typing import Final

CAPABILITIES: Final = frozenset(
    {
        "anonymous-terminus",
        "browse",
        "detach-releases",
        "drain",
        "dynamic",
        "filters",
        "find-outcomes",
        "modified",
        "multi-frame",
        "rejected",
        "released",
        "requests",
        "session-resume",
        "settle-second",
        "transactions",
        "transactions-over-queues",
    }
)
