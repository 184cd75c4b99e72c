"""The blocks of the pages that are programs for Microsoft's SDKs run beside the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from amqp10 import TLS
from amqp10.broker.azure import AzureConfig, EventHubConfig, QueueConfig
from amqp10.testing import BackgroundEventHubs, BackgroundServiceBus, CertificateAuthority

from ..kit.page_blocks import Block, blocks

pytestmark = [pytest.mark.interop, pytest.mark.capability("Service Bus emulator")]

SDKS = ("azure.eventhub", "azure.servicebus")
BLOCKS = [block for block in blocks() if block.imports(*SDKS) and "@pytest." not in block.code]
CONFIG = AzureConfig(["orders", QueueConfig("sessions", requires_session=True)])
HUBS = AzureConfig(event_hubs=[EventHubConfig("telemetry", 1)])


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement is reached; what would go on receiving is ended then."""
    monkeypatch.chdir(tmp_path)
    authority = CertificateAuthority(tmp_path)
    authority.ca.rename("ca.pem")
    server = authority.server()

    async def run(supplied: dict[str, Any]) -> None:
        with anyio.move_on_after(60) as limit:
            await block.run(supplied, limit.cancel)

    with BackgroundServiceBus(CONFIG) as bus, BackgroundEventHubs(HUBS) as hubs:
        supplied = {
            "config": CONFIG,
            "connection_string": (hubs if "eventhub" in block.page else bus).connection_string,
            "port": 5671,
            "service_bus": bus,
            "tls": TLS(certificate=server.certificate, key=server.key),
        }
        anyio.run(run, {name: supplied[name] for name in block.needs()})
    assert block.missed() == []
