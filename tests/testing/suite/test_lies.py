"""The contract is worth something: it fails for an engine that lies, in each way that it could.

The engine is that of AMQP 1.0, and between it and the client stands who changes what is said. What an honest one passes
is what the lie then fails.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from amqp10.broker import Broker
from amqp10.engine import ConnectionEnded, DeliveriesReceived, dialect
from amqp10.errors import DecodeError, FilterNotApplied, LocalProtocolError, StaleDelivery, Unsupported
from amqp10.messaging import ACCEPTED, RELEASED, Message, Modified, Rejected, Released, Source, TransactionalState
from amqp10.testing.suite import DialectContract
from amqp10.testing.suite._basics import EVERYTHING

from ...kit.inside.engines import dialect_registry

# What is asserted is about engines, and in each event loop the same.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True),
    pytest.mark.in_memory,
    pytest.mark.capability("test kit"),
]

Lie = Callable[[Any], None]


def honest(engine: Any) -> None:
    """Says what is."""


# Of what is received


def on_delivery(change: Callable[[Any, Any], None]) -> Lie:
    """Change what came, a link's first message in each pass, before anybody sees it."""

    def tell(engine: Any) -> None:
        events = engine.events

        def lying() -> list[Any]:
            told: list[Any] = events()
            for event in told:
                if isinstance(event, DeliveriesReceived):
                    event.link.materialize(event.link.unmaterialized)
                if isinstance(event, DeliveriesReceived) and event.link.incoming:
                    change(event.link, event.link.incoming[-1])
            return told

        engine.events = lying

    return tell


def drop(link: Any, delivery: Any) -> None:
    link.incoming.pop()


def double(link: Any, delivery: Any) -> None:
    link.incoming.append(delivery)


def reorder(link: Any, delivery: Any) -> None:
    link.incoming.rotate(1)


def alter(**changes: Any) -> Lie:
    """Have other values in these fields of each message."""

    def change(link: Any, delivery: Any) -> None:
        delivery.payload = Message.decode(delivery.payload).replace(**changes).encode()

    return on_delivery(change)


# Of links


def on_links(change: Callable[[Any], None], kind: str = "attach_receiver") -> Lie:
    """Change the client's links of a kind as they are made."""

    def tell(engine: Any) -> None:
        begin = engine.begin

        def lying(terms: Any = None) -> Any:
            session = begin(terms)
            attach = getattr(session, kind)

            def made(terms: Any, **options: Any) -> Any:
                link = attach(terms, **options)
                change(link)
                return link

            setattr(session, kind, made)
            return session

        engine.begin = lying

    return tell


def instead(method: str, lie: Callable[..., Any], kind: str = "attach_receiver") -> Lie:
    """Do something else for a method of links; `lie` is given the true one first."""

    def change(link: Any) -> None:
        truth = getattr(link, method)
        setattr(link, method, lambda *args, **options: lie(truth, *args, **options))

    return on_links(change, kind)


def says(outcome: type, other: Any) -> Lie:
    """Name another outcome than was asked for."""

    def settle(truth: Any, delivery: Any, state: Any, **options: Any) -> Any:
        return truth(delivery, other if isinstance(state, outcome) else state, **options)

    return instead("settle", settle)


def settle_two(truth: Any, delivery: Any, state: Any, **options: Any) -> None:
    truth(delivery, state, **options)
    for another in list(delivery.link.unsettled.values())[:1]:
        truth(another, state)


def settle_twice(truth: Any, delivery: Any, state: Any, **options: Any) -> None:
    truth(delivery, ACCEPTED, settled=False)
    truth(delivery, state, **options)


def settle_never(truth: Any, delivery: Any, state: Any, **options: Any) -> None:
    delivery.local_settled = True


def more_credit(truth: Any, credit: int, **options: Any) -> None:
    truth(credit and credit + 3, **options)


def at_once(truth: Any, delivery: Any, state: Any, **options: Any) -> None:
    truth(delivery, state.outcome if isinstance(state, TransactionalState) else state, **options)


def send_twice(truth: Any, payload: bytes, *args: Any, **options: Any) -> Any:
    truth(payload, *args, **options)
    return truth(payload, *args, **options)


def send_alone(truth: Any, payload: bytes, *, state: Any = None, **options: Any) -> Any:
    return truth(payload, **options)


def send_unsettled(truth: Any, payload: bytes, *, settled: bool = False, **options: Any) -> Any:
    return truth(payload, **options)


def cut(truth: Any, payload: bytes, *args: Any, **options: Any) -> Any:
    message = Message.decode(payload)
    return truth(message.replace(body=message.body[:-1]).encode(), *args, **options)


def part_lost(truth: Any, delivery: Any, payload: bytes, *, more: bool = False) -> None:
    truth(delivery, payload[:-1], more=more)


def whole_after_all(truth: Any, delivery: Any) -> None:
    delivery.link.send_more(delivery, b"\x00\x53\x75\xa0\x00")


def terms(source: str = "", **changes: Any) -> Lie:
    """Attach otherwise than was asked for, without a field of the source for one, and never so as to resume."""

    def tell(engine: Any) -> None:
        begin = engine.begin

        def lying(own: Any = None) -> Any:
            session = begin(own)
            attach = session.attach_receiver

            def made(asked: Any, **options: Any) -> Any:
                said = dict(changes)
                if source and isinstance(asked.source, Source):
                    said["source"] = copy(asked.source)
                    setattr(said["source"], source, None)
                return attach(replace(asked, **said), **{**options, "resuming": None})

            session.attach_receiver = made
            return session

        engine.begin = lying

    return tell


