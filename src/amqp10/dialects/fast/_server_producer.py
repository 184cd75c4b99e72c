"""A link on which the server receives: messages of a handle, and what becomes of them as replies.

AMQP/Fast has no credit for who sends. What comes beyond the link's credit is held here, in order, and when that is much
the engine asks to read no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...engine import (
    DeliveriesReceived,
    IncomingDelivery,
    IncomingStream,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    ReceiverLink,
)
from ...errors import LocalProtocolError
from ...messaging import Error, Modified, Rejected, Released, Target
from ._content import Assembly
from ._endpoints import FastLink
from ._restart import kept_part, parts_of

if TYPE_CHECKING:
    from ...messaging import DeliveryState
    from ._server_handle import ServerHandle
    from ._server_session import ServerSession


class ServerProducer(FastLink, ReceiverLink):
    """See `ReceiverLink`.

    Attributes:
        anonymous: each message says where it goes.
    """

    session: ServerSession
    is_sender = False

    def __init__(self, handle: ServerHandle, remote: LinkTerms) -> None:
        super().__init__(handle.session, remote.name)
        self.remote = remote
        self.anonymous = isinstance(remote.target, Target) and not (remote.target.address or remote.target.dynamic)
        self.credit = 0
        self.available = 0
        self.incoming: deque[IncomingDelivery] = deque()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.partial_state: DeliveryState | None = None
        self.delivery_type = IncomingDelivery
        self.streaming = False
        self._handle = handle
        self._held: deque[tuple[IncomingDelivery, int]] = deque()
        self._number = 0
        self._tags: dict[bytes, int] = {}  # confirm-tags of what is unsettled
        self._parts: dict[bytes, Assembly] = {}  # of messages that were cut off, by their heads
        self._listening: dict[bytes, Callable[[DeliveryState | None], None]] = {}
        self.engine.emit(LinkAttached(self))

    # Attaching

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.terms is not None or self.gone:
            raise LocalProtocolError("the link was answered already")
        self.terms = terms
        self.attached = True
        self._parts = parts_of(resuming or ())
        self._engine.partial += sum(part.weight for part in self._parts.values())
        if self is self._handle.producer:
            assert self.remote is not None
            target, asked = terms.target, self.remote.target
            dynamic = isinstance(asked, Target) and asked.dynamic and isinstance(target, Target)
            self._handle.opened(target.address if dynamic and isinstance(target, Target) else None)

    def refuse(self, error: Error) -> None:
        self.terms = self.remote
        self._handle.close(error)

    @property
    def settled_by_sender(self) -> bool:
        return False

    @property
    def holding(self) -> bool:
        """Messages are held for which there is no credit."""
        return bool(self._held)

    # Messages

    def take(
        self,
        payload: bytes,
        message_format: int,
        confirm_tag: int,
        *,
        state: DeliveryState | None = None,
        told: Callable[[DeliveryState | None], None] | None = None,
    ) -> None:
        """A message is here, whole; `told` hears of its outcome instead of the client, None if there will be none."""
        if told is not None and (self.gone or self._handle.closing):
            told(None)
            return
        self._number += 1
        tag = self._number.to_bytes(8, "big")
        delivery = self.delivery_type(self, self._number & 0xFFFF_FFFF, tag, payload, not (confirm_tag or told))
        delivery.message_format = message_format
        delivery.remote_state = state
        if told is not None:
            self._listening[tag] = told
        elif confirm_tag:
            self._tags[tag] = confirm_tag
        if self.credit > 0:  # then nothing is held
            self._hand_out(delivery)
        else:
            self._held.append((delivery, len(payload)))
            if told is None:  # else it counts with its transaction
                self._engine.hold(1, len(payload))

    def _hand_out(self, delivery: IncomingDelivery) -> None:
        self.credit -= 1
        if not delivery.local_settled:
            self.unsettled[delivery.tag] = delivery
        if self.streaming:
            delivery.stream = IncomingStream()
            delivery.stream.parts.append(delivery.payload)
            delivery.stream.whole = True
            delivery.stream.size = len(delivery.payload)
            delivery.payload = b""
        self.incoming.append(delivery)
        if len(self.incoming) == 1:
            self.engine.emit(DeliveriesReceived(self))

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        if not self.attached:
            raise LocalProtocolError(f"the link {self._name!r} is not attached")
        self.credit = credit
        released = octets = 0
        while self._held and self.credit > 0:
            delivery, size = self._held.popleft()
            self._hand_out(delivery)
            if delivery.tag not in self._listening:
                released, octets = released + 1, octets + size
        if released:
            self._engine.hold(-released, -octets)

    @property
    def _engine(self) -> Any:
        return self.engine

    def drop_held(self) -> None:
        """The handle ends over a fault: what it sent and nobody has seen never came."""
        sizes = [size for delivery, size in self._held if delivery.tag not in self._listening]
        self._held.clear()
        if sizes:
            self._engine.hold(-len(sizes), -sum(sizes))
        listening, self._listening = self._listening, {}
        for told in listening.values():
            told(None)

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
            raise LocalProtocolError(f"the link {self._name!r} is gone: the delivery is the sender's to send again")
        if state is not None:
            delivery.state = state
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)
        told = self._listening.pop(delivery.tag, None)
        if told is not None:
            told(state)
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
        """What came of messages that were cut off."""
        coming = self._handle.coming
        whole = [] if coming is None or coming.size == 0 else [coming]
        return [kept_part(self, assembly) for assembly in (*self._parts.values(), *whole)]

    def prepared(self, head: bytes) -> Assembly | None:
        """What is there of the message with that head; it is not kept here any more."""
        found = self._parts.pop(head, None)
        if found is not None:
            self._engine.partial -= found.weight
        return found

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        if not self.gone:
            self._handle.close(error)

    def leave(self, closed: bool | None, cause: Any) -> None:
        """The client has left. It is told now, and goes on until the outcomes of what came before are told."""
        self.drop_held()
        self._engine.partial -= sum(part.weight for part in self._parts.values())
        self.session.links.pop(self, None)
        if not self.gone:
            self.gone = True
            self.engine.emit(LinkEnded(self, True, cause))
