"""A peer of the emulated Service Bus that has its management node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from amqp10.broker import BrokerLimits
from amqp10.broker.azure import AzureConfig, QueueConfig
from amqp10.engine import ReceiverLink, SenderLink
from amqp10.messaging import (
    AmqpValue,
    Message,
    Rejected,
)
from amqp10.types import Array, Decimal32, Described, Symbol, Timestamp, ULong

from ..broker.wire import Wire
from ..inside.broker import Entity, Limits, Namespace, NamespaceLinks, VirtualHostCore, VirtualHostSettings

NOON = 1_790_000_000.0
WHEN = Symbol("x-opt-scheduled-enqueue-time")
SESSION = Symbol("com.microsoft:session-filter")
LATER = Timestamp(int(NOON + 3600) * 1000)


class Bus(Wire):
    """A peer of a broker with the queue "orders".

    Attributes:
        clock: the time in seconds since 1970.
    """

    def __init__(self, *, users: bool = False, peers: BrokerLimits | None = None, **settings: Any) -> None:
        config = QueueConfig("orders", max_delivery_count=3, dead_letter_expired=True, duplicate_window=60.0)
        self.clock: Callable[[], float] = lambda: NOON
        limits = Limits(**settings)
        vhost = VirtualHostCore(
            VirtualHostSettings(limits=limits, check_user_id=users, peers=peers or BrokerLimits()), clock=lambda: 0.0
        )
        azure = AzureConfig([config, "open"], event_hubs=["telemetry"], clock=lambda: self.clock())
        namespace = Namespace(azure, vhost)
        super().__init__(vhost, service=partial(NamespaceLinks, namespace))
        found = namespace.find("orders")
        assert found is not None
        self.orders: Entity = found

    def pair(self, credit: int = 10_000) -> tuple[SenderLink, ReceiverLink]:
        """Links to the management node, and back."""
        responses = self.receive_from("orders/$management", credit=credit, name="answers")
        return self.send_to("orders/$management"), responses

    def ask(self, links: tuple[SenderLink, ReceiverLink], payload: bytes) -> Message | Rejected:
        """The answer to a request, or why there is none."""
        requests, responses = links
        delivery = requests.send(payload)
        self.turn()
        assert not self.over
        if responses.incoming:
            return Message.decode(responses.incoming.popleft().payload)
        assert isinstance(delivery.remote_state, Rejected)
        return delivery.remote_state

    def do(self, operation: str, body: Any) -> Message:
        """The answer to one request on links of its own."""
        links = self.pair()
        answer = self.ask(links, request(operation, body))
        for link in links:
            link.detach(closed=True)
        self.turn()
        assert isinstance(answer, Message)
        return answer

    def send(self, message: Message | bytes, message_format: int = 0) -> Any:
        """The outcome of a message for the queue."""
        link = self.send_to("orders", name=f"sender-{uuid4()}")
        payload = message if isinstance(message, bytes) else message.encode()
        delivery = link.send(payload, message_format=message_format)
        self.turn()
        link.detach(closed=True)
        self.turn()
        return delivery.remote_state

    def received(self, count: int = 1) -> list[Any]:
        """What is received, and stays locked."""
        link = self.receive_from("orders", credit=count, name=f"receiver-{uuid4()}")
        taken = list(link.incoming)
        link.detach(closed=True)
        self.turn()
        return taken


def request(operation: str, body: Any, **said: Any) -> bytes:
    properties = {"operation": f"com.microsoft:{operation}", **said}
    return Message(AmqpValue(body), message_id=1, application_properties=properties).encode()


def status(answer: Message) -> int:
    code = answer.application_properties["statusCode"]
    assert isinstance(code, int)
    assert answer.application_properties["statusDescription"]
    return int(code)


def token_of(delivery: Any) -> UUID:
    return UUID(bytes_le=delivery.tag)


ODD: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**63 - 1, -(2**63), ULong(2**64 - 1), 1.5, float("nan"), float("inf")),
    *(Decimal32("sNaN"), b"", b"x" * 300, "", "x" * 300, "\0", Symbol("a"), uuid4(), Timestamp(2**63 - 1)),
    *(Timestamp(-(2**63)), [], [None], {}, {"a": 1}, {1: [2]}, Array("long", [1, 2]), Array("uuid", [])),
    *(Described(ULong(0x24), []), [[[[[]]]]]),
)
