"""A link on which the server receives: messages of a handle, and what becomes of them as replies.

AMQP/Fast has no credit for senders. Messages beyond the link's credit are held here, in order; when many are held, the
engine asks its owner to stop reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ....engine import (
    IncomingDelivery,
    IncomingStream,
    LinkAttached,
    LinkEnded,
    LinkTerms,
)
from ....errors import LocalProtocolError
from ....messaging import Error, Modified, Rejected, Released, Target
from ..._kit.links import PlainReceiver
from ..link import LinkEndpoint
from ..restart import kept_part, parts_of
from ..states import Step
from ..wire.fragments import Assembly

if TYPE_CHECKING:
    from ....errors import AmqpError
    from ....messaging import DeliveryState
    from .parents import ServerLinkHandle, ServerLinkSession


class ServerReceiver(LinkEndpoint, PlainReceiver):
    """See `ReceiverLink`.

    Attributes:
        anonymous: each message names its own destination.
    """

    session: ServerLinkSession
    terms: LinkTerms | None
    credit: int

    def __init__(self, handle: ServerLinkHandle, remote: LinkTerms) -> None:
        super().__init__(handle.session, remote.name)
        self.remote: LinkTerms = remote
        self.anonymous: bool = isinstance(remote.target, Target) and not (
            remote.target.address or remote.target.dynamic
        )
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self._handle = handle
        self._over_credit: deque[tuple[IncomingDelivery, int]] = deque()
        self._number = 0
        self._tags: dict[bytes, int] = {}  # confirm-tags of unsettled deliveries
        self._parts: dict[bytes, Assembly] = {}  # parts of messages that a lost connection cut off, by their heads
        self._listening: dict[bytes, Callable[[DeliveryState | None], None]] = {}
        self.engine.emit(LinkAttached(self))

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if not self.take_answer(terms):
            return
        self.advance(Step.ATTACH)
        self._parts = parts_of(resuming or ())
        self.session.engine.count_partial(sum(part.weight for part in self._parts.values()))
        if self is self._handle.producer:
            assert self.remote is not None
            target, requested = terms.target, self.remote.target
            dynamic = isinstance(requested, Target) and requested.dynamic and isinstance(target, Target)
            self._handle.opened(target.address if dynamic and isinstance(target, Target) else None)

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._handle.close(error)

    @property
    def holding(self) -> bool:
        """Return whether messages wait for credit."""
        return bool(self._over_credit)

    # Messages

    def take(
        self,
        payload: bytes,
        message_format: int,
        confirm_tag: int,
        *,
        state: DeliveryState | None = None,
        on_outcome: Callable[[DeliveryState | None], None] | None = None,
    ) -> None:
        """Hand out a complete message, or hold it until there is credit.

        Args:
            confirm_tag: the tag for the reply with the outcome; 0 if the client asked for no reply.
            state: the state that the message arrives in, for one that is part of a transaction.
            on_outcome: called with the outcome instead of a reply to the client; with None if no outcome will come.
        """
        if on_outcome is not None and (self.ended or self._handle.closing):
            on_outcome(None)
            return
        self._number += 1
        tag = self._number.to_bytes(8, "big")
        delivery = self.delivery_type(self, self._number & 0xFFFF_FFFF, tag, payload, not (confirm_tag or on_outcome))
        delivery.message_format = message_format
        delivery.remote_state = state
        if on_outcome is not None:
            self._listening[tag] = on_outcome
        elif confirm_tag:
            self._tags[tag] = confirm_tag
        if self.credit > 0:  # then no message is held
            self._hand_over(delivery)
        else:
            self._over_credit.append((delivery, len(payload)))
            if on_outcome is None:  # with `on_outcome` the transaction counts it
                self.session.engine.hold(1, len(payload))

    def _hand_over(self, delivery: IncomingDelivery) -> None:
        self.credit -= 1
        if not delivery.local_settled:
            self.unsettled[delivery.tag] = delivery
        if self.streaming:
            delivery.stream = IncomingStream()
            delivery.stream.parts.append(delivery.payload)
            delivery.stream.whole = True
            delivery.stream.size = len(delivery.payload)
            delivery.payload = b""
        self.hand_out(delivery)

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        self.check_attached()
        self.credit = credit
        released = octets = 0
        while self._over_credit and self.credit > 0:
            delivery, size = self._over_credit.popleft()
            self._hand_over(delivery)
            if delivery.tag not in self._listening:
                released, octets = released + 1, octets + size
        if released:
            self.session.engine.hold(-released, -octets)

    def drop_over_credit(self) -> None:
        """Discard messages that were not handed out, as the handle ends; call each `on_outcome` with None."""
        sizes = [size for delivery, size in self._over_credit if delivery.tag not in self._listening]
        self._over_credit.clear()
        if sizes:
            self.session.engine.hold(-len(sizes), -sum(sizes))
        listening, self._listening = self._listening, {}
        for on_outcome in listening.values():
            on_outcome(None)

    def read(self, delivery: IncomingDelivery) -> bytes | None:
        parts = delivery.stream.parts
        return parts.popleft() if parts else None

    def discard(self, delivery: IncomingDelivery) -> None:
        delivery.stream.discarded = True
        delivery.stream.parts.clear()

    # Outcomes

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if delivery.local_settled:
            return
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is over: the sender may send the message again")
        self.settled_by_owner(delivery, state)
        on_outcome = self._listening.pop(delivery.tag, None)
        if on_outcome is not None:
            on_outcome(state)
            return
        tag = self._tags.pop(delivery.tag, 0)
        if isinstance(state, Released | Modified):
            self._handle.reply(tag, Error("amqp:no-route", "the message could not be routed"))
        elif isinstance(state, Rejected):
            self._handle.reply(tag, state.error or Error("amqp:invalid-field", "the message was rejected"))
        else:
            self._handle.reply(tag)

    # Ending

    def suspended(self) -> list[IncomingDelivery]:
        """Return the received parts of incomplete messages, for the owner to keep."""
        coming = self._handle.coming
        whole = [] if coming is None or coming.size == 0 else [coming]
        return [kept_part(self, assembly) for assembly in (*self._parts.values(), *whole)]

    def prepared(self, head: bytes) -> Assembly | None:
        """Take out the kept part of the message with the encoded head `head`; return None if no part was kept."""
        found = self._parts.pop(head, None)
        if found is not None:
            self.session.engine.count_partial(-found.weight)
        return found

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if not self.ended:
            self._handle.close(error)

    def over(self, closed: bool, cause: AmqpError | None) -> None:
        self.drop_over_credit()
        super().over(closed, cause)

    def leave(self, closed: bool | None, cause: AmqpError | None) -> None:
        """Tell the owner that the client has left; the owner can still settle the messages that it has received."""
        self.drop_over_credit()
        self.session.engine.count_partial(-sum(part.weight for part in self._parts.values()))
        self.session.links.pop(self, None)
        if not self.ended:
            self.advance(Step.LEAVE if self.may(Step.LEAVE) else Step.END_LINK)
            self.engine.emit(LinkEnded(self, True, cause))
