from __future__ import annotations

from pathlib import Path

import pytest

from amqp10.broker import Broker
from amqp10.broker._serving.access import Access
from amqp10.client import Connection
from amqp10.engine import dialect_names
from amqp10.errors import AmqpError, AuthenticationFailed
from amqp10.messaging import Message
from amqp10.net import TLS, CertificateName, is_loopback
from amqp10.sasl import External, Plain, ScramSha256
from amqp10.testing import CertificateAuthority

pytestmark = pytest.mark.capability("users and permissions")


@pytest.mark.parametrize(
    ("access", "allowed"),
    [
        (Access(), True),
        (Access(users={"a": "b"}), False),
        (Access(users={}), False),
        (Access(users={"a": "b"}, anonymous=True), True),
        (Access(anonymous=False), False),
        (Access(external=True), False),
    ],
)
def test_anonymous(access: Access, allowed: bool) -> None:
    """Said outright, or else where nobody has a name."""
    assert access.anonymous_allowed is allowed
    assert access.authenticator().anonymous_allowed is allowed


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "broker.example"])
def test_open_to_all_only_on_demand(host: str) -> None:
    """Beyond loopback someone has to say that everyone may come in."""
    with pytest.raises(ValueError, match="users"):
        Access().check_host(host)
    for access in (Access({"a": "b"}), Access(anonymous=True), Access(external=True)):
        access.check_host(host)


@pytest.mark.parametrize(
    "host", ["amqp://localhost", "amqp://ann:secret@127.0.0.1:5672", "127.0.0.1:5672", "ann@host", "/run/broker", "a b"]
)
def test_no_host(host: str) -> None:
    """A URL where a host belongs is said to be one, without its password, and where its parts go."""
    with pytest.raises(
        ValueError, match=r"host=\.\.\.\) must be a name or address .* such as '127.0.0.1', not .* port="
    ) as error:
        Broker(host, users={"ann": "secret"})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback(host: str) -> None:
    """All of this machine's own addresses."""
    assert is_loopback(host)
    Access().check_host(host)


def test_passwords_are_not_shown() -> None:
    """Neither the rules nor their authenticator show a password."""
    access = Access(users={"ann": "secret"})
    assert "secret" not in repr(access) + repr(access.authenticator())


@pytest.mark.anyio
async def test_no_users() -> None:
    """A list of users that turned out to be empty lets nobody in, by whatever dialect."""
    async with Broker(users={}) as broker:
        for dialect in sorted(dialect_names()):
            for login in ("", "ann:secret@"):
                with pytest.raises(AmqpError):
                    async with Connection(broker.url.replace("//", f"//{login}"), dialect=dialect):
                        pass
        assert broker.connections == 0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """A throw-away authority."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_tls(authority: CertificateAuthority) -> TLS:
    """The broker's own certificate, and whose client certificates it wants to see."""
    files = authority.server("127.0.0.1")
    return TLS(certificate=files.certificate, key=files.key, ca=authority.ca)


@pytest.mark.anyio
async def test_tls_and_external(authority: CertificateAuthority, server_tls: TLS) -> None:
    """A client certificate is the way in, by EXTERNAL; without one there is none."""
    files = authority.client("ann")
    async with Broker(tls=server_tls) as broker:
        assert broker.url.startswith("amqps://")
        tls = TLS(ca=authority.ca, certificate=files.certificate, key=files.key)
        async with Connection(broker.url, tls=tls, sasl=External()) as connection:
            assert connection.mechanism == "EXTERNAL"
            async with connection.sender("q") as sender:
                await sender.send(b"x" * 1_000_000)
            assert broker.queue("q").bytes > 1_000_000
        with pytest.raises(AuthenticationFailed):
            async with Connection(broker.url, tls=tls):
                pass
        with pytest.raises(AmqpError):
            async with Connection(broker.url, tls=TLS(ca=authority.ca)):
                pass
        assert broker.connections == 0


@pytest.mark.anyio
@pytest.mark.parametrize(("part", "name"), [("CN", "ann"), ("subject", "CN=ann"), ("email", None)])
async def test_certificate_name(
    authority: CertificateAuthority, server_tls: TLS, part: CertificateName, name: str | None
) -> None:
    """Whoever runs the broker says which part of a certificate is the user; one that lacks it is nobody's."""
    files = authority.client("ann")
    tls = TLS(ca=authority.ca, certificate=files.certificate, key=files.key)
    async with Broker(tls=server_tls, certificate_name=part) as broker:
        if name is None:
            with pytest.raises(AuthenticationFailed):
                async with Connection(broker.url, tls=tls, sasl=External()):
                    pass
            return
        async with Connection(broker.url, tls=tls, sasl=External()) as connection, connection.sender("q") as sender:
            await sender.send(Message("x", user_id=name.encode()))
    with pytest.raises(ValueError, match="certificate_name"):
        Broker(certificate_name="cn")  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_plain_bytes_on_a_tls_port(authority: CertificateAuthority, server_tls: TLS, tmp_path: Path) -> None:
    """A client that forgets TLS gets nothing, and the next one is served."""
    files = authority.client("ann")
    async with Broker(tls=server_tls) as broker:
        with pytest.raises(AmqpError):
            async with Connection(broker.url.replace("amqps", "amqp")):
                pass
        tls = TLS(ca=authority.ca, certificate=files.certificate, key=files.key)
        async with Connection(broker.url, tls=tls, sasl=External()):
            assert broker.connections == 1


@pytest.mark.anyio
@pytest.mark.parametrize("mechanism", [Plain, ScramSha256])
async def test_users_by_mechanism(mechanism: type[Plain] | type[ScramSha256]) -> None:
    """Users come in by PLAIN and by SCRAM, with the right password."""
    async with Broker(users={"ann": "secret"}) as broker:
        async with Connection(broker.url, sasl=mechanism("ann", "secret")) as connection:
            assert connection.mechanism == mechanism.name
        for user, password in (("ann", "wrong"), ("bob", "secret")):
            with pytest.raises(AuthenticationFailed):
                async with Connection(broker.url, sasl=mechanism(user, password)):
                    pass


def test_readable_passwords_only_on_demand() -> None:
    """On a transport that shows it PLAIN is offered only where that was allowed by name."""
    for allowed in (False, True):
        rules = Access({"ann": "secret"}, allow_insecure=allowed).authenticator().for_connection(secure=False)
        assert ("PLAIN" in rules.mechanisms()) is allowed
        assert "SCRAM-SHA-256" in rules.mechanisms()
