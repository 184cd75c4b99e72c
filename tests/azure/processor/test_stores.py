"""The stores of leases that need no server; tests/interop asks those that do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from amqp10 import StoreError, Unsupported
from amqp10.azure import BlobLeases, Checkpoint, Lease, LeaseStore, MemoryLeases, PostgreSQLLeases, SQLiteLeases

from ...kit.azure.lease_stores import GROUP, Clause, contract
from ...kit.unavailable import unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.capability("Event Hubs processor")]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LeaseStore:
    if request.param == "memory":
        return MemoryLeases()
    return SQLiteLeases(tmp_path / "leases.db", timeout=60)


@contract
async def test_contract(clause: Clause, store: LeaseStore) -> None:
    """What every store has to do; `clause` says what that is."""
    await clause(store)


@pytest.mark.parametrize("name", ["psycopg", "psycopg_pool"])
async def test_no_driver(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its driver, the store in PostgreSQL says what to install."""
    pool: Any = "none"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unsupported, match=r"pip install 'amqp10\[azure-postgresql\]' 'psycopg\[binary\]'"):
        PostgreSQLLeases(pool)


class Portal(BaseHTTPRequestHandler):
    """What answers instead of the service, as the portal of a network does: with success, and a page of its own."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        page = b'<?xml version="1.0"?><html><body>Please log in</body></html>' if self.command == "GET" else b""
        self.send_response(201 if self.command == "PUT" and "comp" not in self.path else 200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Last-Modified", "at some time")
        self.end_headers()
        self.wfile.write(page)

    do_PUT = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Write nothing."""


@pytest.fixture
def portal() -> Iterator[BlobLeases]:
    """A store whose service is not there."""
    try:
        from azure.storage.blob import ContainerClient
    except ImportError:
        unavailable("azure-storage-blob is not installed")
    with ThreadingHTTPServer(("127.0.0.1", 0), Portal) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/account/leases"
        with ContainerClient.from_container_url(url, retry_total=0) as container:
            yield BlobLeases(container)
        server.shutdown()


async def test_a_portal_instead_of_the_service(portal: BlobLeases) -> None:
    """Whatever the client of the service makes of it, the store fails, and so it is asked again."""
    for call in (
        portal.leases(GROUP),
        portal.write(GROUP, [Lease("0", "me")]),
        portal.write(GROUP, [Lease("0", "me", "version")]),
        portal.checkpoints(GROUP),
        portal.save(GROUP, {"0": Checkpoint(1)}),
    ):
        with pytest.raises(StoreError, match="container 'leases'"):
            await call
