"""python-qpid-proton with real messages, by its handlers."""

from __future__ import annotations

import json
import time
from typing import Any

from clock import Clock
from proton import Message, symbol, timestamp
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, Container
from real_messages import IN_FLIGHT, LINK_CREDIT, Messages, clock_of

clock: Clock = clock_of("proton")
messages = Messages(clock, timestamp)


def connect(container: Any) -> Any:
    host = f"amqp://{clock.host}:{clock.port}"
    return container.connect(host, allowed_mechs="ANONYMOUS", max_frame_size=131_072, reconnect=False)


def orders() -> Any:
    for message_id, each in messages.each_order():
        message = Message(
            body=json.dumps(each["order"]).encode(),
            inferred=True,
            id=message_id,
            subject=each["subject"],
            reply_to=each["reply_to"],
            correlation_id=each["correlation_id"],
            content_type=each["content_type"],
            properties=each["application_properties"],
            annotations={symbol(name): value for name, value in each["message_annotations"].items()},
        )
        message.creation_time = each["creation_time"] / 1000
        yield message


def rows() -> Any:
    for message_id, row in messages.each_row():
        yield Message(body=row, id=message_id)


class Send(MessagingHandler):
    """Sends while there is credit; with "one", when the one before is accepted."""

    sent = 0

    def __init__(self) -> None:
        super().__init__()
        self.made = orders() if clock.mode == "order-send" else rows()
        self.began = 0.0

    def on_start(self, event: Any) -> None:
        event.container.create_sender(connect(event.container), clock.address, options=AtLeastOnce())

    def on_link_opened(self, event: Any) -> None:
        clock.begin()

    def on_sendable(self, event: Any) -> None:
        if clock.mode == "one":
            if not self.sent:
                self.send_one(event.sender)
            return
        while event.sender.credit and self.sent < clock.total:
            event.sender.send(next(self.made))
            self.sent += 1

    def send_one(self, sender: Any) -> None:
        self.sent += 1
        self.began = time.perf_counter()
        sender.send(Message(body=clock.body, inferred=True))

    def on_accepted(self, event: Any) -> None:
        if clock.mode == "one":
            clock.latencies.append(time.perf_counter() - self.began)
        if clock.tick():
            clock.report()
            event.connection.close()
        elif clock.mode == "one":
            self.send_one(event.link)


def read_order(message: Any) -> None:
    """Look at every field."""
    properties, annotations = message.properties, message.annotations
    seen = (
        message.id,
        message.subject,
        message.reply_to,
        message.correlation_id,
        message.content_type,
        message.creation_time,
        message.body,
        properties["region"],
        properties["attempt"],
        properties["total"],
        properties["express"],
        properties["due"],
        properties["trace"],
        annotations["x-opt-partition-key"],
        annotations["x-opt-sequence-number"],
    )
    assert len(seen) == 15


def read_row(message: Any) -> None:
    assert message.id
    assert len(message.body) == 19


class Receive(MessagingHandler):
    """Accepts by returning."""

    def __init__(self) -> None:
        super().__init__(prefetch=LINK_CREDIT if clock.mode == "links" else IN_FLIGHT)
        self.read = read_row if clock.mode == "row-receive" else read_order

    def on_start(self, event: Any) -> None:
        connection = connect(event.container)
        for number in range(clock.links):
            event.container.create_receiver(connection, clock.address, name=f"link-{number}", options=AtLeastOnce())
        clock.begin()

    def on_message(self, event: Any) -> None:
        self.read(event.message)
        if clock.tick():
            self.accept(event.delivery)
            clock.report()
            event.connection.close()


class Relay(MessagingHandler):
    """Accepts what came when what was made of it is accepted."""

    def __init__(self) -> None:
        super().__init__(prefetch=IN_FLIGHT, auto_accept=False)
        self.waiting: list[tuple[Any, Any]] = []
        self.flying: dict[str, Any] = {}
        self.sender: Any = None

    def on_start(self, event: Any) -> None:
        connection = connect(event.container)
        self.sender = event.container.create_sender(connection, "relayed", options=AtLeastOnce())
        event.container.create_receiver(connection, clock.address, options=AtLeastOnce())
        clock.begin()

    def on_message(self, event: Any) -> None:
        self.waiting.append((event.message, event.delivery))
        self.go()

    def on_sendable(self, event: Any) -> None:
        self.go()

    def go(self) -> None:
        while self.waiting and self.sender.credit:
            message, delivery = self.waiting.pop(0)
            made = Message(
                body=message.body,
                inferred=True,
                subject=f"relayed.{message.subject}",
                correlation_id=message.id,
                properties={"region": message.properties["region"]},
            )
            self.flying[self.sender.send(made).tag] = delivery

    def on_accepted(self, event: Any) -> None:
        self.accept(self.flying.pop(event.delivery.tag))
        if clock.tick():
            clock.report()
            event.connection.close()


def handler() -> MessagingHandler:
    if clock.mode == "relay":
        return Relay()
    if clock.mode in ("order-send", "row-send", "one"):
        return Send()
    return Receive()


if clock.mode == "order-send":
    clock.also["json"] = messages.json_us()
Container(handler()).run()
