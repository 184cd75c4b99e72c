"""Options: what is understood, what each mistake says, and that no secret is ever shown."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

from amqp10.spark import Options
from amqp10.spark._options import option_name, reference

URL = "amqp://guest:hidden@localhost"
NESTED = "[" * 100_000


def test_names_are_taken_in_any_case_and_by_their_aliases() -> None:
    """Spark hands names over in lower case, and `load("orders")` as the option `path`."""
    options = Options.parse(
        {"url": URL, "path": "orders", "wallocation": "file:///tmp/wal/", "maxOffsetsPerTrigger": "7"}
    )
    assert options.address == "orders"
    assert options.wal_location == "/tmp/wal"
    assert options.max_messages_per_trigger == 7


def test_several_urls() -> None:
    """They are separated by commas."""
    assert Options.parse({"url": "amqp://a, amqps://b:5671"}).url == ("amqp://a", "amqps://b:5671")


@pytest.mark.parametrize("spelled", ["1769839200000", "2026-01-31T06:00:00Z", "2026-01-31T07:00:00+01:00"])
def test_moments(spelled: str) -> None:
    """As Kafka's option has them, or in ISO 8601; one makes a queue a log."""
    options = Options.parse({"url": URL, "startingTimestamp": spelled})
    assert options.starting_timestamp == datetime(2026, 1, 31, 6, tzinfo=UTC)
    assert options.log


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "option 'url' is missing"),
        ({"url": ""}, "'url': must be a URL"),
        ({"url": "http://x"}, "the scheme 'http'"),
        ({"url": URL, "walocation": "/x"}, "no option 'walocation'; did you mean 'walLocation'"),
        ({"url": URL, "walLocation": "wal"}, "'walLocation': must be the absolute path"),
        ({"url": URL, "walLocation": "s3://bucket/wal"}, "object stores"),
        ({"url": URL, "ack": "never"}, "'ack': must be one of auto, browse, wal, accept"),
        ({"url": URL, "numPartitions": "0"}, "'numPartitions': must be a whole number, 1 or more"),
        ({"url": URL, "numPartitions": "two"}, "must be a whole number, 1 or more, not 'two'"),
        ({"url": URL, "receiveTimeout": "soon"}, "'receiveTimeout': must be a number of seconds"),
        ({"url": URL, "pushdown": "yes"}, "'pushdown': must be true or false"),
        ({"url": URL, "dialect": "2.0"}, "'dialect': must be one of"),
        ({"url": URL, "startingOffsets": "[1]"}, "'startingOffsets': must be earliest, latest, or"),
        ({"url": URL, "startingOffsets": '{"a": -1}'}, "'startingOffsets': must be earliest, latest, or"),
        ({"url": URL, "queue": "a", "address": "b"}, "'address' is given twice"),
        ({"url": URL, "endingOffsets": "earliest"}, "'endingOffsets': must be latest, or a JSON object"),
        ({"url": URL, "endingOffsets": '{"a": "earliest"}'}, "no read can end at the earliest"),
        ({"url": URL, "startingTimestamp": "yesterday"}, "'startingTimestamp': must be milliseconds since 1970"),
        ({"url": URL, "startingTimestamp": "2026-01-31T06:00:00"}, "a time with its zone"),
        ({"url": URL, "startingTimestamp": "1", "startingOffsets": "latest"}, "give only one of them"),
        (
            {"url": URL, "mode": "queue", "startingOffsets": "latest"},
            "'startingOffsets': mode is 'queue', which has no",
        ),
        ({"url": URL, "mode": "stream", "maxBytesPerTrigger": "9"}, "'maxBytesPerTrigger' is for queues"),
        (
            {"url": URL, "transaction": "task", "duplicateIdProperty": "_AMQ_DUPL_ID"},
            "'transaction' and 'duplicateIdProperty' do not go together",
        ),
        ({"url": URL, "tls.key": "/k.pem"}, "'tls.key' needs option 'tls.certificate'"),
        ({"url": URL, "amqp.filters": "[]"}, "'amqp.filters': must be a JSON object"),
        (
            {"url": URL, "amqp.sourceCapabilities": "queue"},
            "'amqp.sourceCapabilities': must be a JSON array of strings",
        ),
        ({"url": URL, "amqp.filters": NESTED}, "'amqp.filters': must be a JSON object: nested too deeply"),
        ({"url": URL, "amqp.sourceCapabilities": NESTED}, '["queue"]: nested too deeply'),
        ({"url": URL, "startingOffsets": NESTED}, "'startingOffsets': must be earliest, latest, or"),
    ],
)
def test_a_mistake_is_named(given: dict[str, str], words: str) -> None:
    """One line says which option it is, and what is wanted."""
    with pytest.raises(ValueError, match="amqp: ") as caught:
        Options.parse(given)
    assert words in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_what_is_secret_is_not_shown() -> None:
    """Neither by the repr, nor by the error for a password that makes no URL."""
    options = Options.parse({"url": URL, "password": "hidden", "token": "hidden"})
    assert "hidden" not in repr(options)
    with pytest.raises(ValueError, match="not a URL") as caught:
        Options.parse({"url": "amqp://guest:hid/den@localhost"})
    assert "den" not in str(caught.value)


def test_secrets_have_names_that_spark_redacts() -> None:
    """In plans and the UI Spark hides what is called url, password, secret or token."""
    for each in fields(Options):
        if not each.repr:
            assert each.name in ("url", "password", "token")


def test_what_spark_adds_is_no_mistake() -> None:
    """The options of a streaming write have the checkpoint's place among them."""
    assert Options.parse({"url": URL, "checkpointLocation": "/tmp/c"}).address is None


def test_the_reference_has_every_option() -> None:
    """Each with its default and its meaning."""
    table = reference()
    for each in fields(Options):
        assert f"`{option_name(each)}`" in table
        assert each.metadata["meaning"].endswith(".")


def test_what_is_missing_is_said_when_it_is_needed() -> None:
    """A reader without an address, or with a topic's, and a queue stream without a directory."""
    options = Options.parse({"url": URL})
    with pytest.raises(ValueError, match="'address' is missing"):
        options.require_address()
    with pytest.raises(ValueError, match=r"'news' is a topic, which keeps no messages .* into a queue, and read that"):
        Options.parse({"url": URL, "address": "news", "addressType": "topic"}).require_address()
    with pytest.raises(ValueError, match="'walLocation' is missing: streaming"):
        options.require_wal("streaming")
