"""The broker as a process: its options, and how it ends."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from azure.eventhub import EventHubProducerClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage

import amqp10.sync
from amqp10 import Connection, Source, StreamOffset

pytestmark = pytest.mark.capability("command line")

Commands = Callable[..., Any]
Starter = Callable[..., tuple["subprocess.Popen[str]", str]]


def test_sigterm_ends_it(amqp10: Commands, other_broker: Starter) -> None:
    """SIGTERM closes it in order, and the exit code says what ended it."""
    process, url = other_broker()
    assert amqp10("send", url, "q", "x").code == 0
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM


def test_largest_message(amqp10: Commands, other_broker: Starter) -> None:
    """A larger message than the option allows is refused."""
    _, url = other_broker("--max-message-size", "100")
    assert amqp10("send", url, "q", "x").code == 0
    refused = amqp10("send", url, "q", "x" * 100)
    assert refused.code != 0
    assert "more than the peer's max-message-size of 100" in refused.err


def test_declared_addresses_only(amqp10: Commands, other_broker: Starter) -> None:
    """Without auto-create an unknown address is refused, a declared one is not."""
    _, url = other_broker("--no-auto-create", "--queue", "known")
    assert amqp10("send", url, "known", "x").code == 0
    refused = amqp10("send", url, "unknown", "x")
    assert refused.code == 5
    assert "amqp:not-found" in refused.err


def test_user_ids(amqp10: Commands, other_broker: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of 0-9-1 that says to be somebody else is refused, unless the broker is to trust it."""
    for options, code in ((), 5), (("--trust-user-id",), 0):
        _, url = other_broker("--user", "me:secret", *options)
        url = url.replace("//", "//me:secret@")
        monkeypatch.setattr("sys.stdin", io.StringIO('{"body": "x", "user_id": {"$binary": "eW91"}}'))
        sent = amqp10("send", "--dialect", "0-9-1", "--json-lines", url, "q")
        assert sent.code == code, sent.err


def test_declared_streams(amqp10: Commands, other_broker: Starter) -> None:
    """What is read from a stream is still there."""
    _, url = other_broker("--stream", "log")
    assert amqp10("send", url, "log", "x").code == 0

    async def read() -> Any:
        async with Connection(url) as connection:
            async with connection.receiver(Source("log", filters=[StreamOffset("first")])) as receiver:
                with await receiver.receive() as message:
                    return message.body

    assert [anyio.run(read), anyio.run(read)] == ["x", "x"]


def test_service_bus(amqp10: Commands, other_broker: Starter, tmp_path: Path) -> None:
    """With the file of Microsoft's emulator it says the connection string that the SDK comes in by.

    With a store what was sent is there after it was killed.
    """
    path = tmp_path / "Config.json"
    path.write_text('{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "orders"}]}]}}')
    options = ["--azure", str(path), "--azure-administration-port", "0", "--store", str(tmp_path / "broker.db")]
    process, _ = other_broker(*options)
    assert process.stdout is not None
    text = process.stdout.readline().removeprefix("Service Bus: ").strip()
    with ServiceBusClient.from_connection_string(text, keep_alive=0) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
    process.kill()
    process.wait(30)
    process, _ = other_broker(*options)
    assert process.stdout is not None
    text = process.stdout.readline().removeprefix("Service Bus: ").strip()
    with ServiceBusClient.from_connection_string(text, keep_alive=0) as client:
        with client.get_queue_receiver("orders") as receiver:
            assert [str(message) for message in receiver.peek_messages()] == ["hello"]
    assert process.stdout.readline().startswith("administration at http://127.0.0.1:")
    refused = amqp10("broker", "--azure-administration-port", "0")
    assert (refused.code, "needs --azure" in refused.err) == (2, True)
    path.write_text("{}")
    refused = amqp10("broker", "--azure", str(path))
    assert (refused.code, "lacks the member UserConfig" in refused.err) == (2, True)


def test_event_hubs(other_broker: Starter, tmp_path: Path) -> None:
    """The same for hubs, with the file of the emulator of those."""
    path = tmp_path / "Config.json"
    hub = '{"Name": "eh1", "PartitionCount": "2", "ConsumerGroups": [{"Name": "cg1"}]}'
    namespace = f'{{"Type": "EventHub", "Name": "emulatorNs1", "Entities": [{hub}]}}'
    path.write_text(f'{{"UserConfig": {{"NamespaceConfig": [{namespace}], "LoggingConfig": {{"Type": "File"}}}}}}')
    process, _ = other_broker("--azure", str(path))
    assert process.stdout is not None
    text = process.stdout.readline().removeprefix("Event Hubs: ").strip()
    with EventHubProducerClient.from_connection_string(text, eventhub_name="eh1") as producer:
        assert producer.get_partition_ids() == ["0", "1"]


