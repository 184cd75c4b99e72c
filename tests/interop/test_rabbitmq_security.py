"""Our client against RabbitMQ 4: TLS and client certificates."""

from __future__ import annotations

import ssl

import pytest

from amqp10 import TLS, Connection, ConnectionLost, External

from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600)]


async def test_tls(rabbitmq: Server) -> None:
    """Over TLS, certificates verified in both directions; refused when the broker's authority is not trusted."""
    folder = rabbitmq.certificates
    async with Connection(rabbitmq.url("amqps"), tls=TLS(ca=folder / "ca.pem")) as connection:
        assert connection.mechanism == "PLAIN"
        assert connection.remote_properties["version"].startswith("4.")
    tls = TLS(ca=folder / "ca.pem", certificate=folder / "client.pem", key=folder / "client.key")
    async with Connection(rabbitmq.url("amqps", user=None), tls=tls, sasl=External()) as connection:
        assert connection.mechanism == "EXTERNAL"
    with pytest.raises(ConnectionLost, match="certificate") as failed:
        async with Connection(rabbitmq.url("amqps"), tls=TLS(ca=folder / "stranger.pem")):
            pass
    assert isinstance(failed.value.__cause__, ssl.SSLCertVerificationError)
