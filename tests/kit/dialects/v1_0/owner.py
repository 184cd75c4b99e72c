"""A client's engine whose owner hears of each delivery."""

from __future__ import annotations

from collections import Counter
from typing import Any

from amqp10.dialects.v1_0.wire.frames import AMQP_HEADER, encode_disposition, encode_frame
from amqp10.dialects.v1_0.wire.performatives import Attach, Begin, Flow, Open
from amqp10.engine import (
    ConnectionTerms,
    Engine,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    RunAccepted,
    SenderLink,
    UntrackedAccepted,
    dialect,
)
from amqp10.errors import LocalProtocolError
from amqp10.messaging import ACCEPTED, Source, Target

FIRST = 0xFFFF_FFF8  # of the delivery-ids, and of one link's tags: they soon pass the end of their numbers


def said(*frames: Any) -> bytes:
    return b"".join(encode_frame(0 if isinstance(frame, Open) else 3, frame) for frame in frames)


def flow(handle: int, credit: int, window: int) -> Flow:
    """The receiver's, who had seen nothing yet."""
    return Flow(0, window, 0, 5, handle=handle, delivery_count=0, link_credit=credit)


def engine(window: int, credit: int, largest: int | None = None) -> tuple[Engine, list[SenderLink]]:
    """A client with two senders, and the peer's half of the attaching taken in."""
    client = dialect("1.0").client(ConnectionTerms("client"), None, True)
    client.start()
    client.open()
    session: Any = client.begin()
    links = [session.attach_sender(LinkTerms(str(handle), Source(), Target("q"))) for handle in range(2)]
    attaches = [Attach(str(handle), handle, True, max_message_size=largest) for handle in range(2)]
    for attach in attaches:
        attach.source, attach.target = Source(), Target("q")
    flows = [flow(handle, credit, window) for handle in range(2)]
    client.receive_data(
        AMQP_HEADER + said(Open("server", max_frame_size=600), Begin(0, 0, window, 5), *attaches, *flows)
    )
    assert all(link.attached for link in links)
    session.next_delivery_id = FIRST
    links[1]._next_tag = FIRST
    client.events()
    client.data_to_send()
    return client, links


class Owner:
    """Sends what nobody holds, by `post` and `send_run` or by `send`, and notes what is to be known of it."""

    def __init__(self, posts: bool, *terms: Any) -> None:
        self.posts = posts
        self.client, self.links = engine(*terms)
        self.seen: list[Any] = []
        self.accepted: Counter[Any] = Counter()  # by waiter
        self.objects = 0

    def send(self, link: int, waiter: Any, size: int, settled: bool) -> None:
        payload = bytes((size & 255,)) * size
        ours = self.links[link]
        try:
            if self.posts:
                delivery = ours.send_untracked(payload, waiter, settled=settled)
                self.objects += delivery is not None
            else:
                ours.send(payload, settled=settled).waiter = None if settled else waiter
        except LocalProtocolError as error:
            self.seen.append(str(error))

    def run(self, link: int, count: int) -> None:
        """Send messages together, if there is room for all of them."""
        ours, waiters = self.links[link], [f"run {number}" for number in range(count)]
        if self.posts and ours.run_room(1) >= count:
            ours.send_run([b"run"] * count, waiters)
            return
        for waiter in waiters:
            try:
                ours.send(b"run").waiter = waiter
            except LocalProtocolError as error:
                self.seen.append(str(error))

    def hold(self, link: int, number: int | None = None) -> None:
        """Send what somebody holds; its tag is the sender's own choice, if that is a number: one that posts come to."""
        first = (0, FIRST)[link]
        tag = None if number is None else (first + number & 0xFFFF_FFFF).to_bytes(4, "big")
        try:
            self.links[link].send(b"held", tag=tag).waiter = "its holder"
        except LocalProtocolError as error:
            self.seen.append(str(error))

    def told(self, first: int, count: int, settled: bool, state: Any) -> None:
        first = FIRST + first & 0xFFFF_FFFF
        last = first + count - 1 & 0xFFFF_FFFF
        self.hear(encode_disposition(3, True, first, last, settled, state))

    def hear(self, data: bytes) -> None:
        self.client.receive_data(data)
        for event in self.client.events():
            if isinstance(event, UntrackedAccepted):
                self.accepted[event.waiter] += event.count
            elif isinstance(event, RunAccepted):
                self.accepted.update(event.waiters)
            elif isinstance(event, OutcomesReceived):
                for delivery in event.deliveries:
                    if delivery.remote_state == ACCEPTED and delivery.remote_settled:
                        self.accepted[delivery.waiter] += 1
                    else:
                        self.seen.append(facts(delivery))
            else:
                self.seen.append(type(event))

    def detach(self, link: int, errant: bool) -> None:
        """The sender leaves it, with what is out; for a fault of the peer's, who is to say nothing of it any more."""
        ours: Any = self.links[link]
        if errant:
            ours.fail("test:fault", "")
        else:
            ours.detach()

    def look(self) -> None:
        self.seen += [[facts(delivery) for delivery in link.unsettled.values()] for link in self.links]

    def count(self) -> None:
        self.seen += [link.count_unsettled() for link in self.links]

    def all_seen(self) -> list[Any]:
        links: list[Any] = self.links
        counts = [(link.credit, link.attached, link.flow_state.delivery_count) for link in links]
        window = links[0].session.window
        more = (window.next_outgoing_id, window.remote_incoming_window, links[0].session.next_delivery_id)
        return [self.seen, self.accepted, counts, more, self.client.data_to_send()]


def facts(delivery: OutgoingDelivery) -> tuple[Any, ...]:
    said = (delivery.local_settled, delivery.state, delivery.remote_state, delivery.remote_settled)
    return (delivery.delivery_id, delivery.tag, delivery.payload, delivery.waiter, delivery.on_wire, *said)
