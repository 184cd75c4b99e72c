"""Send a message at each full period, such as every five minutes.

Usage: python periodic.py [URL]
"""

import sys
import time

import anyio

from amqp10 import Connection, Message, Reconnect

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"
PERIOD = 0.2  # seconds; 300 for five minutes


async def tick(connection: Connection) -> None:
    """Send a message for each period that has ended, at most once for each."""
    async with connection.sender("reports") as sender:
        number = int(time.time() // PERIOD)
        while True:
            number = max(number + 1, int(time.time() // PERIOD))
            await anyio.sleep(number * PERIOD - time.time())
            # Every replica gives the same period the same id: see below
            name = f"report-{number}"
            await sender.send(
                Message(
                    {"period": number},
                    message_id=name,
                    durable=True,
                    application_properties={"_AMQ_DUPL_ID": name},
                )
            )


async def main() -> None:
    async with (
        Connection(URL, reconnect=Reconnect()) as connection,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(tick, connection)
        async with connection.receiver("reports") as receiver:
            for _ in range(3):
                with await receiver.receive():
                    print("time for a report")
        tasks.cancel_scope.cancel()


anyio.run(main)
