from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import amqp10.azure as client
import amqp10.broker.azure
from amqp10.broker import Broker
from amqp10.broker.azure import (
    AzureConfig,
    CorrelationRuleFilter,
    EventHubConfig,
    QueueConfig,
    Rule,
    SqlRuleFilter,
    SubscriptionConfig,
    TopicConfig,
)

untyped: Any = amqp10.broker.azure
"""For what a type checker would refuse."""

PROPERTIES = {
    "DeadLetteringOnMessageExpiration": True,
    "DefaultMessageTimeToLive": "PT1H",
    "DuplicateDetectionHistoryTimeWindow": "PT20S",
    "ForwardDeadLetteredMessagesTo": "",
    "ForwardTo": "",
    "LockDuration": "PT1M30S",
    "MaxDeliveryCount": 3,
    "RequiresDuplicateDetection": True,
    "RequiresSession": False,
}


def document(*queues: Any, **more: Any) -> str:
    """A file of the emulator with these queues."""
    namespace = {"Name": "sbemulatorns", "Queues": list(queues), **more}
    return json.dumps({"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}})


def topics(*rules: Any) -> str:
    """A file with a topic, and these rules of its subscription."""
    subscription = {"Name": "s", "Properties": {"MaxDeliveryCount": 3, "RequiresSession": True}, "Rules": list(rules)}
    return document(Topics=[{"Name": "t", "Properties": {}, "Subscriptions": [subscription, {"Name": "all"}]}])


class TestRead:
    def test_topics(self) -> None:
        """Topics, subscriptions and rules are said in the file as in Python."""
        correlation = {"Label": "urgent", "SessionId": "s", "Properties": {"n": 1}}
        said = AzureConfig.parse(
            topics(
                {"Name": "c", "Properties": {"FilterType": "Correlation", "CorrelationFilter": correlation}},
                {
                    "Name": "$Default",
                    "Properties": {
                        "FilterType": "Sql",
                        "SqlFilter": {"SqlExpression": "a = 1"},
                        "Action": {"SqlExpression": "SET b = 2"},
                    },
                },
            )
        )
        rules = [
            Rule("c", CorrelationRuleFilter(label="urgent", session_id="s", properties={"n": 1})),
            Rule("$Default", SqlRuleFilter("a = 1"), "SET b = 2"),
        ]
        subscription = SubscriptionConfig("s", max_delivery_count=3, requires_session=True, rules=rules)
        assert said.topics == (TopicConfig("t", [subscription, "all"]),)

    def test_all_properties(self, tmp_path: Path) -> None:
        """The file that Microsoft's emulator takes says what Python says; a mark at its start is no matter."""
        path = tmp_path / "Config.json"
        path.write_text(document({"Name": "Orders", "Properties": PROPERTIES}), encoding="utf-8-sig")
        queue = QueueConfig(
            "Orders",
            lock_duration=90.0,
            max_delivery_count=3,
            ttl=3600.0,
            dead_letter_expired=True,
            duplicate_window=20.0,
        )
        assert tuple(AzureConfig.read(path).queues) == (queue,)

    def test_name_alone(self) -> None:
        """What is not said is as usual, in the file and in Python."""
        said = AzureConfig.parse(document({"Name": "orders"}, Topics=[]))
        assert said.queues == AzureConfig(["orders"]).queues == (QueueConfig("orders"),)

    @pytest.mark.parametrize(
        ("duration", "seconds"),
        [("PT0.5S", 0.5), ("P1D", 86_400.0), ("P14DT12H3M4.25S", 1_252_984.25), ("P10675199DT2H48M5.4775807S", None)],
    )
    def test_durations(self, duration: str, seconds: float | None) -> None:
        """Durations have days, hours, minutes and seconds; .NET's longest means no end."""
        config = AzureConfig.parse(document({"Name": "q", "Properties": {"DefaultMessageTimeToLive": duration}}))
        assert config.queues == (QueueConfig("q", ttl=seconds),)

    @pytest.mark.parametrize(
        ("properties", "said"),
        [
            ({"LockDuration": "1 minute"}, ".LockDuration must be a duration such as .*, not '1 minute'"),
            ({"LockDuration": "P"}, "LockDuration must be a duration"),
            ({"LockDuration": "PT0S"}, "LockDuration must be longer than 0 seconds, not 'PT0S'"),
            ({"LockDuration": "PT6M"}, "LockDuration must be PT5M or less, not 'PT6M'"),
            ({"LockDuration": 60}, "LockDuration must be a duration .*, not 60"),
            ({"MaxDeliveryCount": 0}, "MaxDeliveryCount must be a number of 1 or more, not 0"),
            ({"MaxDeliveryCount": True}, "MaxDeliveryCount must be a number of 1 or more, not True"),
            ({"RequiresDuplicateDetection": "yes"}, "RequiresDuplicateDetection must be true or false, not 'yes'"),
            ({"ForwardTo": 3}, "ForwardTo must be a string, not 3"),
            ({"RequiresSession": 1}, "RequiresSession must be true or false, not 1"),
            ({"LockDuraton": "PT1M"}, "Properties must have only the members .*LockDuration.*, not 'LockDuraton'"),
        ],
    )
    def test_wrong_property(self, properties: dict[str, Any], said: str) -> None:
        """An error names the place in the file, the rule and the value."""
        with pytest.raises(ValueError, match=said) as error:
            AzureConfig.parse(document({"Name": "good"}, {"Name": "bad", "Properties": properties}))
        assert str(error.value).startswith("UserConfig.Namespaces[0].Queues[1].Properties")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "this is not JSON: .*line 1 column 2"),
            ("[]", r"^the file must be an object, not \[\]"),
            ("{}", r"^the file lacks the member UserConfig$"),
            ('{"UserConfig": {"Namespaces": {}}}', "^UserConfig.Namespaces must be an array, not {}"),
            ('{"UserConfig": {"Namespaces": [{}, {}]}}', "^UserConfig.Namespaces must have one namespace, not 2"),
            (document({"Name": "a b"}), r"Queues\[0\].Name: it must be .* the first a letter or digit, not 'a b'"),
            (document({"Name": "a//b"}), r"Queues\[0\].Name: it must be .*, not 'a//b'"),
            (
                document({"Name": "q"}, {"Name": "Q"}),
                r"Queues\[1\].Name must differ from that of .*Queues\[0\] .*, not 'Q'",
            ),
            (
                document({"Name": "q", "Properties": {"ForwardTo": "other"}}),
                "'q' forwards to 'other', which is not a queue",
            ),
            (
                document({"Name": "q"}, Topics=[{"Name": "Q"}]),
                r"Topics\[0\].Name must differ from that of .*Queues\[0\]",
            ),
            (
                topics({"Name": "r", "Properties": {"FilterType": "Other"}}),
                r"Rules\[0\].Properties.FilterType must be Sql or",
            ),
            (topics({"Name": "r", "Properties": {"FilterType": "Sql"}}), r"Properties lacks the member SqlFilter"),
            (
                topics({"Name": "r", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a =="}}}),
                r"Rules\[0\]: Service Bus SQL, character 4",
            ),
            (
                topics({"Name": "r", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {}}}),
                r"Rules\[0\]: a correlation filter must compare at least one field or property",
            ),
            (
                topics({"Name": "r", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Color": "x"}}}),
                r"CorrelationFilter must have only the members .*, not 'Color'",
            ),
        ],
    )
    def test_wrong_file(self, text: str, said: str) -> None:
        """So does one of the file as a whole."""
        with pytest.raises(ValueError, match=said):
            AzureConfig.parse(text)

    def test_names_the_file(self, tmp_path: Path) -> None:
        """An error of a file says which."""
        path = tmp_path / "Config.json"
        path.write_text("{}")
        with pytest.raises(ValueError, match=r"Config\.json: the file lacks the member UserConfig"):
            AzureConfig.read(path)


class TestPython:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"lock_duration": 301.0}, "lock_duration must be more than 0 and at most 300 seconds, not 301"),
            ({"lock_duration": 0.0}, "lock_duration must be more than 0"),
            ({"max_delivery_count": 0}, "max_delivery_count must be 1 or more, not 0"),
            ({"ttl": 0.0}, "ttl must be more than 0 seconds, or None, not 0"),
            ({"ttl": float("inf")}, "ttl must be more than 0 seconds, or None, not inf"),
            ({"duplicate_window": -1.0}, "duplicate_window must be more than 0 seconds, or None, not -1"),
            (
                {"requires_session": True, "forward_to": "p"},
                "queue 'q' forwards all its messages, so it cannot require sessions",
            ),
            ({"max_size": 0}, "max_size must be 1 or more, not 0"),
        ],
    )
    def test_wrong_settings(self, settings: dict[str, Any], said: str) -> None:
        """A setting that means nothing is refused by its name."""
        with pytest.raises(ValueError, match=said):
            QueueConfig("q", **settings)

    def test_one_name_twice(self) -> None:
        """Names are the same in capitals."""
        with pytest.raises(ValueError, match="two entities have the name 'ORDERS'"):
            AzureConfig(["orders", "ORDERS"])

    def test_wrong_names(self) -> None:
        """Two subscriptions, or two rules of one, have names of their own; a rule and an action have to be some."""
        with pytest.raises(ValueError, match="two subscriptions have the name 'A'"):
            TopicConfig("t", ["a", "A"])
        with pytest.raises(ValueError, match="two rules have the name 'R'"):
            SubscriptionConfig("s", rules=[Rule("r"), Rule("R")])
        with pytest.raises(ValueError, match="1 to 50 characters"):
            SubscriptionConfig("s", rules=[Rule("r" * 51)])
        with pytest.raises(ValueError, match="expected SET or REMOVE"):
            SubscriptionConfig("s", rules=[Rule("r", action="DROP a")])

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda: untyped.AzureConfig("orders"), r"queues must be a list, not a str: write queues=\['orders'\]"),
            (lambda: untyped.AzureConfig(topics="t"), r"write topics=\[TopicConfig\('t'\)\]"),
            (lambda: untyped.AzureConfig(event_hubs="h"), r"write event_hubs=\['h'\]"),
            (
                lambda: untyped.AzureConfig(untyped.QueueConfig("q")),
                r"queues must be a list, not QueueConfig\(name='q'",
            ),
            (
                lambda: untyped.AzureConfig([5]),
                r"queues\[0\] must be an amqp10\.broker\.azure\.QueueConfig, not the int 5",
            ),
            (
                lambda: untyped.AzureConfig(["q"], ["t"]),
                r"topics\[0\] must be an amqp10.broker.azure.TopicConfig, not the str 't'",
            ),
            (
                lambda: untyped.AzureConfig([untyped.TopicConfig("t")]),
                r"queues\[0\] must be an .*QueueConfig, not the .*\.TopicConfig",
            ),
            (lambda: untyped.TopicConfig("t", "all"), r"write subscriptions=\['all'\]"),
            (
                lambda: untyped.TopicConfig("t", [5]),
                r"subscriptions\[0\] must be an .*\.SubscriptionConfig, not the int 5",
            ),
            (lambda: untyped.EventHubConfig("h", 2, "kitchen"), r"write consumer_groups=\['kitchen'\]"),
            (lambda: untyped.EventHubConfig("h", 2, [5]), r"consumer_groups\[0\] must be a str, not the int 5"),
            (
                lambda: untyped.SubscriptionConfig("s", rules="a = 1"),
                r"write rules=\[Rule\(\"NAME\", SqlRuleFilter\('a = 1'\)\)\]",
            ),
            (
                lambda: untyped.SubscriptionConfig("s", rules=["a"]),
                r"rules\[0\] must be an amqp10.broker.azure.Rule, not the str 'a'",
            ),
            (
                lambda: untyped.Rule("r", "a = 1"),
                "filter must be a SqlRuleFilter, .* or FalseRuleFilter, not the str 'a = 1'",
            ),
            (lambda: untyped.Rule(5), "the name of a rule must be a str, not the int 5"),
            (lambda: untyped.Rule("r", action=5), "action must be a str, not the int 5"),
            (lambda: untyped.SqlRuleFilter(5), "expression must be a str, not the int 5"),
            (lambda: untyped.QueueConfig(5), "the name of a queue must be a str, not the int 5"),
        ],
    )
    def test_wrong_kinds(self, make: Any, said: str) -> None:
        """What is of another kind is refused by its place."""
        with pytest.raises(TypeError, match=said):
            make()

    @pytest.mark.parametrize(
        "name", ["CorrelationRuleFilter", "FalseRuleFilter", "Rule", "SqlRuleFilter", "TrueRuleFilter"]
    )
    def test_rules_of_the_client(self, name: str) -> None:
        """Rules are of the same classes in the client and here."""
        assert getattr(client, name) is getattr(amqp10.broker.azure, name)

    def test_no_other_queue_of_the_name(self) -> None:
        """What a broker begins with cannot be an entity and a queue of its own kind."""
        with pytest.raises(ValueError, match="a node 'orders' exists already"):
            Broker(azure=AzureConfig(["orders"]), queues=["orders"])


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The error names the file; and a time that is no number is none."""
    path = tmp_path / "Config.json"
    path.write_text("{}", encoding="utf-16")
    with pytest.raises(ValueError, match=r"Config\.json: 'utf-8' codec"):
        AzureConfig.read(path)
    with pytest.raises(ValueError, match="ttl must be a number or None, not nan"):
        QueueConfig("q", ttl=float("nan"))


def hubs(*entities: Any, **more: Any) -> str:
    """A file of the emulator of Event Hubs with these."""
    namespace = {"Type": "EventHub", "Name": "emulatorNs1", "Entities": list(entities), **more}
    return json.dumps({"UserConfig": {"NamespaceConfig": [namespace], "LoggingConfig": {"Type": "File"}}})


class TestHubs:
    def test_file(self) -> None:
        """The file of the emulator of Event Hubs says what Python says; numbers may be texts there."""
        said = AzureConfig.parse(
            hubs(
                {"Name": "eh1", "PartitionCount": "2", "ConsumerGroups": [{"Name": "cg1"}, {"Name": "$default"}]},
                {"Name": "eh2", "PartitionCount": 4},
            )
        )
        assert said.event_hubs == (EventHubConfig("eh1", 2, ["cg1"]), EventHubConfig("eh2"))
        assert said.event_hubs == AzureConfig(event_hubs=[EventHubConfig("eh1", 2, ["cg1"]), "eh2"]).event_hubs

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (hubs({"Name": "eh"}), r"Entities\[0\] lacks the member PartitionCount"),
            (hubs({"Name": "eh", "PartitionCount": "x"}), r"PartitionCount must be a number of 1 or more, not 'x'"),
            (hubs({"Name": "eh", "PartitionCount": "0"}), r"PartitionCount must be a number of 1 or more, not 0"),
            (hubs({"Name": "eh", "PartitionCount": "2000"}), r"Entities\[0\]: partitions must be 1 to 1024, not 2000"),
            (
                hubs({"Name": "a/b", "PartitionCount": "1"}),
                r"Entities\[0\]: the name of an event hub must not have a '/'",
            ),
            (hubs(*[{"Name": "eh", "PartitionCount": "1"}] * 2), r"must differ from that of"),
            (hubs(Type="Kafka"), "Type must be EventHub, not 'Kafka'"),
            (
                json.dumps({"UserConfig": {}}),
                "^UserConfig lacks the member Namespaces, or NamespaceConfig for Event Hubs",
            ),
        ],
    )
    def test_wrong_file(self, text: str, words: str) -> None:
        """What is wrong is said by its place."""
        with pytest.raises(ValueError, match=words):
            AzureConfig.parse(text)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: EventHubConfig("hub", 0), "partitions must be 1 to 1024"),
            (lambda: EventHubConfig("hub", consumer_groups=["a", "A"]), "two consumer groups have the name 'A'"),
            (lambda: EventHubConfig("hub", consumer_groups=["a/b"]), "must not have a '/'"),
            (lambda: EventHubConfig("hub", consumer_groups=["a b"]), "the name of a consumer group"),
            (lambda: EventHubConfig("hub", retention=0), "retention must be more than 0 seconds"),
            (lambda: AzureConfig(["hub"], event_hubs=["Hub"]), "two entities have the name 'Hub'"),
            (lambda: AzureConfig(["Hub/Partitions/0"], event_hubs=["hub"]), "is an address of the event hub 'hub'"),
        ],
    )
    def test_wrong_in_python(self, make: Any, words: str) -> None:
        """So is it in Python."""
        with pytest.raises(ValueError, match=words):
            make()