# Of the connection


def ends_twice(engine: Any) -> None:
    """Tell the end of the connection, and tell it again."""
    events = engine.events
    engine.events = lambda: [each for each in events() for _ in range(2 if isinstance(each, ConnectionEnded) else 1)]


def raising(engine: Any) -> None:
    """Trip over what it does not understand."""
    receive = engine.receive_data

    def lying(data: bytes) -> None:
        receive(data)
        if any(isinstance(event, ConnectionEnded) and event.error is not None for event in list(engine._events)):
            raise KeyError("what is this?")

    engine.receive_data = lying


SENDER = "attach_sender"
LIES: dict[str, tuple[Lie, str, Any]] = {
    "drops a message": (on_delivery(drop), "test_in_order", (AssertionError, TimeoutError)),
    "delivers twice": (on_delivery(double), "test_in_order", AssertionError),
    "delivers in another order": (on_delivery(reorder), "test_in_order", AssertionError),
    "sends twice": (instead("send", send_twice, SENDER), "test_in_order", AssertionError),
    "settles another message, too": (instead("settle", settle_two), "test_left_unsettled", TimeoutError),
    "settles twice, the first time otherwise": (instead("settle", settle_twice), "test_released", TimeoutError),
    "settles nothing": (instead("settle", settle_never), "test_left_unsettled", AssertionError),
    "accepts what is released": (says(Released, ACCEPTED), "test_released", TimeoutError),
    "counts what is released": (says(Released, Modified(delivery_failed=True)), "test_released", AssertionError),
    "releases what is rejected": (says(Rejected, RELEASED), "test_rejected", AssertionError),
    "accepts what is rejected": (says(Rejected, ACCEPTED), "test_rejected", TimeoutError),
    "sends unsettled": (instead("send", send_unsettled, SENDER), "test_settled", (AssertionError, LocalProtocolError)),
    "releases what is modified": (says(Modified, RELEASED), "test_modified", AssertionError),
    "gives more credit": (instead("flow", more_credit), "test_credit", TimeoutError),
    "receives unsettled": (terms(settle_mode="unsettled"), "test_settled", AssertionError),
    "receives in mode first": (terms(receiver_settle_mode="first"), "test_settle_second", AssertionError),
    "asks for no filter": (terms("filter"), "test_filters", FilterNotApplied),
    "takes what it browses": (terms("distribution_mode"), "test_browse", Unsupported),
    "resumes nothing": (terms(), "test_resume", StaleDelivery),
    "cuts large messages": (instead("send", cut, SENDER), "test_large", AssertionError),
    "loses an octet of a stream": (instead("send_more", part_lost, SENDER), "test_streaming_out", Exception),
    "ends what is aborted": (instead("abort", whole_after_all, SENDER), "test_abort", DecodeError),
    "sends outside of the transaction": (instead("send", send_alone, SENDER), "test_transactions", AssertionError),
    "accepts outside of the transaction": (instead("settle", at_once), "test_transactions", TimeoutError),
    "tells the end twice": (ends_twice, "test_cut_off", AssertionError),
    "raises": (raising, "test_changed", KeyError),
    **{
        f"has another {field}": (alter(**{field: value}), "test_every_field", AssertionError)
        for field, value in {
            **dict.fromkeys(("message_id", "user_id", "subject", "reply_to", "correlation_id", "group_id")),
            **dict.fromkeys(("content_type", "content_encoding", "creation_time", "group_sequence")),
            **dict.fromkeys(("reply_to_group_id", "absolute_expiry_time", "ttl")),
            "body": b"other",
            "durable": False,
            "priority": 4,
            "message_annotations": {},
            "application_properties": {**EVERYTHING.application_properties, "int": -5},
        }.items()
    },
}


@pytest.fixture
def contract(monkeypatch: pytest.MonkeyPatch) -> Callable[[Lie, float], Any]:
    """Makes a contract with an engine that lies, at a broker that does not."""

    def make(lie: Lie, patience: float) -> Any:
        true = dialect("1.0")

        def client(*args: Any) -> Any:
            engine = true.client(*args)
            lie(engine)
            return engine

        module: Any = ModuleType("lying_dialect")
        module.LYING = replace(true, name="lying", client=client)
        monkeypatch.setitem(sys.modules, "lying_dialect", module)
        monkeypatch.setitem(dialect_registry._MODULES, "lying", "lying_dialect:LYING")

        class Lying(DialectContract):
            dialect = "lying"

            @asynccontextmanager
            async def server(self, **settings: Any) -> AsyncIterator[str]:
                async with Broker(dialects=["1.0"], **settings) as broker:
                    yield broker.url

        contract = Lying()
        contract.patience = patience
        return contract

    return make


async def run(contract: Any, test: str) -> None:
    """Run one of its tests."""
    done = getattr(contract, test)(*([None] if test == "test_streaming_out" else []))
    if done is not None:
        await done


@pytest.mark.parametrize("test", sorted({test for _, test, _ in LIES.values()}))
async def test_honest(contract: Callable[[Lie, float], Any], test: str) -> None:
    """Without a lie each of these tests passes."""
    await run(contract(honest, 30.0), test)


@pytest.mark.parametrize("lie", LIES)
async def test_caught(contract: Callable[[Lie, float], Any], lie: str) -> None:
    """With it the one that is about that fails, and for no other reason."""
    tell, test, expected = LIES[lie]
    with pytest.raises(expected):
        await run(contract(tell, 1.0 if expected is TimeoutError else 30.0), test)
