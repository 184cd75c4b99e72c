"""Debian's Prometheus scrapes `amqp10 broker --metrics-port`, and its own tool finds no fault with the metrics."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from amqp10.sync import Connection

from ..kit.processes.free_ports import free_ports
from ..kit.processes.programs import started
from ..kit.unavailable import unavailable
from .brokers import STABLE, Unavailable
from .brokers._debian import loader, unpacked

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.capability("health"),
]

SECONDS = 60
SETTINGS = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs: [{{job_name: amqp10, static_configs: [{{targets: ["{target}"]}}]}}]
"""


@pytest.fixture(scope="module")
def debian() -> Path:
    """The folder with Debian's package."""
    try:
        return unpacked("prometheus", "prometheus", STABLE)
    except Unavailable as error:
        unavailable(f"no prometheus: {error}")


class Prometheus:
    """The server, asked by its HTTP interface."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/query?"

    def value(self, expression: str) -> str | None:
        """What the expression is now; None: the server is not there yet, or has no such series."""
        try:
            with urllib.request.urlopen(self._url + urlencode({"query": expression}), timeout=SECONDS) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return found[0]["value"][1] if found else None

    def reaches(self, expression: str, value: str) -> bool:
        """Return whether it comes to that in time."""
        deadline = time.monotonic() + SECONDS
        while self.value(expression) != value:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


@contextmanager
def scraping(debian: Path, target: str, folder: Path) -> Iterator[Prometheus]:
    """Run it on data of its own until the block is left."""
    settings = folder / "prometheus.yml"
    settings.write_text(SETTINGS.format(target=target))
    [port] = free_ports(1)
    options = [
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        command = [*loader(debian), str(debian / "usr/bin/prometheus"), *options]
        with started(command, stdout=log, stderr=log) as process:
            yield Prometheus(port)
            process.kill()


def test_scraped(debian: Path, tmp_path: Path) -> None:
    """A target that is up, with the counts of a queue as messages come and go."""
    command = [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--metrics-port", "0", "--queue", "orders"]
    with started(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        url, metrics = re.findall(r"\w+://\S+", broker.stdout.readline() + broker.stdout.readline())
        with scraping(debian, metrics.split("/")[2], tmp_path) as prometheus, Connection(url) as connection:
            assert prometheus.reaches("up", "1"), (tmp_path / "prometheus.log").read_text()
            with connection.sender("orders") as sender, connection.receiver("orders", credit=1) as receiver:
                sender.send_many(["a", "b", "c"])
                receiver.receive().accept()
            assert prometheus.reaches('amqp10_queue_messages{queue="orders"}', "2")
            assert prometheus.reaches('amqp10_queue_dequeued_total{queue="orders"}', "1")
            assert prometheus.reaches("amqp10_broker_connections", "1")
            with urllib.request.urlopen(metrics, timeout=SECONDS) as answer:
                text = answer.read()
        broker.terminate()
    checked = subprocess.run(
        [*loader(debian), str(debian / "usr/bin/promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, b""), checked.stderr
