"""Consumers that have credit and wait for room: however many they are, a little room costs the broker little."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import pytest

from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.broker.azure import AzureConfig, EventHubConfig
from amqp10.dialects.v0_9.wire.methods import BasicAck, BasicConsume, BasicGet, BasicQos, ChannelFlow, QueueDeclare
from amqp10.engine import SessionTerms
from amqp10.messaging import ACCEPTED, AmqpValue, Message, Target

from ..kit.broker.client_0_9_1 import Client091, published, said
from ..kit.broker.wire import Wire, bodies
from ..kit.inside.broker import Limits, Namespace, NamespaceLinks, VirtualHostSettings
from ..kit.steps import steps


def broker() -> VirtualHostCore:
    return VirtualHostCore(VirtualHostSettings(limits=Limits(credit=100_000)), clock=lambda: 0.0)


def filled(vhost: VirtualHostCore, name: str, count: int) -> None:
    wire = Wire(vhost)
    link = wire.send_to(name)
    for number in range(count):
        link.send(Message(number).encode())
        wire.turn()


class Narrow(Wire):
    """A connection whose output has room for one message."""

    def blocked(self) -> bool:
        return self.server.output_size > 0


def at_azure(vhost: VirtualHostCore, **terms: Any) -> Wire:
    """A connection to the emulated services, which have the queue "q" and the event hub "hub"."""
    namespace = Namespace(AzureConfig(["q"], event_hubs=[EventHubConfig("hub", partitions=1)]), vhost)
    return Wire(vhost, service=partial(NamespaceLinks, namespace), **terms)


def one_window(consumers: int, connect: Callable[..., Wire] = Wire) -> Callable[[], object]:
    """Open the window of a session by one message; all consumers wait for it."""
    vhost = broker()
    wire = connect(vhost, session=SessionTerms(incoming_window=1))
    links = [wire.receive_from("q", name=f"r{number}", credit=5) for number in range(consumers)]
    filled(vhost, "q", 5)

    said = wire.server.data_to_send()

    def act() -> None:
        nonlocal said
        wire.client.receive_data(said)
        said = wire.take(wire.client.data_to_send())

    act()
    assert sum(len(link.incoming) for link in links) == 1
    return act


def one_window_at_azure(consumers: int) -> Callable[[], object]:
    """Open the window of a session whose links receive from Service Bus."""
    return one_window(consumers, at_azure)


def one_request_at_azure(links: int) -> Callable[[], object]:
    """Ask the management node, to which the peer has so many links for answers."""
    wire = at_azure(broker())
    requests = wire.send_to("q/$management")
    for number in range(links):
        wire.receive_from("q/$management", credit=10, name=f"r{number}", target=Target(f"here {number}"))
    said = {"operation": "com.microsoft:peek-message"}
    body = {"from-sequence-number": 0, "message-count": 1}
    request = Message(AmqpValue(body), message_id=1, reply_to="here 50", application_properties=said).encode()

    def act() -> None:
        delivery = requests.send(request)
        wire.turn()
        assert delivery.remote_state == ACCEPTED

    return act


def one_read(consumers: int) -> Callable[[], object]:
    """Make room for one message in the output; all consumers wait for it."""
    vhost = broker()
    wire = Narrow(vhost)
    for number in range(consumers):
        wire.receive_from("q", name=f"r{number}", credit=5)
    filled(vhost, "q", 5)

    def act() -> None:
        assert len(wire.server.data_to_send()) < 100
        wire.peer.resume()

    return act


def one_ack(consumers: int) -> Callable[[], object]:
    """Take and settle a message by basic.get, at the limit that the consumers of a channel share."""
    client = Client091(broker())
    client.put(said(BasicQos(prefetch_count=4, global_=True)) + said(QueueDeclare(queue="s")))
    for _ in range(consumers):
        client.put(said(BasicConsume(queue="s")))
    client.put(published("s") + published("r") * 3)
    client.put(said(BasicGet(queue="r")))
    number = 5
    client.heard.clear()

    def act() -> None:
        client.put(said(BasicAck(number)) + said(BasicGet(queue="r")))
        assert client.heard == ["basic.get-ok"]

    return act


def one_pause(consumers: int) -> Callable[[], object]:
    """Pause a channel with consumers, and let it go on."""
    client = Client091(broker())
    client.put(said(QueueDeclare(queue="s")))
    for _ in range(consumers):
        client.put(said(BasicConsume(queue="s")))

    def act() -> None:
        client.put(said(ChannelFlow(False)))
        client.put(said(ChannelFlow(True)))

    return act


@pytest.mark.parametrize(
    "setting", [one_window, one_window_at_azure, one_request_at_azure, one_read, one_ack, one_pause]
)
def test_a_little_room_costs_little(setting: Callable[[int], Callable[[], object]]) -> None:
    """A little room costs as much with four times as many consumers."""
    setting(100)()
    assert steps(setting(480)) < 1.2 * steps(setting(120))


@pytest.mark.parametrize(
    ("to", "source"), [("q", "q"), ("hub", "hub/ConsumerGroups/$Default/Partitions/0")], ids=["queue", "hub"]
)
def test_azure_goes_on(to: str, source: str) -> None:
    """A link of Service Bus and one of Event Hubs get the messages that waited for the window, one by one."""
    vhost = broker()
    wire = at_azure(vhost, session=SessionTerms(incoming_window=1))
    link = wire.receive_from(source, credit=5)
    filled(vhost, to, 5)
    wire.turn()
    assert [Message.decode(each.payload).body for each in link.incoming] == [0, 1, 2, 3, 4]


def test_all_go_on() -> None:
    """All consumers that wait for the window get their messages, in turns, when it opens wide."""
    vhost = broker()
    wire = Wire(vhost, session=SessionTerms(incoming_window=7))
    links = [wire.receive_from("q", name=f"r{number}", credit=2) for number in range(150)]
    filled(vhost, "q", 300)
    wire.turn()
    assert {len(link.incoming) for link in links} == {2}
    assert sorted(chain.from_iterable(map(bodies, links))) == list(range(300))
