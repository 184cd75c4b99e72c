"""Two engines whose connection is lost and made anew, with a link that is resumed on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amqp10.engine import (
    ConnectionTerms,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    ReceiverSettleMode,
    SenderLink,
    SessionTerms,
)
from amqp10.messaging import Source, Target
from amqp10.testing import EnginePair


class Ends:
    """A link from `sender` to `receiver`; who attaches it is `by`.

    Attributes:
        pair: the engines that have it now.
        told: the events that the last `attach` brought, by side.
    """

    def __init__(
        self,
        mode: ReceiverSettleMode = "first",
        *,
        by: str = "sender",
        frame_size: int = 131_072,
        streaming: bool = False,
        window: int = 2048,
    ) -> None:
        self.mode = mode
        self.by = by
        self.frame_size = frame_size
        self.streaming = streaming
        self.window = window
        self.auto_settle = True
        self.attach(None, None)

    def attach(
        self, ours: Iterable[OutgoingDelivery] | None, theirs: Iterable[IncomingDelivery] | None, *, credit: int = 100
    ) -> None:
        """Connect anew and attach, each side with these deliveries to resume."""
        terms = [ConnectionTerms(name, max_frame_size=self.frame_size) for name in ("client", "server")]
        self.pair = EnginePair(client=terms[0], server=terms[1])
        self.pair.open()
        session = self.pair.begin(SessionTerms(incoming_window=self.window), SessionTerms(incoming_window=self.window))[
            0
        ]
        said = LinkTerms("link", Source("q"), Target("q"), receiver_settle_mode=self.mode)
        link: Any
        if self.by == "sender":
            self.sender: SenderLink = session.attach_sender(said, resuming=ours)
            self.sender.auto_settle = self.auto_settle
        else:
            self.receiver: ReceiverLink = session.attach_receiver(said, resuming=theirs)
            self.receiver.streaming = self.streaming
        self.pair.run()
        link = next(event.link for event in self.pair.server_events if isinstance(event, LinkAttached))
        if self.by == "sender":
            self.receiver = link
            self.receiver.streaming = self.streaming
            link.attach(said, resuming=theirs)
        else:
            self.sender = link
            self.sender.auto_settle = self.auto_settle
            link.attach(said, resuming=ours)
        if credit:
            self.receiver.flow(credit)
        self.pair.run()

    def resume(self, *, credit: int = 100) -> None:
        """Lose the connection, and resume with all that both ends hold."""
        self.pair.lose()
        self.attach(self.sender.suspended(), self.receiver.suspended(), credit=credit)

    def told(self, kind: type[Event]) -> list[Any]:
        """The deliveries, or for events without any the links, that events of this kind have named."""
        self.pair.run()
        events = [event for event in (*self.pair.client_events, *self.pair.server_events) if type(event) is kind]
        self.pair.client_events[:] = [event for event in self.pair.client_events if type(event) is not kind]
        self.pair.server_events[:] = [event for event in self.pair.server_events if type(event) is not kind]
        return [each for event in events for each in getattr(event, "deliveries", [getattr(event, "link", None)])]

    def came(self) -> list[IncomingDelivery]:
        """Return the deliveries that came to the receiver, and take them."""
        self.pair.run()
        deliveries = list(self.receiver.incoming)
        self.receiver.incoming.clear()
        return deliveries
