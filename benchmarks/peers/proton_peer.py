"""python-qpid-proton: a `MessagingHandler` in a `Container`, as in its examples."""

from __future__ import annotations

from typing import Any

from clock import Clock
from proton import Message, SSLDomain
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container

clock = Clock("proton")
options = AtMostOnce() if clock.settled else AtLeastOnce()


def connect(container: Any) -> Any:
    host = f"{'amqps' if clock.ca else 'amqp'}://{clock.host}:{clock.port}"
    domain = None
    if clock.ca:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(clock.ca)
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    return container.connect(
        host, ssl_domain=domain, allowed_mechs="ANONYMOUS", max_frame_size=131_072, reconnect=False
    )


class Send(MessagingHandler):
    """Sends while there is credit."""

    sent = 0

    def on_start(self, event: Any) -> None:
        event.container.create_sender(connect(event.container), clock.address, options=options)

    def on_link_opened(self, event: Any) -> None:
        clock.begin()

    def on_sendable(self, event: Any) -> None:
        sender = event.sender
        while sender.credit and self.sent < clock.total:
            sender.send(Message(body=clock.body, inferred=True))
            self.sent += 1
            if clock.settled and clock.tick():
                sender.close()

    def on_accepted(self, event: Any) -> None:
        if clock.tick():
            clock.report()
            event.connection.close()

    def on_link_closed(self, event: Any) -> None:
        if clock.settled:
            clock.report()
            event.connection.close()


class Receive(MessagingHandler):
    """Accepts by returning."""

    def __init__(self) -> None:
        super().__init__(prefetch=1000)

    def on_start(self, event: Any) -> None:
        event.container.create_receiver(connect(event.container), clock.address, options=options)

    def on_link_opened(self, event: Any) -> None:
        clock.begin()

    def on_message(self, event: Any) -> None:
        assert len(event.message.body) == clock.size
        if clock.tick():
            if not clock.settled:
                self.accept(event.delivery)
            clock.report()
            event.connection.close()


Container(Send() if clock.mode == "send" else Receive()).run()