def test_beyond_loopback_it_wants_users(amqp10: Commands) -> None:
    """Listening for the network without saying who may connect is wrong usage."""
    result = amqp10("broker", "--host", "0.0.0.0", "--port", "0")
    assert result.code == 2
    assert "--user" in result.err


def test_probe_as_json(amqp10: Commands, broker_url: str) -> None:
    """Headers, mechanisms, limits; and no password."""
    result = amqp10("probe", broker_url, "--json")
    report = json.loads(result.out)
    assert result.code == 0
    assert report["headers"]["AMQP 1.0 with SASL"] == "spoken"
    assert report["headers"]["AMQP 0-9-1"] == report["headers"]["AMQP/Fast 0.7"] == "spoken"
    assert report["headers"]["AMQP 1.0 with TLS inside"].startswith("no; the server offers AMQP 1.0")
    assert "SCRAM-SHA-256" in report["sasl_mechanisms"]
    assert report["open"]["container-id"]
    assert "guest:guest" not in result.out


def test_probe_as_a_table(amqp10: Commands, broker_url: str) -> None:
    """The same for people."""
    result = amqp10("probe", broker_url)
    assert result.code == 0
    assert "SASL mechanisms" in result.out
    assert "max-frame-size" in result.out


def test_demo_accounts_for_each_record(amqp10: Commands, tmp_path: Path) -> None:
    """A small file of one's own through the embedded broker: every row accepted and received, hashes equal."""
    path = tmp_path / "rows.csv"
    path.write_text("id,name,price\n" + "".join(f"{n},name {n},{n}.5\n" for n in range(500)))
    result = amqp10("demo", "--csv", str(path))
    assert result.code == 0, result.out + result.err
    assert "nothing lost, nothing changed" in result.out
    assert "yes" in result.out


def test_demo_on_a_broker_of_choice(amqp10: Commands, broker_url: str, tmp_path: Path) -> None:
    """--url takes any broker."""
    path = tmp_path / "rows.csv"
    path.write_text("id\n" + "".join(f"{n}\n" for n in range(50)))
    result = amqp10("demo", "--url", broker_url, "--csv", str(path), "--address", "demo-test")
    assert result.code == 0, result.out + result.err


@pytest.mark.parametrize("command", ["broker", "send", "receive", "browse", "bridge", "probe", "demo"])
def test_help_teaches(amqp10: Commands, command: str) -> None:
    """Each command explains itself."""
    result = amqp10(command, "--help")
    assert result.code == 0
    assert "Usage: amqp10" in result.out
    assert len(result.out.splitlines()) > 5


def test_a_reader_that_goes_away_is_no_traceback(broker_url: str, amqp10: Commands) -> None:
    """`amqp10 receive ... | head` ends quietly."""
    amqp10("send", broker_url, "pipe", *(["x" * 1000] * 200))
    command = f"{sys.executable} -m amqp10 receive {broker_url} pipe -n 200 --wait 2 | head -n 1"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30)
    assert ended.stdout == "x" * 1000 + "\n"
    assert "Traceback" not in ended.stderr


def test_taken_port(amqp10: Commands, broker_url: str) -> None:
    """A port that another program listens on is refused in one line, with the port and the option."""
    port = broker_url.rpartition(":")[2]
    refused = amqp10("broker", "--port", port)
    assert refused.code == 1
    assert refused.err == f"amqp10: port {port} of 127.0.0.1 is in use: --port takes another, or 0 for any free one\n"


def test_store(amqp10: Commands, other_broker: Starter, tmp_path: Path) -> None:
    """With a store a durable message outlives the process; a second broker on the file is refused in one line."""
    store = str(tmp_path / "store")
    process, url = other_broker("--store", store)
    assert amqp10("send", url, "q", "--durable", "kept").code == 0
    refused = amqp10("broker", "--port", "0", "--store", store)
    assert refused.code == 1
    assert "the store of a broker is in use" in refused.err
    process.kill()
    process.wait(30)
    _, url = other_broker("--store", store)
    assert amqp10("receive", url, "q", "--count", "1").out == "kept\n"


def test_spans_of_dead_letters(other_broker: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """They go to the exporter that is named, at the latest when the broker stops."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    process, url = other_broker("--otel", "console")
    with amqp10.sync.Connection(url) as connection, connection.sender("orders") as sender:
        sender.send("x")
        with connection.receiver("orders") as receiver:
            receiver.receive().reject()
    process.terminate()
    assert process.stdout is not None
    said = process.stdout.read()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert said.count('"name": "dead_letter orders"') == 1
    assert '"service.name": "shop"' in said


def test_an_exporter_that_is_not_there(amqp10: Commands) -> None:
    result = amqp10("broker", "--port", "0", "--otel", "nowhere")
    assert result.code == 2
    assert "the exporter 'nowhere' is not installed; installed are console" in result.err
