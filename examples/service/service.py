"""A worker as one deploys it: configuration, health, telemetry and an orderly end.
README.md says how to run it.
"""

import asyncio
import json
import logging
import math
import os
import signal
from contextlib import suppress

from amqp10 import Connection, DeadLetter, Message, Reconnect, Worker, from_environment
from amqp10.worker import worker_from_environment

ADDRESS = os.environ.get("SERVICE_ADDRESS", "orders")
PORT = int(os.environ.get("SERVICE_PORT", "8080"))
STUCK_AFTER = 300  # seconds: longer than the longest order takes

log = logging.getLogger("service")


async def handle(message: Message) -> None:
    """Ship one order. An exception has it tried again; it may come twice, so shipping
    must bear that.
    """
    order = json.loads(message.body)
    if order["count"] < 1:
        raise DeadLetter("nothing to ship")
    log.info("order %s: %s pieces", order["id"], order["count"])


def probe(connection: Connection, path: str) -> int:
    """Return the HTTP status for /live (restart me unless 200) and /ready (no traffic
    unless 200).
    """
    health = connection.health()
    stuck = health.state == "open" and health.oldest_unsettled > STUCK_AFTER
    well = {"/live": health.live and not stuck, "/ready": health.ready}.get(path)
    return 404 if well is None else 200 if well else 503


async def main() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    # `opentelemetry-instrument` sets up what exports
    if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ:
        from amqp10.otel import instrument

        instrument()
    # Until the worker runs, SIGTERM cancels the wait for the broker. Process 1 of a
    # container would otherwise ignore it.
    starting = asyncio.current_task()
    assert starting is not None  # this runs in a task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, starting.cancel)
    urls, settings = from_environment()
    # The first connection, too, waits for the broker. If the process is killed, its
    # messages go back to the queue after ten seconds.
    settings = {
        "reconnect": Reconnect(first_attempts=math.inf, resume_timeout=10),
        **settings,
    }
    connection = Connection(urls, **settings)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                request = (await reader.readline()).split()
                path = request[1].decode() if len(request) > 1 else ""
                status = probe(connection, path) if path else 400
                headers = "Connection: close\r\nContent-Length: 0\r\n"
                writer.write(f"HTTP/1.1 {status} \r\n{headers}\r\n".encode())
                await writer.drain()
        except (TimeoutError, OSError, ValueError):
            pass  # the one who asked is slow, or gone
        finally:
            writer.close()

    async with (
        await asyncio.start_server(answer, port=PORT),
        connection,
        Worker(connection, ADDRESS, handle, **worker_from_environment()) as worker,
    ):
        # Waits for SIGTERM. Leaving the block then lets handlers finish and gives the
        # rest back.
        await worker.until_signal()


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(main())
