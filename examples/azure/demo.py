"""Run the service beside the emulator of Service Bus: four orders, and SIGTERM.

No account, no Docker.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from amqp10 import Message
from amqp10.azure import ServiceBus
from amqp10.broker.azure import AzureConfig, QueueConfig
from amqp10.testing import BackgroundServiceBus

ORDERS = [("tea", 2), ("cake", 1), ("coal", 1), ("tea", 1)]
CONFIG = AzureConfig(["orders", QueueConfig("invoices", duplicate_window=600.0)])


async def work_with(text: str) -> None:
    """Send orders; print the invoices, and what became of the order without a price."""
    async with ServiceBus(text) as bus:
        async with bus.sender("orders") as sender:
            for number, (item, count) in enumerate(ORDERS):
                order = {"id": number, "item": item, "count": count}
                await sender.send(Message(json.dumps(order).encode()))
        totals: list[float] = []
        async with bus.receiver("invoices") as receiver:
            while len(totals) < 3:
                async with await receiver.receive() as message:
                    totals.append(json.loads(message.body)["total"])
        print("invoices:", sorted(totals))
        async with bus.receiver("orders", dead_letters=True) as receiver:
            delivery = await receiver.receive()
            print("dead:", delivery.dead_letter_description)
            await delivery.complete()


with BackgroundServiceBus(CONFIG) as emulator:
    settings = {
        "SERVICE_BUS_CONNECTION_STRING": emulator.connection_string,
        "SERVICE_PORT": "0",  # any free one: nobody asks here
    }
    program = [sys.executable, str(Path(__file__).with_name("service.py"))]
    with subprocess.Popen(
        program, env=os.environ | settings, stderr=subprocess.DEVNULL
    ) as service:
        try:
            asyncio.run(work_with(emulator.connection_string))
        finally:
            service.send_signal(signal.SIGTERM)
    print("ended by SIGTERM:", service.returncode)
