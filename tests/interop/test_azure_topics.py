"""Topics, subscriptions and rules of the emulator, as Microsoft's own SDK for Python drives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)
from azure.servicebus._common import mgmt_handlers
from azure.servicebus.exceptions import (
    MessagingEntityAlreadyExistsError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from amqp10.broker.azure import (
    AzureConfig,
    CorrelationRuleFilter,
    FalseRuleFilter,
    QueueConfig,
    Rule,
    SqlRuleFilter,
    SubscriptionConfig,
    TopicConfig,
)

from ._azure import WAIT, Behavior, Behaviors, Clock, dead_letters, nothing_comes, receive

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus emulator")]

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


def sql(name: str, *texts: str) -> SubscriptionConfig:
    """A subscription that takes what any of these conditions is true of."""
    return SubscriptionConfig(
        name, rules=[Rule(f"r{number}", SqlRuleFilter(text)) for number, text in enumerate(texts)]
    )


CONDITIONS = {
    "equal": "color = 'red'",
    "label": "sys.Label = 'urgent'",
    "scopes": "SYS.label = 'urgent' AND user.color = 'red'",
    "like": "color LIKE 'r_d%' AND NOT color LIKE 'red!_%' ESCAPE '!'",
    "in": "color IN ('red', 'green') OR size NOT IN (1, 2)",
    "null": "missing IS NULL AND color IS NOT NULL",
    "exists": "EXISTS(size) AND NOT EXISTS(missing)",
    "arithmetic": "size * 2 + 1 > 10 AND size % 2 = 1 AND -size < 0",
    "quoted": '[my size] = 1 OR "my size" = 2 OR user.[my size] = 3',
    "session": "sys.SessionId = 's' AND sys.MessageId <> 'm'",
    "always": "1 = 1",
    "unknown": "missing > 3 OR missing <> 'x'",
}
TOPICS = [
    TopicConfig("events", ["one", "two", SubscriptionConfig("none", rules=[Rule("none", FalseRuleFilter())])]),
    TopicConfig("sql", [sql(name, text) for name, text in CONDITIONS.items()]),
    TopicConfig(
        "correlated",
        [
            SubscriptionConfig("label", rules=[Rule("r", CorrelationRuleFilter(label="urgent"))]),
            SubscriptionConfig(
                "both",
                rules=[Rule("r", CorrelationRuleFilter(correlation_id="c", properties={"color": "red", "size": 3}))],
            ),
        ],
    ),
    TopicConfig(
        "actions",
        [
            SubscriptionConfig(
                "changed",
                rules=[
                    Rule(
                        "r",
                        SqlRuleFilter("size > 1"),
                        "SET size = size + 1; SET sys.Label = 'big'; SET [a b] = TRUE; REMOVE color",
                    )
                ],
            ),
            SubscriptionConfig(
                "several",
                rules=[
                    Rule("plain 1", SqlRuleFilter("size > 1")),
                    Rule("plain 2", SqlRuleFilter("size > 2")),
                    Rule("first", SqlRuleFilter("size > 1"), "SET copy = 1"),
                    Rule("second", SqlRuleFilter("size > 1"), "SET copy = 2"),
                    Rule("other", SqlRuleFilter("size > 100"), "SET copy = 3"),
                ],
            ),
        ],
    ),
    TopicConfig("unique", ["all"], duplicate_window=60.0),
    TopicConfig("short", [SubscriptionConfig("all", dead_letter_expired=True)], ttl=5.0),
    TopicConfig(
        "faulty",
        [
            SubscriptionConfig("keeps", rules=[Rule("r", SqlRuleFilter("size > 'x'"))], dead_letter_filter_errors=True),
            SubscriptionConfig("drops", rules=[Rule("r", SqlRuleFilter("size + color > 1"))]),
        ],
    ),
    TopicConfig("steps", [SubscriptionConfig("all", requires_session=True)]),
    TopicConfig(
        "forwards",
        [
            SubscriptionConfig("on", forward_to="target"),
            SubscriptionConfig("dead", max_delivery_count=1, forward_dead_letters_to="target"),
        ],
    ),
]
QUEUES: list[QueueConfig | str] = [
    "target",
    QueueConfig("first", forward_to="second"),
    QueueConfig("second", forward_to="target"),
    QueueConfig("round", forward_to="about"),
    QueueConfig("about", forward_to="round"),
    QueueConfig("sessionless", forward_to="sessions"),
    QueueConfig("sessions", requires_session=True),
]
behavior = Behaviors(AzureConfig(QUEUES, TOPICS))


def publish(client: ServiceBusClient, topic: str, *bodies: str, **settings: Any) -> None:
    with client.get_topic_sender(topic) as sender:
        sender.send_messages([ServiceBusMessage(body, **settings) for body in bodies])


def subscription(client: ServiceBusClient, topic: str, name: str, **settings: Any) -> ServiceBusReceiver:
    return client.get_subscription_receiver(topic, name, **settings)


def got(client: ServiceBusClient, topic: str, name: str) -> list[str]:
    """What a subscription has."""
    with subscription(client, topic, name) as receiver:
        return [str(message) for message in receiver.peek_messages(100, sequence_number=1)]


def ask(receiver: ServiceBusReceiver, operation: str, body: dict[str, Any]) -> Any:
    """Ask the management node, for the SDK has these operations in other languages only."""
    receiver._open_with_retry()  # type: ignore[no-untyped-call]
    name = f"com.microsoft:{operation}".encode()
    return receiver._mgmt_request_response_with_retry(name, body, mgmt_handlers.default)


@behavior
def every_subscription(client: ServiceBusClient, clock: Clock) -> None:
    """A message comes to each subscription that takes it; each completes its own."""
    publish(client, "Events", "1", "2")
    with subscription(client, "events", "ONE") as receiver:
        messages = receive(receiver, 2)
        assert [(str(each), each.sequence_number, each.enqueued_sequence_number) for each in messages] == [
            ("1", 1, 1),
            ("2", 2, 2),
        ]
        for message in messages:
            receiver.complete_message(message)
        assert nothing_comes(receiver)
    assert got(client, "events", "two") == ["1", "2"]
    assert got(client, "events", "none") == []


@behavior
def conditions(client: ServiceBusClient, clock: Clock) -> None:
    """SQL filters: properties of users and of the system, LIKE, IN, IS NULL, EXISTS, arithmetic, unknown values."""
    red = {"color": "red", "size": 7, "my size": 1}
    publish(client, "sql", "full", subject="urgent", application_properties=red, session_id="s", message_id="x")
    publish(client, "sql", "poor", application_properties={"color": "blue", "size": 2}, session_id="s", message_id="m")
    publish(client, "sql", "bare")
    expected = {name: ["full"] for name in CONDITIONS}
    expected |= {
        "null": ["full", "poor"],
        "exists": ["full", "poor"],
        "always": ["full", "poor", "bare"],
        "unknown": [],
    }
    assert {name: got(client, "sql", name) for name in CONDITIONS} == expected


@behavior
def correlation(client: ServiceBusClient, clock: Clock) -> None:
    """Correlation filters: all that they name is equal."""
    red = {"color": "red", "size": 3}
    publish(client, "correlated", "both", subject="urgent", correlation_id="c", application_properties=red)
    publish(
        client, "correlated", "label", subject="urgent", correlation_id="c", application_properties={"color": "red"}
    )
    publish(client, "correlated", "neither", subject="idle")
    assert got(client, "correlated", "label") == ["both", "label"]
    assert got(client, "correlated", "both") == ["both"]


@behavior
def action(client: ServiceBusClient, clock: Clock) -> None:
    """An action sets and removes properties of the copy, and of no other."""
    publish(client, "actions", "x", application_properties={"size": 2, "color": "red"}, subject="small")
    with subscription(client, "actions", "changed", receive_mode=DELETE) as receiver:
        [message] = receive(receiver)
        assert message.application_properties == {b"size": 3, b"a b": True}
        assert (message.subject, str(message)) == ("big", "x")


@behavior
def several_actions(client: ServiceBusClient, clock: Clock) -> None:
    """Rules without actions make one copy together, each with an action one of its own."""
    publish(client, "actions", "x", application_properties={"size": 9})
    with subscription(client, "actions", "several", receive_mode=DELETE) as receiver:
        found = [(message.application_properties or {}).get(b"copy") for message in receive(receiver, 3)]
        assert found == [None, 1, 2]
        assert nothing_comes(receiver)


@behavior
def rules_added_and_removed(client: ServiceBusClient, clock: Clock) -> None:
    """A rule counts as soon as it is added, and no more when it is removed; without rules nothing passes."""
    with subscription(client, "events", "one", receive_mode=DELETE) as receiver:
        ask(receiver, "remove-rule", {"rule-name": "$Default"})
        publish(client, "events", "nobody's")
        rule = {"sql-filter": {"expression": "color = 'red'"}, "sql-rule-action": None, "rule-name": "red"}
        ask(receiver, "add-rule", {"rule-name": "red", "rule-description": rule})
        with pytest.raises(MessagingEntityAlreadyExistsError):
            ask(receiver, "add-rule", {"rule-name": "Red", "rule-description": rule})
        publish(client, "events", "red", application_properties={"color": "red"})
        publish(client, "events", "blue", application_properties={"color": "blue"})
        assert [str(message) for message in receive(receiver)] == ["red"]
        ask(receiver, "remove-rule", {"rule-name": "RED"})
        with pytest.raises(ServiceBusError, match="has no rule 'red'"):
            ask(receiver, "remove-rule", {"rule-name": "red"})
        publish(client, "events", "red again", application_properties={"color": "red"})
    assert got(client, "events", "one") == []


@behavior
def rules_enumerated(client: ServiceBusClient, clock: Clock) -> None:
    """Rules are told as described lists: filter, action, name and when they were made."""
    with subscription(client, "events", "two") as receiver:
        action = {"expression": "SET a = 1"}
        for name, said in {
            "sql": {"sql-filter": {"expression": "a = 1"}, "sql-rule-action": action},
            "correlation": {"correlation-filter": {"label": "l", "properties": {"k": "v"}}},
            "true": {"true-filter": {}},
            "false": {"false-filter": {}},
        }.items():
            ask(receiver, "add-rule", {"rule-name": name, "rule-description": said})
        numbers = {
            "top": receiver._amqp_transport.AMQP_INT_VALUE(10),
            "skip": receiver._amqp_transport.AMQP_INT_VALUE(1),
        }
        found = [each[b"rule-description"] for each in ask(receiver, "enumerate-rules", numbers)[b"rules"]]
        assert [(each[0], each[1], each[2]) for each in found] == [
            ([b"a = 1", 20], [b"SET a = 1", 20], b"sql"),
            ([None, None, None, None, b"l", None, None, None, {b"k": b"v"}], [], b"correlation"),
            ([], [], b"true"),
            ([], [], b"false"),
        ]
        assert all(abs(each[3] / 1000 - clock()) < 60 for each in found)


@behavior
def wrong_rules(client: ServiceBusClient, clock: Clock) -> None:
    """A rule that is none is refused, and the place of the fault in it is said."""
    with subscription(client, "events", "two") as receiver:
        for said, text in {
            "color ==": "Service Bus SQL, character 8",
            "sys.Color = 1": "messages have no sys.Color",
            "NOT": "expected a value or a name",
            "x" * 1025: "more than 1024 characters",
        }.items():
            rule = {"sql-filter": {"expression": said}}
            with pytest.raises(ServiceBusError, match=text) as error:
                ask(receiver, "add-rule", {"rule-name": "wrong", "rule-description": rule})
            assert "argument-error" in str(error.value)
        for action in ("color = 1", "SET sys.SequenceNumber = 1", "SET a", "REMOVE"):
            rule = {"true-filter": {}, "sql-rule-action": {"expression": action}}
            with pytest.raises(ServiceBusError, match="argument-error"):
                ask(receiver, "add-rule", {"rule-name": "wrong", "rule-description": rule})


@behavior
def filter_errors(client: ServiceBusClient, clock: Clock) -> None:
    """A message that a rule cannot be computed for is a dead letter where that is asked for, and else passes not."""
    publish(client, "faulty", "x", application_properties={"size": 1, "color": "red"})
    with subscription(client, "faulty", "keeps", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        [message] = receive(receiver)
        assert message.dead_letter_reason == "FilterEvaluationException"
        assert "cannot be compared" in (message.dead_letter_error_description or "")
    assert got(client, "faulty", "keeps") == got(client, "faulty", "drops") == []


@behavior
def own_dead_letters(client: ServiceBusClient, clock: Clock) -> None:
    """Each subscription has its own dead letters."""
    publish(client, "events", "x")
    with subscription(client, "events", "one") as receiver:
        [message] = receive(receiver)
        receiver.dead_letter_message(message, reason="bad")
    with subscription(client, "events", "one", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        [message] = receive(receiver)
        assert message.dead_letter_reason == "bad"
    with subscription(client, "events", "two", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        assert receiver.peek_messages() == []


@behavior
def duplicates(client: ServiceBusClient, clock: Clock) -> None:
    """A topic drops what was sent again, before its subscriptions see it."""
    for body in ("first", "again"):
        publish(client, "unique", body, message_id="m")
    assert got(client, "unique", "all") == ["first"]


@behavior
def time_to_live(client: ServiceBusClient, clock: Clock) -> None:
    """A message lives in subscriptions as long as its topic allows."""
    publish(client, "short", "x")
    clock.ahead += 6
    assert got(client, "short", "all") == []
    with subscription(client, "short", "all", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        assert receive(receiver)[0].dead_letter_reason == "TTLExpiredException"


@behavior
def scheduled(client: ServiceBusClient, clock: Clock) -> None:
    """A topic keeps what is scheduled until it is due; it can be cancelled before."""
    due = datetime.now(UTC) + timedelta(hours=1)
    with client.get_topic_sender("events") as sender:
        numbers = sender.schedule_messages([ServiceBusMessage("keep"), ServiceBusMessage("drop")], due)
        sender.cancel_scheduled_messages(numbers[1])
    assert got(client, "events", "one") == []
    clock.ahead += 3601
    with subscription(client, "events", "one", receive_mode=DELETE) as receiver:
        assert [str(message) for message in receive(receiver)] == ["keep"]


@behavior
def sessions(client: ServiceBusClient, clock: Clock) -> None:
    """A subscription has sessions like a queue; what comes without one is a dead letter."""
    publish(client, "steps", "1", "2", session_id="a")
    publish(client, "steps", "no session")
    with subscription(client, "steps", "all", session_id="a") as receiver:
        assert [str(message) for message in receive(receiver, 2)] == ["1", "2"]
        receiver.session.set_state("here")
    assert list(client.list_subscription_sessions("steps", "all")) == ["a"]
    with subscription(client, "steps", "all", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        assert [str(message) for message in receive(receiver)] == ["no session"]


@behavior
def forwarded(client: ServiceBusClient, clock: Clock) -> None:
    """Queues and subscriptions pass messages on, over several hops; the number from the first one stays."""
    publish(client, "forwards", "by subscription")
    with client.get_queue_sender("first") as sender:
        sender.send_messages([ServiceBusMessage("by queue"), ServiceBusMessage("by queue too")])
    with client.get_queue_receiver("target", receive_mode=DELETE) as receiver:
        found = [(str(each), each.sequence_number, each.enqueued_sequence_number) for each in receive(receiver, 3)]
        assert found == [("by subscription", 1, 1), ("by queue", 2, 1), ("by queue too", 3, 2)]
    with pytest.raises(ServiceBusError, match="receive from the entity that gets them"):
        client.get_queue_receiver("first").receive_messages(max_wait_time=WAIT)


@behavior
def forwarded_dead_letters(client: ServiceBusClient, clock: Clock) -> None:
    """Dead letters go on where that was asked for, with their reason and where they died."""
    publish(client, "forwards", "x")
    with subscription(client, "forwards", "dead") as receiver:
        receiver.abandon_message(receive(receiver)[0])
    with client.get_queue_receiver("target", receive_mode=DELETE) as receiver:
        found = {(each.dead_letter_reason, each.dead_letter_source) for each in receive(receiver, 2)}
        assert found == {(None, None), ("MaxDeliveryCountExceeded", "forwards/Subscriptions/dead")}


@behavior
def not_forwarded(client: ServiceBusClient, clock: Clock) -> None:
    """What goes in a circle, or may not be where it goes, is a dead letter of the transfer."""
    for queue in ("round", "sessionless"):
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))
    reasons = []
    for queue in ("round", "sessionless"):
        with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER) as receiver:
            reasons.append(receive(receiver)[0].dead_letter_reason)
    assert reasons == ["MaxTransferHopCountExceeded", "amqp:not-allowed"]


@behavior
def closed_addresses(client: ServiceBusClient, clock: Clock) -> None:
    """A topic is not received from, a subscription and dead letters are not sent to, and a wrong name is nothing."""
    with pytest.raises(ServiceBusError, match="receive from its subscriptions"):
        client.get_queue_receiver("events").receive_messages(max_wait_time=WAIT)
    for address in ("events/Subscriptions/one", "target/$DeadLetterQueue"):
        with pytest.raises(ServiceBusError, match="accepts no messages from senders"):
            client.get_queue_sender(address).__enter__()
    with pytest.raises(ServiceBusAuthenticationError):
        subscription(client, "events", "three").receive_messages(max_wait_time=WAIT)
    assert dead_letters(client, "target").peek_messages() == []


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)
