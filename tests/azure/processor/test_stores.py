"""The stores of leases that need no server; tests/interop asks those that do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from amqp10 import Unsupported
from amqp10.azure import LeaseStore, MemoryLeases, PostgreSQLLeases, SQLiteLeases

from ...kit.azure.lease_stores import Clause, contract

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
