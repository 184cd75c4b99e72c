"""Requests to the administration of Service Bus that make no sense: each has a clear status, and nothing breaks."""

from __future__ import annotations

import random
from xml.etree.ElementTree import fromstring

import anyio
import pytest

from amqp10.broker import Broker, SasRule, TokenRules
from amqp10.broker.azure import AzureConfig, TopicConfig

from ...kit.counts import SEEDS
from ...kit.inside.broker import Administration, Namespace, VirtualHostCore
from ...kit.inside.package import MAX_BODY_SIZE, MAX_HEAD_SIZE, HTTPRequest

BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
ENTRY = '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">{}</content></entry>'
HOST = {"host": "localhost:5300"}


def queue_entry(settings: str = "") -> bytes:
    return ENTRY.format(f'<QueueDescription xmlns="{BUS}">{settings}</QueueDescription>').encode()


@pytest.fixture
def administration() -> Administration:
    config = AzureConfig(["orders"], [TopicConfig("events", ["all"])])
    return Administration(Namespace(config, VirtualHostCore(clock=lambda: 0.0)), None)


def ask(administration: Administration, method: str, target: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    answer = administration.answer(HTTPRequest(method, target, HOST | headers, body))
    return answer.status, answer.body.decode()


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<entry xmlns="http://www.w3.org/2005/Atom">&b;</entry>'
)
EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not XML"),
        (b"<", "not XML"),
        (b"<a></b>", "not XML"),
        (b'<?xml version="1.0" encoding="utf-99"?><a/>', "not XML"),
        (b"\xff\xfe\x00", "not XML"),
        (BOMB.encode(), "document type"),
        (EXTERNAL.encode(), "document type"),
        (b"<a>" * 100_000, "5000 elements"),
        (b"<a>" + b"<b/>" * 10_000 + b"</a>", "5000 elements"),
        (b"<a/>", "Atom entry"),
        (ENTRY.format("").encode(), "Atom entry"),
        (ENTRY.format("<QueueDescription/>").encode(), "must describe a QueueDescription"),
        (ENTRY.format("<x/>").encode(), "at this path"),
        (queue_entry("<LockDuration>PT6M</LockDuration>"), "PT5M or less"),
        (queue_entry("<LockDuration>1 minute</LockDuration>"), "LockDuration must be a duration"),
        (queue_entry("<LockDuration>PT0S</LockDuration>"), "longer than 0 seconds"),
        (queue_entry("<MaxDeliveryCount>-1</MaxDeliveryCount>"), "must be a number of 1 or more"),
        (queue_entry("<MaxDeliveryCount>" + "9" * 900 + "</MaxDeliveryCount>"), "must be a number of 1 or more"),
        (queue_entry("<UserMetadata>" + "x" * 2000 + "</UserMetadata>"), "1024 characters"),
        (queue_entry("<RequiresSession>perhaps</RequiresSession>"), "true or false"),
        (queue_entry("<Status>Tired</Status>"), "one of Active"),
        (queue_entry("<ForwardTo>sb://elsewhere/orders</ForwardTo>"), "within the namespace"),
        (queue_entry("<ForwardTo>new</ForwardTo>"), "no queue or topic"),
        (
            queue_entry("<RequiresSession>true</RequiresSession><ForwardTo>orders</ForwardTo>"),
            "cannot require sessions",
        ),
    ],
)
def test_bodies(administration: Administration, body: bytes, says: str) -> None:
    """What is wrong with the body of a PUT is said, and nothing is made."""
    status, text = ask(administration, "PUT", "/new", body)
    assert status in (400, 404)
    assert says in text
    assert ask(administration, "GET", "/new")[0] == 404


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("POST", "/orders", 405),
        ("PATCH", "/$Resources/queues", 405),
        ("DELETE", "/$namespaceinfo", 405),
        ("DELETE", "/events/subscriptions", 405),
        ("GET", "/", 400),
        ("GET", "//", 400),
        ("GET", "/%00", 400),
        ("GET", "/%ff", 400),
        ("GET", "/" + "x" * 2000, 400),
        ("GET", "/$Resources/queues?$skip=-1", 400),
        ("GET", "/$Resources/queues?$top=" + "9" * 30, 400),
        ("GET", "/$Resources/queues?" + "a=1&" * 100, 400),
        ("GET", "/orders/$DeadLetterQueue", 404),
        ("DELETE", "/orders/$DeadLetterQueue", 404),
        ("GET", "/orders/subscriptions/all", 404),
        ("GET", "/events/subscriptions/all/rules/none", 404),
        ("PUT", "/events/subscriptions/all/rules/new", 400),
        ("GET", "http://[", 400),
    ],
)
def test_targets(administration: Administration, method: str, target: str, status: int) -> None:
    """What is asked of what is not there, or cannot be done to it, has the status for that."""
    assert ask(administration, method, target)[0] == status


