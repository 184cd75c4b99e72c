"""Run a broker by hand, until Ctrl-C: `python -m tests.interop.brokers artemis`."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from . import (
    RECIPES,
    DidNotStart,
    Unavailable,
    java,
    serving,
    serving_rabbitmq,
    write_certificates,
    write_trust_store,
)

NAMES = (*RECIPES, "rabbitmq")


def main() -> int | str:
    """Print the broker's URLs and wait."""
    if len(sys.argv) != 2 or sys.argv[1] not in NAMES:
        return f"usage: python -m tests.interop.brokers {'|'.join(NAMES)}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="amqp10-tls-") as folder:
            certificates = Path(folder)
            write_certificates(certificates)
            with ExitStack() as stack:
                if sys.argv[1] in RECIPES:
                    write_trust_store(certificates, java())
                    server = stack.enter_context(serving(RECIPES[sys.argv[1]], certificates)).server
                else:
                    server = stack.enter_context(serving_rabbitmq(certificates)).server
                urls = {port: server.url(port, None if port == "external" else "user") for port in server.ports}
                print(json.dumps({"urls": urls, "certificates": folder, "pid": server.pid}, indent=2), flush=True)
                signal.pause()
    except (Unavailable, DidNotStart) as error:
        return str(error)
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
