"""A broker's profile: the form of its addresses, and the meaning of its answers."""

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

MAX_VERSION_LENGTH: Final = 100
"""The number of characters of a version to parse."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about a broker, with its source.

    Attributes:
        text: the fact, in one or two sentences.
        source: the page, the issue, or the test of this project that shows the fact.
    """

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class TransactionSupport:
    """The work that a broker's transactions support, if it differs from what the broker announces (§4).

    Attributes:
        outcomes: the outcomes that it applies in a transaction: "accepted", "rejected", "released", "modified".
        acquires: it can acquire messages in a transaction (§4.4.3).
        spans_sessions: links of all sessions of a connection can take part, though the coordinator does not announce
            it.
    """

    outcomes: frozenset[str] = frozenset({"accepted", "rejected", "released", "modified"})
    acquires: bool = True
    spans_sessions: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """The requirements of one broker.

    A program that makes its termini by `target` and `source` works unchanged with each broker:

        async with connection.sender(connection.profile.target("orders")) as sender: ...
        async with connection.receiver(connection.profile.source("news", "topic")) as receiver: ...

    Attributes:
        name: the name for `Connection(profile=...)`: "rabbitmq", "artemis", ...
        title: the product's name.
        products: the prefixes by which the open's property "product" or "platform" identifies this broker (§2.7.1).
        hosts: the suffixes of host names that identify it.
        queue, topic: the pattern of an address: "{}" stands for the node's name, "{quoted}" for the percent-encoded
            name. None: the broker has no such nodes.
        topic_source: the pattern of a topic's address to receive from, if it differs; "" if a topic cannot be received
            from.
        capabilities: whether a terminus names the kind of its node by the capability "queue" or "topic".
        aborts: it forgets an aborted delivery and goes on (§2.7.5). If False, a sender that has aborted a delivery goes
            on with a new link, once the outcomes on the old one are known.
        early_outcomes: it takes an outcome for a delivery that it is still sending (§2.6.12). Most brokers lose such an
            outcome, so by default the client sends it when the delivery is complete, or at the end of the link.
        unlisted_outcomes: outcomes that it applies though its sources do not list them (§3.5.3), such as "modified".
        keeps_window: it stops sending at the end of the session's window (§2.5.6), even within a message. If False, the
            client does not enforce the window.
        copies: if it confirms "copy", for browsing, messages stay in the queue. If False, it takes them nevertheless,
            and gets them back when the browser is left.
        transactions: the support for transactions; None if it has none, so that the client does not ask.
        resumes: it may keep unsettled deliveries of a link after a loss of the connection (§2.6.13). If False, the
            client does not try to resume.
        timeouts: it keeps a terminus for the timeout that it confirms (§3.5.3).
        reply_capabilities: the capabilities that a dynamic source for replies needs at this broker; the link is then
            attached with settle mode "settled".
        replies_since: the version since which it creates such nodes; "" for all versions.
        tokens_since: the version since which it accepts a new token after the login in 1.0, by `PUT /auth/tokens`; ""
            for all versions. None: it does not, nor by connection.update-secret of 0-9-1.
        hints: the meaning of an outcome ("released") or an error condition at this broker, added to exceptions as a
            note.
        facts: further facts.
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
        """Return the target to send to a node, in this broker's form.

        Args:
            name: the name of the queue or topic, as an administrator knows it.
            fields: further fields of `Target`.

        Raises:
            Unsupported: the broker has no such kind of node.
        """
        return Target(self._address(name, kind, self.queue, self.topic), **self._fields(kind, fields))

    def source(self, name: str, kind: NodeKind = "queue", **fields: Any) -> Source:
        """Return the source to receive from a node, in this broker's form.

        Args:
            name: the name of the queue or topic, as an administrator knows it.
            fields: further fields of `Source`.

        Raises:
            Unsupported: the broker has no such kind of node, or it cannot be received from.
        """
        topic = self.topic_source if self.topic_source is not None else self.topic
        return Source(self._address(name, kind, self.queue, topic or None), **self._fields(kind, fields))

    def require_replies(self, version: str) -> None:
        """Check that the broker creates nodes for replies.

        Args:
            version: the version in the broker's open; "" passes, and leaves the answer to the broker.

        Raises:
            Unsupported: the broker does not create them in this version.
        """
        numbers = _numbers(version)
        if self.replies_since and numbers and numbers < _numbers(self.replies_since):
            shown = version[:MAX_VERSION_LENGTH]
            raise Unsupported(
                f"{self.title} {shown} makes no node for replies before version {self.replies_since}"
                f"{self._advice('replies')}"
            )

    def takes_tokens(self, version: str) -> bool:
        """Return whether the broker accepts a new token after the login, in 1.0.

        Args:
            version: the version in the broker's open.
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
        """Add the meaning of the error at this broker, if the profile has a hint.

        It becomes part of an outcome's text, since the peer mostly says nothing else, and a note of other errors.
        """
        hint = self.hints.get(_key(error))
        if not hint:
            return
        note = f"{self.title}: {hint}"
        if isinstance(error, MessageNotAccepted):
            error.meaning = note
        elif note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _numbers(version: str) -> list[int]:
    # A peer may send a version of any length, and Python refuses to parse thousands of digits.
    return [int(number) for number in re.findall(r"\d+", version[:MAX_VERSION_LENGTH])]


def _key(error: AmqpError) -> str:
    """Return the key of an error's hint: the error condition, or the outcome's name if there is no condition."""
    if isinstance(error, MessageNotAccepted) and not (isinstance(error, MessageReleased) and error.condition):
        return type(error).__name__.removeprefix("Message").lower()
    return str(error.condition or "") if isinstance(error, EndpointError | MessageReleased) else ""
