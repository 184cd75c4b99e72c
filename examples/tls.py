"""A broker with TLS that asks for client certificates, and a client that logs in with
one.

Usage: python tls.py
"""

import tempfile
from pathlib import Path

import anyio

from amqp10 import TLS, Connection, External
from amqp10.broker import Broker
from amqp10.testing import CertificateAuthority


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        authority = CertificateAuthority(Path(directory))
        server = authority.server("localhost", "127.0.0.1")
        alice = authority.client("alice")
        shown = TLS(ca=authority.ca, certificate=server.certificate, key=server.key)
        mine = TLS(ca=authority.ca, pkcs12=alice.pkcs12, password=alice.password)
        async with (
            Broker(tls=shown) as broker,
            Connection(broker.url, tls=mine, sasl=External()) as connection,
        ):
            print(broker.url.partition(":")[0], "with", connection.mechanism)


anyio.run(main)
