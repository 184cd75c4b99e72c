"""A worker as one deploys it: configuration, health, telemetry and an orderly end.
README.md says how to run it.
"""

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


async def end_at_sigterm(scope: anyio.CancelScope) -> None:
    """Cancel the wait for the broker. Process 1 of a container ignores a signal that
    nobody handles. Once the worker runs, it handles this one.
    """
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


async def main() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    # `opentelemetry-instrument` sets up what exports
    if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ:
        from amqp10.otel import instrument

        instrument()
    urls, settings = from_environment()
    # The first connection, too, waits for the broker. If the process is killed, its
    # messages go back to the queue after ten seconds.
    settings = {
        "reconnect": Reconnect(first_attempts=math.inf, resume_timeout=10),
        **settings,
    }
    connection = Connection(urls, **settings)

    async def answer(client: SocketStream) -> None:
        cut = (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.DelimiterNotFound)
        async with client:
            # No answer to one that is slow, has gone, or sends something else
            with anyio.move_on_after(5), suppress(*cut, ValueError):
                request = BufferedByteReceiveStream(client)
                words = (await request.receive_until(b"\r\n\r\n", 8192)).split()
                status = probe(connection, words[1].decode()) if len(words) > 1 else 400
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
        async with (
            connection,
            Worker(connection, ADDRESS, handle, **worker_from_environment()) as worker,
        ):
            # Waits for SIGTERM. Leaving the block then lets handlers finish and gives
            # the rest back.
            await worker.until_signal()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
