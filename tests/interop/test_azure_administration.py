"""The administration of the emulator over HTTPS, as Microsoft's SDK for Python drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)
from azure.servicebus.management import (
    AccessRights,
    ApiVersion,
    AuthorizationRule,
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from amqp10 import TLS
from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import AzureConfig, QueueConfig, SubscriptionConfig, TopicConfig
from amqp10.testing import CertificateAuthority

from ._azure import KEY, Runs, client_of, dead_letters, receive, send

pytestmark = [pytest.mark.slow, pytest.mark.capability("Service Bus emulator")]

CONFIG = AzureConfig(
    [QueueConfig("orders", lock_duration=30.0, max_delivery_count=3)],
    [
        TopicConfig("events", [SubscriptionConfig("all", dead_letter_filter_errors=True)]),
        TopicConfig("picky", filtering_messages_before_publishing=True),
    ],
)


LONG = timedelta(days=1, hours=2, minutes=3, microseconds=4)


class Emulator:
    """The SDK's clients of one emulator: that which administers, and that which sends and receives."""

    def __init__(self, administration_url: str, url: str, ca: Path) -> None:
        self._url = administration_url.replace("https://", "sb://")
        self._ca = str(ca)
        self.bus: Callable[[], ServiceBusClient] = lambda: client_of(url)

    def administration(
        self, policy: str = "both", key: str = KEY, version: ApiVersion = ApiVersion.V2021_05
    ) -> ServiceBusAdministrationClient:
        text = f"Endpoint={self._url};SharedAccessKeyName={policy};SharedAccessKey={key}"
        # Reading the environment in a thread fails by chance: pytest changes it for each test.
        return ServiceBusAdministrationClient.from_connection_string(
            text, connection_verify=self._ca, retry_total=0, use_env_settings=False, api_version=version
        )


Behavior = Callable[[ServiceBusAdministrationClient, Emulator], None]


class AdministrationBehaviors(Runs[Behavior]):
    """Each with a broker of its own.

    Attributes:
        authority: signs the certificate of the emulator; set when they are run.
    """

    authority: CertificateAuthority

    def _run(self, behavior: Behavior) -> None:
        anyio.run(self._drive, behavior, backend="trio")

    async def _drive(self, behavior: Behavior) -> None:
        rules = [SasRule("both", KEY), SasRule("listen", KEY, ["Listen"]), SasRule("one", KEY, entity="orders")]
        files = self.authority.server("localhost")
        tls = TLS(certificate=files.certificate, key=files.key)
        async with Broker(azure=CONFIG, tokens=TokenRules(rules, required=True)) as broker:
            async with broker.azure.administration("localhost", 0, tls=tls) as url:
                emulator = Emulator(url, broker.url, self.authority.ca)

                def use() -> None:
                    with emulator.administration() as client:
                        behavior(client, emulator)

                with anyio.fail_after(60):
                    await to_thread.run_sync(use)


behavior = AdministrationBehaviors()


