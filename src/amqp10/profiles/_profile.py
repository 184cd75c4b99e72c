"""A broker's profile: how it spells nodes, and what its answers mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

from ..errors import AmqpError, EndpointError, MessageNotAccepted, MessageReleased, Unsupported
from ..messaging import Source, Target
from ..types import Symbol

NodeKind = Literal["queue", "topic"]

LONGEST_VERSION: Final = 100
"""Characters of a version that are looked at."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something to know of a broker, and where it is said or was seen.

    Attributes:
        text: the fact, one sentence or two.
        source: the page, the issue, or the test of this project that shows it.
    """

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class TransactionSupport:
    """What can be part of a broker's transactions, where that is less, or more, than it lets on (§4).

    Attributes:
        outcomes: those that it applies when they are given in one: "accepted", "rejected", "released", "modified".
        acquires: it acquires messages in one (§4.4.3).
        spans_sessions: links of all sessions of a connection can take part, though the coordinator does not say so.
    """

    outcomes: frozenset[str] = frozenset({"accepted", "rejected", "released", "modified"})
    acquires: bool = True
    spans_sessions: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What one broker wants.

    A program that names its nodes by `target` and `source` runs against each of the brokers unchanged:

        async with connection.sender(connection.profile.target("orders")) as sender: ...
        async with connection.receiver(connection.profile.source("news", "topic")) as receiver: ...

    Attributes:
        name: what `Connection(profile=...)` takes: "rabbitmq", "artemis", ...
        title: the product's name.
        products: it is this broker if the open's property "product" or "platform" begins with one of these (§2.7.1).
        hosts: or if the host's name ends in one of these.
        queue, topic: how the address of a node is made of its name: "{}" is the name, "{quoted}" is it
            percent-encoded. None: the broker has no such node.
        topic_source: how the address to receive from is made, where it is another; "" if nothing is received there.
        capabilities: whether the terminus says by its capability, "queue" or "topic", what kind of node it means.
        aborts: it forgets an aborted delivery and goes on (§2.7.5). On one that does not, a sender that has aborted one
            goes on with another link, once the outcomes on the old one are known.
        early_outcomes: it takes an outcome for a delivery that it is still sending (§2.6.12). As most get lost with it,
            the client says the outcome to others when the delivery is whole, or at the end of the link.
        unlisted_outcomes: what it applies though its sources do not list it (§3.5.3): "modified", for one.
        keeps_window: it stops sending where the session's window ends (§2.5.6), in the middle of a message too. For one
            that does not, the window bounds nothing, and is not held against it.
        copies: where it answers that it copies, for browsing, messages stay in the queue; one that takes them all the
            same has them back when the browser is left.
        transactions: what its transactions can do; None: it has none, and is not asked for any.
        resumes: it may keep a link's unsettled deliveries without its connection (§2.6.13); one that never does is not
            asked to.
        timeouts: it keeps a terminus for the timeout that it confirms (§3.5.3).
        reply_capabilities: what a dynamic source for replies must say, where one is only made on saying so; it is then
            attached with settle mode "settled".
        replies_since: the version since which it makes such nodes; "" for always.
        tokens_since: the version since which it takes a new token for that of the login in 1.0, by `PUT /auth/tokens`;
            "" for always. None: it does not, and not by connection.update-secret of 0-9-1 either.
        hints: what an outcome ("released") or an error condition means here; added to the exception as a note.
        facts: what else there is to know.
    """

    name: str
    title: str
    products: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    queue: str | None = "{}"
    topic: str | None = "{}"
    topic_source: str | None = None
    capabilities: bool = False
    aborts: bool = True
    early_outcomes: bool = False
    unlisted_outcomes: frozenset[str] = frozenset()
    keeps_window: bool = True
    copies: bool = True
    resumes: bool = True
    timeouts: bool = True
    transactions: TransactionSupport | None = TransactionSupport()
    reply_capabilities: tuple[str, ...] = ()
    replies_since: str = ""
    tokens_since: str | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()

    def target(self, name: str, kind: NodeKind = "queue", **fields: Any) -> Target:
        """Return the target that sends to a node, spelled as this broker wants it.

        Args:
            name: the queue's or topic's name, as its administrator knows it.
            fields: further fields of `Target`.

        Raises:
            Unsupported: the broker has no such kind of node.
        """
        return Target(self._address(name, kind, self.queue, self.topic), **self._fields(kind, fields))

    def source(self, name: str, kind: NodeKind = "queue", **fields: Any) -> Source:
        """Return the source that receives from a node, spelled as this broker wants it.

        Args:
            name: the queue's or topic's name, as its administrator knows it.
            fields: further fields of `Source`.

        Raises:
            Unsupported: the broker has no such kind of node, or nobody can receive from it.
        """
        topic = self.topic_source if self.topic_source is not None else self.topic
        return Source(self._address(name, kind, self.queue, topic or None), **self._fields(kind, fields))

    def require_replies(self, version: str) -> None:
        """See that the broker makes nodes for replies.

        Args:
            version: what its open says of it; without one the broker is left to answer.

        Raises:
            Unsupported: it makes none in this version.
        """
        numbers = _numbers(version)
        if self.replies_since and numbers and numbers < _numbers(self.replies_since):
            shown = version[:LONGEST_VERSION]
            raise Unsupported(
                f"{self.title} {shown} makes no node for replies before version {self.replies_since}"
                f"{self._advice('replies')}"
            )

    def takes_tokens(self, version: str) -> bool:
        """Return whether a new token for that of the login can be told it on a connection in 1.0.

        Args:
            version: what its open says of it.
        """
        return self.tokens_since is not None and _numbers(version) >= _numbers(self.tokens_since)

    def _address(self, name: str, kind: NodeKind, queue: str | None, topic: str | None) -> str:
        template = queue if kind == "queue" else topic
        if template is None:
            raise Unsupported(f"{self.title} has no {kind} for that{self._advice(kind)}")
        return template.format(name, quoted=quote(name, safe=""))

    def _advice(self, kind: str) -> str:
        advice = self.hints.get(f"no {kind}")
        return f": {advice}" if advice else ""

    def _fields(self, kind: NodeKind, fields: dict[str, Any]) -> dict[str, Any]:
        if self.capabilities:
            fields["capabilities"] = (Symbol(kind), *fields.get("capabilities", ()))
        return fields

    def explain(self, error: AmqpError) -> None:
        """Add what the error means at this broker, if there is something to say, as a note."""
        hint = self.hints.get(_key(error))
        note = f"{self.title}: {hint}"
        if hint and note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _numbers(version: str) -> list[int]:
    # A peer says it, of any length: Python makes no number of thousands of digits.
    return [int(number) for number in re.findall(r"\d+", version[:LONGEST_VERSION])]


def _key(error: AmqpError) -> str:
    """Return the key of an error's hint: the error condition, or the outcome's name if there is no condition."""
    if isinstance(error, MessageNotAccepted) and not (isinstance(error, MessageReleased) and error.condition):
        return type(error).__name__.removeprefix("Message").lower()
    return str(error.condition or "") if isinstance(error, EndpointError | MessageReleased) else ""
