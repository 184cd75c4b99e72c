"""How Spark's options become a connection."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from amqp10.broker import Broker
from amqp10.errors import AuthenticationFailed
from amqp10.net import TLS
from amqp10.spark._connection.connect import connection
from amqp10.spark._options import Options
from amqp10.testing import CertificateAuthority

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "sasl", ["plain", *(f"scram-sha-{size}{plus}" for size in (1, 256, 512) for plus in ("", "-plus"))]
)
async def test_mechanisms(tmp_path: Path, sasl: str) -> None:
    """The one that is named is used, and no other in its place."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server("127.0.0.1")
    tls = TLS(certificate=files.certificate, key=files.key)
    login = {"username": "ann", "password": "secret", "sasl": sasl}
    async with Broker(users={"ann": "secret"}, tls=tls) as broker:
        options = Options.parse({"url": broker.url, "tls.ca": str(authority.ca), **login})
        async with connection(options) as opened:
            assert opened.mechanism == sasl.upper()
    async with Broker(users={"ann": "secret"}) as broker:
        options = Options.parse({"url": broker.url, **login})
        if sasl.endswith("-plus"):
            with pytest.raises(AuthenticationFailed, match=sasl.upper()):
                await connection(options).__aenter__()
        else:
            async with connection(options) as opened:
                assert opened.mechanism == sasl.upper()
