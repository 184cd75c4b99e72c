"""SCRAM-PLUS over TLS, by every dialect: bound where it can be, refused where somebody ends TLS in between."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, ScramSha256, ScramSha256Plus, ScramSha512Plus
from amqp10.broker import Broker
from amqp10.engine import dialect_names
from amqp10.errors import AmqpError, AuthenticationFailed
from amqp10.net import TLS, accept, connect, parse_url
from amqp10.testing import CertificateAuthority, CertificateFiles

pytestmark = pytest.mark.anyio

dialects = pytest.mark.parametrize("dialect", sorted(dialect_names()))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """A throw-away authority."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def files(authority: CertificateAuthority) -> CertificateFiles:
    """The broker's own certificate."""
    return authority.server("127.0.0.1")


def with_login(url: str) -> str:
    return url.replace("://", "://ann:secret@")


@asynccontextmanager
async def ending_tls(url: str, files: CertificateFiles) -> AsyncIterator[str]:
    """A proxy with a certificate of its own, which passes on over TLS what it could read; where it is."""
    context = TLS(certificate=files.certificate, key=files.key).server_context()

    async def copy(source: ByteStream, target: ByteStream) -> None:
        try:
            while True:
                await target.send(await source.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await anyio.aclose_forcefully(target)

    async def serve(stream: ByteStream) -> None:
        near, _ = await accept(stream, context)
        far, _ = await connect(parse_url(url), TLS(verify=False))
        async with anyio.create_task_group() as both:
            both.start_soon(copy, near, far)
            both.start_soon(copy, far, near)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"amqps://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


@dialects
async def test_bound(authority: CertificateAuthority, files: CertificateFiles, dialect: str) -> None:
    """The usual login over TLS is bound; one by name is as it is named; one without TLS goes without."""
    server, ours = TLS(certificate=files.certificate, key=files.key), TLS(ca=authority.ca)
    async with Broker(users={"ann": "secret"}, tls=server) as broker:
        async with Connection(with_login(broker.url), tls=ours, dialect=dialect) as connection:
            assert connection.mechanism == "SCRAM-SHA-512-PLUS"
        for sasl in (ScramSha256Plus("ann", "secret"), ScramSha256("ann", "secret")):
            async with Connection(broker.url, tls=ours, dialect=dialect, sasl=sasl) as connection:
                assert connection.mechanism == sasl.name
        with pytest.raises(AmqpError):
            async with Connection(broker.url, tls=ours, dialect=dialect, sasl=ScramSha256Plus("ann", "wrong")):
                pass
    async with Broker(users={"ann": "secret"}) as broker:
        async with Connection(with_login(broker.url), dialect=dialect) as connection:
            assert connection.mechanism == "SCRAM-SHA-512"


@dialects
async def test_tls_ends_in_between(
    authority: CertificateAuthority, files: CertificateFiles, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client is told, the log says so, and whoever wants it that way names a mechanism without."""
    server, ours = TLS(certificate=files.certificate, key=files.key), TLS(ca=authority.ca)
    async with (
        Broker(users={"ann": "secret"}, tls=server) as broker,
        ending_tls(broker.url, authority.server("127.0.0.1")) as url,
    ):
        with pytest.raises(AuthenticationFailed, match=r"another certificate.*ScramSha256\(user, password\)"):
            async with Connection(with_login(url), tls=ours, dialect=dialect):
                pass
        async with Connection(url, tls=ours, dialect=dialect, sasl=ScramSha256("ann", "secret")) as connection:
            assert connection.mechanism == "SCRAM-SHA-256"
    told = [record.getMessage() for record in caplog.records if "could not log in" in record.getMessage()]
    assert len(told) == 1
    assert told[0].endswith("as 'ann' by SCRAM-SHA-512-PLUS: channel-bindings-dont-match")
    assert caplog.records[0].levelno == logging.WARNING


async def test_unchecked_certificate(authority: CertificateAuthority, files: CertificateFiles) -> None:
    """Nobody in between gets a login passed on where `verify=False` lets anybody be the server."""
    async with (
        Broker(users={"ann": "secret"}, tls=TLS(certificate=files.certificate, key=files.key)) as broker,
        ending_tls(broker.url, authority.server("elsewhere.example")) as url,
    ):
        with pytest.raises(AuthenticationFailed, match="another certificate"):
            async with Connection(with_login(url), tls=TLS(verify=False)):
                pass
        async with Connection(with_login(broker.url), tls=TLS(verify=False)) as connection:
            assert connection.mechanism == "SCRAM-SHA-512-PLUS"


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_versions(authority: CertificateAuthority, files: CertificateFiles, newest: ssl.TLSVersion) -> None:
    """By whatever version of TLS, with a context of the client's own, and inside a WebSocket."""
    context = TLS(ca=authority.ca).client_context()
    context.maximum_version = newest
    server = TLS(pkcs12=files.pkcs12, password=files.password)
    async with Broker(users={"ann": "secret"}, tls=server, websocket=True) as broker:
        for url in (broker.url, broker.websocket_url):
            async with Connection(with_login(url), tls=context) as connection:
                assert connection.mechanism == "SCRAM-SHA-512-PLUS"


async def test_foreign_context(authority: CertificateAuthority, files: CertificateFiles) -> None:
    """Which certificate somebody's context shows is not known: nothing is bound then, and -PLUS by itself says so."""
    context = TLS(certificate=files.certificate, key=files.key).server_context()
    ours = TLS(ca=authority.ca)
    async with Broker(users={"ann": "secret"}, tls=context) as broker:
        async with Connection(with_login(broker.url), tls=ours) as connection:
            assert connection.mechanism == "SCRAM-SHA-512"
        with pytest.raises(AuthenticationFailed, match="this side can use SCRAM-SHA-256-PLUS"):
            async with Connection(broker.url, tls=ours, sasl=ScramSha256Plus("ann", "secret")):
                pass


async def test_insists(authority: CertificateAuthority, files: CertificateFiles) -> None:
    """-PLUS by itself is not lowered where it is not in the offer, nor where there is no TLS."""
    insisting = [ScramSha512Plus("ann", "secret"), ScramSha256Plus("ann", "secret")]
    context = TLS(certificate=files.certificate, key=files.key).server_context()  # for which nothing is offered
    async with Broker(users={"ann": "secret"}, tls=context) as broker:
        with pytest.raises(AuthenticationFailed, match="somebody in between took that out of its offer"):
            async with Connection(broker.url, tls=TLS(ca=authority.ca), sasl=insisting):
                pass
    async with Broker(users={"ann": "secret"}) as broker:
        with pytest.raises(AuthenticationFailed, match="this side can use SCRAM-SHA-256-PLUS"):
            async with Connection(broker.url, sasl=ScramSha256Plus("ann", "secret")):
                pass
