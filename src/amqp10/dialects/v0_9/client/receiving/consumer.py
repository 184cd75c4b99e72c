"""The consumers that a receiving link has at the peer, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from ....._machine import RECEIVED, Machine
from ....._machine import Step as AnyStep
from ...codes import Fault
from ...message.streams import consumer_arguments, stream_arguments
from ...states import CONSUMER, ConsumerState, Step
from ...wire.methods import BasicCancel, BasicConsume

if TYPE_CHECKING:
    from .....engine import Address, LinkTerms
    from ...engine import V09Engine

MAX_NAME: Final = 200
"""The greatest number of octets of a link's name in the tags of its consumers."""


class ConsumingLink(Protocol):
    """A receiving link, as its consumer sees it.

    Attributes:
        engine: its engine, which knows queues that are streams or have a single active consumer.
        terms: what the user asked for.
        address: where the messages come from; known when the link attaches.
    """

    engine: V09Engine
    terms: LinkTerms
    address: Address


class Consumer(Machine[ConsumerState]):
    """The present consumer of a link, as 0-9-1 means the word: what `basic.consume` begins and `basic.cancel` ends.

    Attributes:
        tag: the consumer-tag; no other consumer of the link has it.
        after: the number of the last delivery before the consumer was asked for.
        changing: a consume or cancel was sent, and the peer did not answer it yet.
        place: in a stream, the offset at which the next consumer begins; None before the first message, and for other
            queues.
        no_ack: the peer takes each delivery for acked.
    """

    noun = "consumer"
    transitions: ClassVar[dict[tuple[ConsumerState, Step], ConsumerState]] = CONSUMER

    def __init__(self, link: ConsumingLink, name: str, *, no_ack: bool = False) -> None:
        self.state = ConsumerState.NONE
        self.tag: str = ""
        self.after: int = 0
        self.changing: bool = False
        self.place: int | None = None
        self.no_ack = no_ack
        self._link = link
        self._name = name.encode()[:MAX_NAME].decode(errors="ignore")
        self._count = 0

    def start(self, after: int) -> None:
        """Begin a new consumer, whose consume is about to be written."""
        self._count += 1
        self.tag = f"{self._name}.{self._count}" if self._count > 1 else self._name
        self.after = after
        self.advance(Step.SEND_CONSUME)

    @property
    def queue(self) -> str:
        return self._link.address.key or ""

    def consume(self) -> BasicConsume:
        """Return the method that asks for the consumer."""
        link = self._link
        return BasicConsume(
            queue=self.queue,
            consumer_tag=self.tag,
            exclusive=bool(link.terms.properties.get("exclusive")),
            arguments=consumer_arguments(link.terms, self.place),
        )

    def cancel(self) -> BasicCancel:
        """Begin to cancel the consumer, and return the method to write."""
        self.advance(Step.SEND_CANCEL)
        return BasicCancel(consumer_tag=self.tag)

    @property
    def holds_exclusive_slot(self) -> bool:
        """Return whether others would take the place of the consumer, exclusive or active, if it were cancelled."""
        link = self._link
        return bool(link.terms.properties.get("exclusive")) or link.address.key in link.engine.single_active

    @property
    def gets(self) -> bool:
        """Return whether basic.get may take the place of the consumer: for a stream, that would end the connection."""
        link = self._link
        known = link.address.key in link.engine.streams
        is_stream = known or self.place is not None or bool(stream_arguments(link.terms.source))
        return not (self.no_ack or is_stream)

    def entered(self, state: ConsumerState) -> None:
        self.changing = state in (ConsumerState.STARTING, ConsumerState.CANCELLING)

    def illegal(self, step: AnyStep) -> Exception:
        if step.way == RECEIVED:
            return Fault(503, f"basic.{step.what}, which was not asked for")
        return super().illegal(step)
