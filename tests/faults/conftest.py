"""What the tests need that kill real brokers, and processes of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..interop.brokers import write_certificates
from ..kit.spark.own_broker import broker_url as broker_url


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates that real brokers are given."""
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder
