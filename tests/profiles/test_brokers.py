"""The profiles there are, and how a peer's is chosen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10 import Connection, Symbol
from amqp10.broker import Broker
from amqp10.profiles import EMBEDDED, GENERIC, PROFILES, RABBITMQ, SERVICE_BUS, Profile, profile, recognize

pytestmark = pytest.mark.capability("broker profiles")


def test_facts_have_sources() -> None:
    """Each fact says where it is from."""
    for each in PROFILES:
        for fact in each.facts:
            assert fact.text.endswith(".")
            assert fact.source
        assert each is GENERIC or each.facts


def test_names() -> None:
    """Each is found by its name, and a wrong name is told what there is."""
    assert [profile(each.name) for each in PROFILES] == list(PROFILES)
    with pytest.raises(LookupError, match=r"there is no profile 'rabbit'; the profiles are .*'rabbitmq'"):
        profile("rabbit")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("RabbitMQ", "rabbitmq"),
        ("apache-activemq-artemis", "artemis"),
        ("Apache Qpid Broker-J Core", "broker-j"),
        ("ActiveMQ", "activemq"),
        ("amqp10", "embedded"),
        ("Something", "generic"),
    ],
)
@pytest.mark.parametrize("key", ["product", Symbol("product")])
def test_recognize_product(product: str, name: str, key: str) -> None:
    """The open's property "product" is what brokers say they are, with symbols for keys or strings."""
    assert recognize({key: product}).name == name


def test_recognize_platform_and_host() -> None:
    """Solace says it under "platform"; Azure's names are in the host."""
    assert recognize({Symbol("platform"): "Solace PubSub+ Standard"}).name == "solace"
    assert recognize({}, "Bus.servicebus.windows.NET") is SERVICE_BUS
    assert recognize({Symbol("product"): None, "platform": 7}, "localhost") is GENERIC


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_connection() -> None:
    """A connection knows its peer's profile, or has the one that is named."""
    async with Broker() as broker:
        async with broker.connect() as connection:
            assert connection.profile is EMBEDDED
        async with broker.connect(profile="rabbitmq") as connection:
            assert connection.profile is RABBITMQ
        own = Profile("own", "My Broker")
        async with broker.connect(profile=own) as connection:
            assert connection.profile is own
    with pytest.raises(LookupError):
        Connection("amqp://localhost", profile="rabbit")


def test_page_is_up_to_date() -> None:
    """docs/reference/profiles.md is what the profiles say."""
    tool = Path(__file__).resolve().parents[2] / "tools" / "profiles.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
