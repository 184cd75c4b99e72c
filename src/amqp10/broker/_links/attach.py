"""The attach of a link on which a peer receives: what it asks for, and the broker's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...engine import LinkTerms
from ...messaging import Outcome
from .._errors import Refused
from .._filters.filter_set import read_filters
from .._queues.queue import Queue
from .._queues.stream import Stream
from .._queues.stream_offsets import NEXT, StreamPosition, read_stream_filters
from .._queues.topic import Topic
from .._retained.subscriptions import is_retained, key_of
from .consumer import ConsumerOptions
from .terminus import answer_source, copies, default_outcome

if TYPE_CHECKING:
    from ...messaging import Source, TerminusDurability
    from .._peer import Peer
    from .._queues.node import Node
    from .._queues.selection import Filtering
    from .._queues.topic import SubscriptionKey
    from .._retained.retained import Lifetime


@dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """The attach of a receiver, after the checks that need no other objects.

    Attributes:
        key: the key of a subscription that outlives its link or is shared; None for any other consumer.
        copying: whether it only browses.
        settles: whether messages are sent settled.
        filters: the filters that are applied; `filtering` is their joint test, None if all messages pass.
        place: where it begins to read in a stream.
    """

    source: Source
    node: Node
    key: SubscriptionKey | None
    copying: bool
    settles: bool
    outcome: Outcome
    filters: dict[Any, Any] | None
    filtering: Filtering | None
    place: StreamPosition
    options: ConsumerOptions

    @classmethod
    def read(
        cls, remote: LinkTerms, source: Source, node: Node, key: SubscriptionKey | None, peer: Peer
    ) -> ConsumerRequest:
        """Read an attach.

        Raises:
            Refused: a part of it is invalid or not supported.
        """
        copying = copies(source, node)
        filters, filtering = read_filters(source.filter, peer.number)
        place = NEXT
        if isinstance(node, Stream):
            place, filters, filtering = read_stream_filters(source.filter, filters, filtering)
        outcome = default_outcome(source, node)
        options = ConsumerOptions.of(remote, copying=copying)
        if key is None and isinstance(node, Topic) and not source.dynamic and is_retained(source):
            key = key_of(peer.owner, remote.name, source)
        settles = remote.settle_mode == "settled"
        return cls(source, node, key, copying, settles, outcome, filters, filtering, place, options)

    @property
    def is_resumable(self) -> bool:
        """Whether the link may be resumed: what it holds can be kept, and its queue stays without it."""
        unkept = self.copying or self.settles or "shared" in self.source.capabilities
        return self.source.dynamic or not (unkept or (isinstance(self.node, Topic) and self.key is None))

    def check_admitted(self, in_use: Node | None) -> None:
        """Check that the queue to consume from, if it exists, takes one more consumer.

        Raises:
            Refused: a consumer is exclusive, or a single message of a stream is asked for.
        """
        if isinstance(self.node, Stream) and self.options.one_shot:
            reason = f"{self.node.name!r} is a stream: its messages are not got one by one"
            raise Refused("amqp:not-implemented", reason, reply_code=540)
        stays = not self.copying and not self.options.one_shot
        if isinstance(in_use, Queue) and stays and in_use.locked(self.options.exclusive):
            reason = f"a consumer of {self.node.name!r} is to be the only one"
            raise Refused("amqp:resource-locked", reason, reply_code=403)

    def answer(self, remote: LinkTerms, lifetime: Lifetime | None, durable: TerminusDurability) -> LinkTerms:
        """Return the broker's answer to the attach."""
        return LinkTerms(
            name=remote.name,
            source=answer_source(
                self.source,
                self.node,
                copying=self.copying,
                outcome=self.outcome,
                dynamic=self.source.dynamic,
                filters=self.filters,
                lifetime=lifetime,
                durable=durable,
            ),
            target=remote.target,
            settle_mode="settled" if self.settles else "unsettled",
            receiver_settle_mode=remote.receiver_settle_mode,
            properties=self.options.properties(),
        )
