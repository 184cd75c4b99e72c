"""A worker on Azure Service Bus as one deploys it. README.md says how to run it."""

import asyncio
import json
import logging
import math
import os
import signal
from contextlib import suppress

from amqp10 import DeadLetter, Message, Reconnect, Worker
from amqp10.azure import ServiceBus
from amqp10.worker import worker_from_environment

PORT = int(os.environ.get("SERVICE_PORT", "8080"))
PRICES = {"tea": 3, "cake": 5}

log = logging.getLogger("service")


def service_bus() -> ServiceBus:
    """Return a client with a connection string, or with the identity of this machine."""
    reconnect = Reconnect(
        first_attempts=math.inf
    )  # wait for the service at the start, too
    if text := os.environ.get("SERVICE_BUS_CONNECTION_STRING"):
        return ServiceBus(text, reconnect=reconnect)
    from azure.identity import DefaultAzureCredential

    namespace = os.environ["SERVICE_BUS_NAMESPACE"]  # NAME.servicebus.windows.net
    return ServiceBus(namespace, DefaultAzureCredential(), reconnect=reconnect)


async def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    # Until the worker runs, SIGTERM cancels the wait for Azure. Process 1 of a
    # container would otherwise ignore it.
    starting = asyncio.current_task()
    assert starting is not None  # this runs in a task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, starting.cancel)
    bus = service_bus()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer GET /live: restart me unless 200; and /ready: I am at work if 200."""
        try:
            async with asyncio.timeout(5):
                words = (await reader.readline()).split()
                health = bus.connection.health()
                well = health.live if b"/live" in words else health.ready
                status = 200 if well else 503
                headers = "Connection: close\r\nContent-Length: 0\r\n"
                writer.write(f"HTTP/1.1 {status} \r\n{headers}\r\n".encode())
                await writer.drain()
        except (TimeoutError, OSError, ValueError):
            pass  # the one who asked is slow, or gone
        finally:
            writer.close()

    async with (
        await asyncio.start_server(answer, port=PORT),
        bus,
        bus.sender("invoices") as invoices,
    ):

        async def handle(message: Message) -> None:
            """Price an order. The worker renews its lock for as long as this takes."""
            order = json.loads(message.body)
            if order["item"] not in PRICES:
                raise DeadLetter(f"no price for {order['item']}")
            invoice = {
                "order": order["id"],
                "total": PRICES[order["item"]] * order["count"],
            }
            # A handler may run twice for one order. The same id both times lets a queue
            # with duplicate detection drop the second invoice.
            text = json.dumps(invoice).encode()
            await invoices.send(Message(text, message_id=f"invoice-{order['id']}"))
            log.info("order %s is priced", order["id"])

        settings = worker_from_environment()
        async with Worker(bus.connection, "orders", handle, **settings) as worker:
            await worker.until_signal()  # then handlers finish, and the rest is unlocked


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(main())
