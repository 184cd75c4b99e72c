"""TLS by AMQP's own header: begun at the plain port, secured before anything is said.

Usage: python tls_upgrade.py
"""

import tempfile
from pathlib import Path

import anyio

from amqp10 import TLS, Connection, Unsupported
from amqp10.broker import Broker
from amqp10.testing import CertificateAuthority


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        authority = CertificateAuthority(Path(directory))
        server = authority.server("localhost", "127.0.0.1")
        shown = TLS(certificate=server.certificate, key=server.key)
        async with Broker(tls=shown) as broker:
            url = broker.url.replace("amqps://", "amqp://")
            trusted = TLS(ca=authority.ca)
            async with (
                Connection(url, tls=trusted, tls_upgrade=True) as connection,
                connection.sender("q") as sender,
            ):
                await sender.send("nobody on the way can read this")
                print("sent over TLS")
        async with Broker() as broker:
            try:
                async with Connection(broker.url, tls=trusted, tls_upgrade=True):
                    pass
            except Unsupported as error:
                print("not in the clear either:", error)


anyio.run(main)
