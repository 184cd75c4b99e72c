"""A worker on Azure Service Bus as one deploys it. README.md says how to run it."""

import json
import logging
import math
import os
import signal
from contextlib import suppress

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.stapled import MultiListener

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


async def price_orders(bus: ServiceBus) -> None:
    """Work until SIGTERM or SIGINT."""
    async with bus, bus.sender("invoices") as invoices:

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


async def end_at_sigterm(scope: anyio.CancelScope) -> None:
    """Cancel the wait for Azure. Process 1 of a container ignores a signal that
    nobody handles. Once the worker runs, it handles this one.
    """
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


async def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    bus = service_bus()

    async def answer(client: SocketStream) -> None:
        """Answer GET /live: restart me unless 200; and /ready: I am at work if 200."""
        cut = (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.DelimiterNotFound)
        async with client:
            # No answer to one that is slow, has gone, or sends something else
            with anyio.move_on_after(5), suppress(*cut, ValueError):
                request = BufferedByteReceiveStream(client)
                words = (await request.receive_until(b"\r\n\r\n", 8192)).split()
                health = bus.connection.health()
                well = health.live if b"/live" in words else health.ready
                status = 200 if well else 503
                headers = "Connection: close\r\nContent-Length: 0\r\n"
                await client.send(f"HTTP/1.1 {status} \r\n{headers}\r\n".encode())

    async def serve_probes(listener: MultiListener[SocketStream]) -> None:
        while True:
            try:
                await listener.serve(answer)
            except* (OSError, anyio.BrokenResourceError):
                log.warning("the next probe waits a second: no file descriptor is free")
            await anyio.sleep(1)

    async with (
        await anyio.create_tcp_listener(local_port=PORT) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(end_at_sigterm, tasks.cancel_scope)
        tasks.start_soon(serve_probes, listener)
        await price_orders(bus)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
