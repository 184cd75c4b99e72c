"""Values of any type wherever 1.0 lets a peer say a value: each is taken or refused, and none is a fault of ours.

A signaling NaN can be neither compared nor hashed, a list or a map not hashed: what looks them up has to look first.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import pytest

from amqp10.broker import SasRule, TokenRules
from amqp10.engine import ConnectionEnded, LinkTerms, ReceiverLink, SenderLink
from amqp10.errors import AmqpError
from amqp10.messaging import ACCEPTED, AmqpValue, Error, Message, Modified, Rejected, Source, Target
from amqp10.tokens import SasKey
from amqp10.types import Array, Decimal32, Decimal64, Decimal128, Described, Map, Symbol, UInt, ULong, encode

from ...kit.broker.wire import Wire, queue_of
from ...kit.counts import ODD_VALUES
from ...kit.hostile.service_bus_peer import ODD, Bus
from ...kit.inside.broker import PeerTokens, VirtualHostCore
from ...kit.token_rig import KEY

NODES = (
    "orders",
    "orders/$management",
    "open",
    "q",
    "topic",
    "$cbs",
    "/management",
    "/queues/q",
    "/exchanges/amq.headers",
    None,
)
FILTERS = (
    *("apache.org:selector-filter:string", "apache.org:no-local-filter:list", "com.microsoft:session-filter"),
    *("rabbitmq:stream-offset-spec", "rabbitmq:stream-filter", "amqp:application-properties-filter", "x"),
)
LINK = (
    *("com.microsoft:timeout", "com.microsoft:transfer-destination-address", "com.microsoft:epoch", "paired"),
    *("com.microsoft:entity-type", "rabbitmq:priority", "x"),
)
ARGUMENTS = (
    *("x-queue-type", "x-max-length", "x-message-ttl", "x-overflow", "x-dead-letter-exchange", "x-max-priority"),
    *("x-delivery-limit", "x-single-active-consumer", "x-expires", "x-match", "n", "alternate-exchange", "x-max-age"),
)
ANNOTATIONS = (
    *("x-opt-scheduled-enqueue-time", "x-opt-partition-key", "x-opt-delivery-delay", "x-opt-delivery-time"),
    *("x-opt-lock-token", "x-cc", "x-group", "x-opt-a"),
)


class Peer:
    """A peer of a broker, which says odd values wherever it can."""

    def __init__(self, number: int) -> None:
        self._dice = random.Random(number)
        if number % 2:
            self._wire: Wire = Bus()
        else:
            tokens = PeerTokens(TokenRules([SasRule("policy", KEY)]))
            tokens.put("sb://ns/", SasKey("policy", KEY).sign("sb://ns/", int(time.time()) + 900).value)
            vhost = VirtualHostCore(clock=lambda: 0.0)
            self._wire = Wire(vhost, tokens=tokens if number % 4 else None)
        paired: dict[str, Any] = {"name": "pair", "settle_mode": "settled", "properties": {Symbol("paired"): True}}
        self._answers = self._wire.receive_from("/management", credit=10_000, **paired)
        self._requests = self._wire.send_to("/management", source=Source("$me"), **paired)
        self.answered = 0
        self._links: list[SenderLink | ReceiverLink] = []

    def speak(self) -> None:
        for _ in range(25):
            if self._wire.over or not self._wire.client.opened:
                return
            with suppress(AmqpError, ValueError, TypeError, OverflowError):  # of our own client, which refuses it
                self._dice.choice((self._receive, self._receive, self._send, self._settle, self._settle, self._ask))()
            self._wire.turn()

    def _odd(self) -> Any:
        dice = self._dice
        nan = dice.choice((Decimal32, Decimal64, Decimal128))("sNaN")
        chance = dice.random()
        if chance < 0.5:
            return nan
        if chance < 0.65:
            return dice.choice(([nan], {"k": nan}, Described(Symbol("x"), nan), Described(ULong(0x24), [nan])))
        return dice.choice(ODD)

    def _map(self, names: tuple[str, ...]) -> dict[Any, Any]:
        return {Symbol(self._dice.choice(names)): self._odd() for _ in range(self._dice.randrange(3))}

    def _receive(self) -> None:
        source = Source(
            self._dice.choice(NODES),
            dynamic=self._dice.random() < 0.3,
            dynamic_node_properties=self._map(("lifetime-policy", "supported-dist-modes")) or None,
            filter=self._map(FILTERS) or None,
            default_outcome=self._dice.choice((None, Modified(message_annotations=self._map(ANNOTATIONS)))),
        )
        terms = LinkTerms(f"l{self._dice.randrange(9)}", source=source, target=Target(), properties=self._map(LINK))
        link = self._wire.session.attach_receiver(terms)
        link.flow(5)
        self._links.append(link)

    def _send(self) -> None:
        target = Target(self._dice.choice(NODES), dynamic=self._dice.random() < 0.3)
        target.dynamic_node_properties = self._map(("lifetime-policy", "supported-dist-modes")) or None
        terms = LinkTerms(f"l{self._dice.randrange(9)}", source=Source(), target=target, properties=self._map(LINK))
        self._links.append(self._wire.session.attach_sender(terms))

    def _settle(self) -> None:
        for link in self._links:
            if isinstance(link, ReceiverLink) and link.incoming:
                error = Error(Symbol("com.microsoft:dead-letter"), "x", self._map(("DeadLetterReason", "x")))
                modified = Modified(delivery_failed=True, message_annotations=self._map(ANNOTATIONS))
                link.settle(link.incoming.popleft(), self._dice.choice((modified, Rejected(error), ACCEPTED)))
            elif isinstance(link, SenderLink) and link.attached and link.credit:
                names = (self._dice.choice(("operation", "type", "name", "n")) for _ in range(3))
                said = {name: self._odd() for name in names}
                simple = {k: v for k, v in said.items() if not isinstance(v, list | dict | Described | Array)}
                message = Message(AmqpValue(self._odd()), message_id=1, application_properties=simple)
                message.message_annotations = self._map(ANNOTATIONS)
                link.send(message.encode())

    def _ask(self) -> None:
        dice = self._dice
        arguments = {dice.choice(ARGUMENTS): self._odd() for _ in range(dice.randrange(4))}
        kind = dice.choice(("direct", "headers", self._odd()))
        bound = {"source": "amq.headers", "destination_queue": "q", "binding_key": ""}
        method, path, body = dice.choice(
            (
                ("PUT", "/queues/h1", {"arguments": arguments}),
                ("PUT", "/queues/h2", {"durable": self._odd(), "exclusive": self._odd()}),
                ("PUT", "/exchanges/e1", {"type": kind, "arguments": arguments}),
                ("POST", "/bindings", bound | {"arguments": arguments}),
                ("POST", "/bindings", bound | {"binding_key": self._odd()}),
                ("PUT", "/auth/tokens", self._odd()),
                ("DELETE", "/queues/h1", None),
                ("GET", "/bindings?src=amq.headers&dstq=q&key=", None),
                (dice.choice(("PUT", "POST", "DELETE")), dice.choice(("/queues/q", "/quarantine/1")), self._odd()),
            )
        )
        request = Message(AmqpValue(body), subject=method, to=path, reply_to="$me", message_id=1)
        self._requests.send(request.encode(), settled=True)
        self._wire.turn()
        self.answered += len(self._answers.incoming)
        self._answers.incoming.clear()


@pytest.mark.capability("hostile peers")
def test_any_value() -> None:
    """What raised in the broker would be raised here; what asks the management nodes is answered."""
    answered = [0, 0]
    for number in range(ODD_VALUES):
        peer = Peer(number)
        try:
            peer.speak()
        except Exception as error:
            error.add_note(f"conversation {number}")
            raise
        answered[number % 2] += peer.answered
    assert min(answered) > ODD_VALUES / 2


def test_annotations_under_keys_of_any_type() -> None:
    """A peer whose modified outcome has a key that is neither symbol nor ulong is closed; the message waits again."""
    wire = Wire(VirtualHostCore(clock=lambda: 0.0))
    wire.send_to("q").send(Message(b"m").encode())
    link = wire.receive_from("q", credit=1)
    wire.turn()
    delivery = link.incoming.popleft()
    modified = Described(ULong(0x27), [None, None, Map([([], 1)])])
    body = encode(Described(ULong(0x15), [True, UInt(delivery.delivery_id or 0), None, True, modified]))
    wire.server.receive_data((8 + len(body)).to_bytes(4, "big") + b"\2\0\0\0" + body)
    wire.settle_down()
    wire.turn()
    ended = [event.error for event in wire.events if isinstance(event, ConnectionEnded)]
    assert [getattr(error, "condition", None) for error in ended] == ["amqp:decode-error"]
    queue = queue_of(wire.vhost, "q")
    assert (queue.depth, queue.unsettled) == (1, 0)
