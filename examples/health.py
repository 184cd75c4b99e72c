"""Answer the probes of a container platform. Usage: python health.py [URL]

`application` is plain ASGI: any server runs it, and a framework mounts it. Here it is
called without one.
"""

import json
import sys

import anyio

from amqp10 import Connection, Reconnect

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"


class Probes:
    """GET /live: restart me if this is not 200. GET /ready: send me no work while this is
    not 200.
    """

    def __init__(self, connection: Connection, patience: float = 60) -> None:
        self.connection = connection
        self.patience = patience

    async def __call__(self, scope, receive, send) -> None:
        health = self.connection.health()
        # Messages that nobody takes or settles mean that this program hangs. Only a
        # restart helps.
        stuck = health.state == "open" and health.oldest_unsettled > self.patience
        well = {"/live": health.live and not stuck, "/ready": health.ready}.get(
            scope["path"]
        )
        said = {
            "state": health.state,
            "for": round(health.state_age, 1),
            "reconnects": health.reconnects,
        }
        status = 404 if well is None else 200 if well else 503
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})


async def ask(application, path: str) -> None:
    """Do what a web server does with a request."""

    async def send(event) -> None:
        if event["type"] == "http.response.start":
            print(path, event["status"])

    await application({"type": "http", "method": "GET", "path": path}, None, send)


async def main() -> None:
    connection = Connection(URL, reconnect=Reconnect())
    application = Probes(connection)
    await ask(application, "/ready")
    async with connection, connection.receiver("jobs"):
        await ask(application, "/live")
        await ask(application, "/ready")
    await ask(application, "/live")


anyio.run(main)