@pytest.mark.parametrize("name", ["a//b", "-a", "a b", "$a", "x" * 300, "a?b", "é"])
def test_names(administration: Administration, name: str) -> None:
    """A name that no entity may have is refused."""
    assert ask(administration, "PUT", f"/{name}".replace("?", "%3F"), queue_entry())[0] == 400


def test_host(administration: Administration) -> None:
    """A host that would be repeated in answers has to look like one."""
    answer = administration.answer(HTTPRequest("GET", "/orders", {"host": '"><script>'}))
    assert answer.status == 400


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated(administration: Administration, seed: int) -> None:
    """A thousand requests with bytes changed: each has a status of HTTP, and an answer that is XML."""
    chance = random.Random(seed)
    rule = f'<RuleDescription xmlns="{BUS}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
    rule += '<Filter i:type="CorrelationFilter"><Label>x</Label><Properties><KeyValueOfstringanyType><Key>k</Key>'
    rule += '<Value i:type="d:int">1</Value></KeyValueOfstringanyType></Properties></Filter></RuleDescription>'
    bodies = [
        queue_entry("<LockDuration>PT1M</LockDuration><MaxDeliveryCount>3</MaxDeliveryCount><Status>Active</Status>"),
        ENTRY.format(rule).encode(),
    ]
    targets = ["/q%d", "/events/subscriptions/s%d", "/events/subscriptions/all/rules/r%d", "/$Resources/queues?$top=%d"]
    for number in range(1000):
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.choice((0, 1, 1, 3, 20))):
            body[chance.randrange(len(body))] = chance.randrange(256)
        target = chance.choice(targets) % chance.randrange(40)
        if chance.random() < 0.2:
            at = chance.randrange(1, len(target))
            target = target[:at] + chance.choice("%?&/$ é\0#") + target[at + 1 :]
        headers = {"if-match": "*"} if chance.random() < 0.3 else {}
        status, text = ask(administration, chance.choice(("PUT", "GET", "DELETE")), target, bytes(body), **headers)
        assert status in (200, 201, 400, 403, 404, 405, 409), (number, text)
        if text:
            fromstring(text)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"GET\r\n\r\n", b"400"),
        (b"GET /orders HTTP/2\r\n\r\n", b"400"),
        (b"GET /orders HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET /orders HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /orders HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /orders HTTP/1.1\r\nHost: a\r\n\r\n", b"401"),
        (b"GET /orders HTTP/1.1\r\nHost: a\r\nAuthorization: SharedAccessSignature sr=a\r\n\r\n", b"401"),
        (b"PUT /orders HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"PUT /orders HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_SIZE + 1), b"413"),
        (b"PUT /orders HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
        (b"PUT /orders HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"GET /" + b"x" * MAX_HEAD_SIZE, b"431"),
        (bytes(range(256)) * 10 + b"\r\n\r\n", b"400"),
    ],
    ids=range(14),
)
async def test_octets(octets: bytes, status: bytes) -> None:
    """What is no request of HTTP, or too large, is answered as soon as that is known."""
    tokens = TokenRules([SasRule("policy", "key")])
    async with Broker(azure=AzureConfig(["orders"]), tokens=tokens) as broker:
        async with broker.azure.administration(port=0) as url:
            port = int(url.rpartition(":")[2])
            with anyio.fail_after(60):
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await stream.send(octets)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 " + status)


@pytest.mark.anyio
async def test_many_connections() -> None:
    """Silent connections take the places of others for some seconds, and no more of them than there are places."""
    async with Broker(azure=AzureConfig(["orders"])) as broker:
        async with broker.azure.administration(port=0) as url:
            port = int(url.rpartition(":")[2])
            silent = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(60)]
            with anyio.fail_after(60), pytest.raises(anyio.EndOfStream):
                await silent[-1].receive()
            for stream in silent:
                await stream.aclose()
            await anyio.wait_all_tasks_blocked()
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"GET /orders HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")


@pytest.mark.anyio
async def test_beyond_loopback() -> None:
    """Where nobody needs a token, nobody from elsewhere administers."""
    async with Broker(azure=AzureConfig(["orders"])) as broker:
        with pytest.raises(ValueError, match="without tokens"):
            async with broker.azure.administration("0.0.0.0", 0):
                pass