@behavior
def queue_as_configured(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A queue of the configuration has the settings that it says, and Service Bus' usual ones."""
    queue = client.get_queue("Orders")
    assert (queue.lock_duration, queue.max_delivery_count) == (timedelta(seconds=30), 3)
    assert isinstance(queue.default_message_time_to_live, timedelta)
    assert queue.default_message_time_to_live > timedelta(days=10_000_000)
    assert (queue.requires_session, queue.requires_duplicate_detection) == (False, False)
    assert queue.dead_lettering_on_message_expiration is False
    assert (queue.max_size_in_megabytes, queue.status) == (1024, EntityStatus.ACTIVE)
    assert (queue.forward_to, queue.forward_dead_lettered_messages_to) == (None, None)


@behavior
def create_queue(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A queue that is created has its settings, and is there for senders and receivers at once."""
    made = client.create_queue(
        "new/queue",
        lock_duration=timedelta(seconds=45),
        default_message_time_to_live=timedelta(days=2, hours=3, minutes=4, seconds=5),
        dead_lettering_on_message_expiration=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=7),
        max_delivery_count=7,
        max_size_in_megabytes=2048,
        user_metadata="mine <&> yours",
    )
    for queue in (made, client.get_queue("new/queue")):
        assert queue.name == "new/queue"
        assert (queue.lock_duration, queue.max_delivery_count) == (timedelta(seconds=45), 7)
        assert queue.default_message_time_to_live == timedelta(days=2, hours=3, minutes=4, seconds=5)
        assert (queue.dead_lettering_on_message_expiration, queue.requires_duplicate_detection) == (True, True)
        assert queue.duplicate_detection_history_time_window == timedelta(minutes=7)
        assert (queue.max_size_in_megabytes, queue.user_metadata) == (2048, "mine <&> yours")
    with emulator.bus() as bus:
        for _ in range(2):
            send(bus, "new/queue", ServiceBusMessage("x", message_id="twice"))
        with bus.get_queue_receiver("new/queue") as receiver:
            assert len(receiver.peek_messages(5)) == 1


@behavior
def settings_without_effect(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """What has no effect here is returned as it was given; an older version knows nothing of the size of messages."""
    rights: list[str | AccessRights] = [AccessRights.SEND, AccessRights.LISTEN]
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule", rights=rights, key_name="app", primary_key="k1", secondary_key="k2"
    )
    client.create_queue(
        "kept",
        authorization_rules=[rule],
        duplicate_detection_history_time_window=timedelta(minutes=12),
        enable_express=True,
        enable_partitioning=True,
        max_message_size_in_kilobytes=2048,
        user_metadata="mine",
    )
    queue = client.get_queue("kept")
    assert (queue.enable_express, queue.enable_partitioning, queue.user_metadata) == (True, True, "mine")
    assert queue.requires_duplicate_detection is False
    assert queue.duplicate_detection_history_time_window == timedelta(minutes=12)
    assert queue.max_message_size_in_kilobytes == 2048
    assert queue.authorization_rules is not None
    [told] = queue.authorization_rules
    assert (told.type, told.key_name, told.rights) == (rule.type, "app", rights)
    assert (told.primary_key, told.secondary_key) == ("k1", "k2")
    queue.duplicate_detection_history_time_window = timedelta(minutes=13)
    client.update_queue(queue)
    queue = client.get_queue("kept")
    assert queue.duplicate_detection_history_time_window == timedelta(minutes=13)
    assert queue.authorization_rules is not None
    assert [each.key_name for each in queue.authorization_rules] == ["app"]
    older = emulator.administration(version=ApiVersion.V2017_04)
    assert older.get_queue("kept").max_message_size_in_kilobytes is None
    assert [each.max_message_size_in_kilobytes for each in older.list_queues()] == [None, None]
    with pytest.raises(HttpResponseError, match="at most 12"):
        client.create_queue("many", authorization_rules=[rule] * 13)


@behavior
def what_cannot_be(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """What Service Bus does not support is refused: to detect duplicates from now on, to forward with sessions."""
    queue = client.get_queue("orders")
    queue.requires_duplicate_detection = True
    with pytest.raises(HttpResponseError, match="detects duplicates cannot be changed"):
        client.update_queue(queue)
    assert client.get_queue("orders").requires_duplicate_detection is False
    with pytest.raises(HttpResponseError, match="forward"):
        client.create_queue("both", requires_session=True, forward_to="orders")


@behavior
def create_twice(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A name is given once, to a queue or a topic, whatever its capitals."""
    for name in ("orders", "ORDERS", "events"):
        with pytest.raises(ResourceExistsError):
            client.create_queue(name)
        with pytest.raises(ResourceExistsError):
            client.create_topic(name)
    with pytest.raises(ResourceExistsError):
        client.create_subscription("events", "All")
    with pytest.raises(ResourceExistsError):
        client.create_rule("events", "all", "$default")


@behavior
def missing(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """What is not there is not found, by whatever is asked of it."""
    asks: list[Callable[[], object]] = [
        lambda: client.get_queue("none"),
        lambda: client.get_topic("none"),
        lambda: client.get_subscription("events", "none"),
        lambda: client.get_subscription("none", "all"),
        lambda: client.get_rule("events", "all", "none"),
        lambda: client.get_queue_runtime_properties("none"),
        lambda: client.delete_queue("none"),
        lambda: client.delete_subscription("events", "none"),
        lambda: client.delete_rule("events", "all", "none"),
        lambda: client.create_subscription("none", "x"),
        lambda: client.create_rule("events", "none", "x"),
    ]
    for ask in asks:
        with pytest.raises(ResourceNotFoundError):
            ask()


@behavior
def update_queue(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """What is updated holds from then on; the rest stays as it was."""
    queue = client.get_queue("orders")
    queue.max_delivery_count = 1
    queue.user_metadata = "seen"
    client.update_queue(queue)
    queue = client.get_queue("orders")
    assert (queue.max_delivery_count, queue.lock_duration) == (1, timedelta(seconds=30))
    assert queue.user_metadata == "seen"
    with emulator.bus() as bus:
        send(bus, "orders", "x")
        with bus.get_queue_receiver("orders") as receiver:
            receiver.abandon_message(receive(receiver)[0])
        with dead_letters(bus, "orders") as receiver:
            assert receive(receiver)[0].dead_letter_reason == "MaxDeliveryCountExceeded"
    queue.duplicate_detection_history_time_window = timedelta(days=8)
    with pytest.raises(HttpResponseError, match="P7D or less"):
        client.update_queue(queue)
    queue.duplicate_detection_history_time_window = timedelta(minutes=10)
    queue.requires_session = True
    with pytest.raises(HttpResponseError, match="requires sessions"):
        client.update_queue(queue)


@behavior
def delete_queue(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A queue that is deleted is gone with its messages; one of that name is another."""
    with emulator.bus() as bus:
        send(bus, "orders", "x")
        client.delete_queue("orders")
        assert [queue.name for queue in client.list_queues()] == []
        with pytest.raises(ServiceBusAuthenticationError):
            send(bus, "orders", "x")
        client.create_queue("orders")
        with bus.get_queue_receiver("orders") as receiver:
            assert receiver.peek_messages() == []


@behavior
def lists(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """All that is there is listed, over as many pages as it takes."""
    for number in range(120):
        client.create_queue(f"q{number:03}")
    client.create_topic("zoo")
    assert [queue.name for queue in client.list_queues()] == ["orders", *(f"q{number:03}" for number in range(120))]
    assert [topic.name for topic in client.list_topics()] == ["events", "picky", "zoo"]
    assert [each.name for each in client.list_subscriptions("events")] == ["all"]
    assert [each.name for each in client.list_subscriptions("zoo")] == []
    assert [rule.name for rule in client.list_rules("events", "all")] == ["$Default"]


@behavior
def runtime_properties(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """How many messages there are, in each state, and since when."""
    with emulator.bus() as bus:
        send(bus, "orders", "1", "2", "3")
        with bus.get_queue_receiver("orders") as receiver:
            receiver.dead_letter_message(receive(receiver)[0])
        with bus.get_queue_sender("orders") as sender:
            sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        with bus.get_topic_sender("events") as sender:
            sender.send_messages(ServiceBusMessage("x"))
    queue = client.get_queue_runtime_properties("orders")
    counts = (queue.active_message_count, queue.dead_letter_message_count, queue.scheduled_message_count)
    assert counts == (2, 1, 1)
    assert (queue.total_message_count, queue.transfer_dead_letter_message_count) == (4, 0)
    assert queue.size_in_bytes
    assert queue.created_at_utc is not None
    assert queue.accessed_at_utc is not None
    assert queue.created_at_utc <= queue.accessed_at_utc
    assert client.get_topic_runtime_properties("events").subscription_count == 1
    subscription = client.get_subscription_runtime_properties("events", "all")
    assert (subscription.active_message_count, subscription.total_message_count) == (1, 1)
    [only] = client.list_subscriptions_runtime_properties("events")
    assert only.active_message_count == 1


@behavior
def topics_and_subscriptions(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A topic and its subscriptions are made, changed and deleted; messages go where they say."""
    client.create_topic("news", default_message_time_to_live=timedelta(hours=1))
    assert client.get_topic("news").default_message_time_to_live == timedelta(hours=1)
    made = client.create_subscription("news", "one", lock_duration=timedelta(minutes=2), max_delivery_count=4)
    assert (made.name, made.lock_duration, made.max_delivery_count) == ("one", timedelta(minutes=2), 4)
    client.create_subscription("news", "two", requires_session=True, auto_delete_on_idle=timedelta(hours=2))
    assert client.get_subscription("news", "two").auto_delete_on_idle == timedelta(hours=2)
    client.create_topic("brief", auto_delete_on_idle=timedelta(hours=1))
    brief, picky = client.get_topic("brief"), client.get_topic("picky")
    assert (brief.filtering_messages_before_publishing, brief.auto_delete_on_idle) == (False, timedelta(hours=1))
    assert picky.filtering_messages_before_publishing is True  # the SDK tells of it, and leaves it out when it creates
    with pytest.raises(HttpResponseError, match="at least 300 seconds"):
        client.create_queue("hasty", auto_delete_on_idle=timedelta(minutes=4))
    made.dead_lettering_on_filter_evaluation_exceptions = True
    client.update_subscription("news", made)
    changed = client.get_subscription("news", "one")
    assert changed.dead_lettering_on_filter_evaluation_exceptions is True
    with emulator.bus() as bus:
        with bus.get_topic_sender("picky") as sender, pytest.raises(ServiceBusError, match="no-matching-subscription"):
            sender.send_messages(ServiceBusMessage("x"))
        with bus.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("x", session_id="s"))
            client.delete_subscription("news", "two")
            sender.send_messages(ServiceBusMessage("y", session_id="s"))
        with bus.get_subscription_receiver("news", "one") as receiver:
            assert [str(message) for message in receive(receiver, 2)] == ["x", "y"]
        with pytest.raises(ServiceBusAuthenticationError):
            bus.get_subscription_receiver("news", "two").peek_messages()
    client.delete_topic("news")
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription("news", "one")


@behavior
def rules(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """Rules of all kinds are told as they were made, and decide what comes."""
    correlation = CorrelationRuleFilter(
        label="red", correlation_id="c", properties={"n": 1, "t": "x", "f": 1.5, "b": True, "l": 1 << 40, "d": LONG}
    )
    sql_filter = SqlRuleFilter("n < @most", parameters={"@most": 3})
    sql_action = SqlRuleAction("SET seen = @seen; SET span = @span", parameters={"@seen": True, "@span": -LONG})
    client.create_rule("events", "all", "sql", filter=sql_filter, action=sql_action)
    client.create_rule("events", "all", "correlation", filter=correlation)
    client.create_rule("events", "all", "never", filter=FalseRuleFilter())
    told = {rule.name: rule for rule in client.list_rules("events", "all")}
    assert list(told) == ["$Default", "sql", "correlation", "never"]
    counts = client.get_topic_runtime_properties("events")
    assert (counts.sql_filter_count, counts.correlation_filter_count) == (3, 1)  # true and false ones are SQL filters
    assert isinstance(told["$Default"].filter, TrueRuleFilter)
    assert isinstance(told["never"].filter, FalseRuleFilter)
    sql, action = told["sql"].filter, told["sql"].action
    assert isinstance(sql, SqlRuleFilter)
    assert isinstance(action, SqlRuleAction)
    assert (sql.sql_expression, action.sql_expression) == ("n < @most", "SET seen = @seen; SET span = @span")
    assert (sql.parameters, action.parameters) == ({"@most": 3}, {"@seen": True, "@span": -LONG})
    same = client.get_rule("events", "all", "correlation").filter
    assert isinstance(same, CorrelationRuleFilter)
    assert (same.label, same.correlation_id, same.message_id) == ("red", "c", None)
    assert same.properties == correlation.properties
    client.delete_rule("events", "all", "$Default")
    rule = client.get_rule("events", "all", "sql")
    rule.filter = SqlRuleFilter("n = 2")
    client.update_rule("events", "all", rule)
    with emulator.bus() as bus:
        with bus.get_topic_sender("events") as sender:
            sender.send_messages([ServiceBusMessage(str(n), application_properties={"n": n}) for n in (1, 2)])
        with bus.get_subscription_receiver("events", "all") as receiver:
            [message] = receive(receiver)
            ticks = -LONG // timedelta(microseconds=1) * 10  # the SDK leaves out that it is a `com.microsoft:timespan`
            assert (str(message), message.application_properties) == ("2", {b"n": 2, b"seen": True, b"span": ticks})


@behavior
def wrong_rules(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A rule that makes no sense is refused, and what is wrong with it is said."""
    with pytest.raises(HttpResponseError, match="expected"):
        client.create_rule("events", "all", "bad", filter=SqlRuleFilter("n <"))
    with pytest.raises(HttpResponseError, match="1 to 50 characters"):
        client.create_rule("events", "all", "x" * 51, filter=TrueRuleFilter())


@behavior
def forwarding(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A queue that forwards passes on what comes, and what is there when that is said; without it keeps them again."""
    client.create_queue("source")
    with emulator.bus() as bus:
        send(bus, "source", "early")
        queue = client.get_queue("source")
        queue.forward_to = "sb://localhost/orders"  # without the port of the administration
        client.update_queue(queue)
        told = client.get_queue("source").forward_to
        assert told is not None
        assert told.endswith("/orders")
        send(bus, "source", "late")
        with bus.get_queue_receiver("orders") as receiver:
            assert sorted(str(message) for message in receive(receiver, 2)) == ["early", "late"]
        queue.forward_to = None
        client.update_queue(queue)
        send(bus, "source", "kept")
        with bus.get_queue_receiver("source") as receiver:
            assert [str(message) for message in receive(receiver)] == ["kept"]
    with pytest.raises(ResourceNotFoundError):
        client.create_queue("lost", forward_to="nowhere")


@behavior
def target_deleted(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A queue keeps its messages when the queue is gone that it forwards to, until there is one of that name again."""
    client.create_queue("source", forward_to="orders")
    client.delete_queue("orders")
    with emulator.bus() as bus:
        send(bus, "source", "x")
        client.create_queue("orders")
        with bus.get_queue_receiver("orders") as receiver:
            assert [str(message) for message in receive(receiver)] == ["x"]


@behavior
def disabled(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """A queue that is disabled, for sending or for receiving or for both, says so."""
    with emulator.bus() as bus:
        for status, sends, receives in (
            (EntityStatus.SEND_DISABLED, False, True),
            (EntityStatus.RECEIVE_DISABLED, True, False),
            (EntityStatus.DISABLED, False, False),
            (EntityStatus.ACTIVE, True, True),
        ):
            queue = client.get_queue("orders")
            queue.status = status
            client.update_queue(queue)
            assert client.get_queue("orders").status == status
            uses: list[tuple[bool, Callable[[], object]]] = [
                (sends, lambda: send(bus, "orders", "x")),
                (receives, lambda: bus.get_queue_receiver("orders").peek_messages()),
            ]
            for allowed, use in uses:
                if allowed:
                    use()
                else:
                    with pytest.raises(MessagingEntityDisabledError):
                        use()


@behavior
def namespace(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """The namespace says what it is."""
    said = client.get_namespace_properties()
    assert (said.name.partition(":")[0], said.messaging_sku) == ("localhost", "Standard")


@behavior
def rights(client: ServiceBusAdministrationClient, emulator: Emulator) -> None:
    """Who has not the right to manage is refused, and so is another key; a right to one entity is for that."""
    for policy, key in (("listen", KEY), ("both", "wrong"), ("unknown", KEY), ("one", KEY)):
        other = emulator.administration(policy, key)
        with pytest.raises(ClientAuthenticationError):
            other.create_queue("mine")
        with pytest.raises(ClientAuthenticationError):
            list(other.list_queues())


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Behavior], None]]:
    """How each behavior went."""
    behavior.authority = CertificateAuthority(tmp_path_factory.mktemp("certificates"))
    with behavior.running(request) as runs:
        yield runs


@pytest.mark.parametrize("behavior", behavior.all, ids=lambda behavior: behavior.__name__)
def test_behavior(behavior: Behavior, runs: Callable[[Behavior], None]) -> None:
    """What the SDK does and sees; each behavior says what that is."""
    runs(behavior)
