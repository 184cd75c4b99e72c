"""Flask and Django with `amqp10.sync`: their development servers, as a user starts them, by real requests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from amqp10.sync import receive
from amqp10.testing import BackgroundBroker

from ..kit.processes.free_ports import free_ports
from ..kit.processes.programs import started

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.capability("without async")]

FOLDER = Path(__file__).parent.parent.parent / "examples" / "sync"
COMMANDS = {
    "flask": ["-m", "flask", "--app", "flask_app", "run", "--port", "0"],
    "django": ["django_app.py", "runserver", "0"],  # which starts another process and watches the files
}


@contextmanager
def serving(name: str, url: str) -> Iterator[str]:
    """Serve the example, and yield where orders are posted to; Ctrl-C ends it, for all of its processes."""
    command = [sys.executable, "-u", *COMMANDS[name]]
    environment = {**os.environ, "AMQP10_URL": url}
    with started(
        command, cwd=FOLDER, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        assert process.stdout is not None
        written = b""
        try:
            for line in process.stdout:
                written += line
                if (found := re.search(rb"http://127\.0\.0\.1:(\d+)", line)) is not None:
                    break
            else:
                pytest.fail(written.decode())
            yield f"http://127.0.0.1:{int(found[1])}/orders"
        finally:
            os.killpg(process.pid, signal.SIGINT)
            out, _ = process.communicate()
        assert b"Traceback" not in written + out


def post(url: str, body: bytes) -> int:
    """Return the status of an answer."""
    try:
        with urlopen(Request(url, body, method="POST")) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:  # it is the response, too
            return error.code


@pytest.mark.parametrize("name", COMMANDS)
def test_requests(name: str) -> None:
    """While there is no broker the answer is 503. Then requests at once, in threads, share one connection."""
    pytest.importorskip(name)
    bodies = [b'{"id": %d}' % number for number in range(40)]
    (port,) = free_ports(1)
    with serving(name, f"amqp://127.0.0.1:{port}") as url:
        assert post(url, b"too early") == 503
        with BackgroundBroker(port=port) as broker:
            with ThreadPoolExecutor(8) as threads:
                assert list(threads.map(post, [url] * 40, bodies)) == [202] * 40
            assert broker.connections == 1
            assert sorted(each.body for each in receive(broker.url, "web-orders", count=40)) == sorted(bodies)
