"""python-qpid-proton for scale.py: CPU a message with many connections, memory of what is idle.

python benchmarks/peers/proton_scale.py URL cost WAY CONNECTIONS MESSAGES_OF_EACH
python benchmarks/peers/proton_scale.py URL (connections | links | deliveries) COUNT
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

BODY = b"x" * 100
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of memory that this process has, garbage collected."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def report(name: str, figure: float) -> NoReturn:
    print(json.dumps({name: figure}), flush=True)
    os._exit(0)  # nothing is to be told of it all


class Many(MessagingHandler):
    """So many connections with a link each; when all are there, `each` messages on each as fast as they go."""

    def __init__(self, url: str, way: str, connections: int, each: int) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.url, self.way, self.connections, self.each = url, way, connections, each
        self.left = connections * each
        self.links: list[Any] = []
        self.unsent: dict[Any, int] = {}
        self.began = 0.0

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.open()

    def open(self) -> None:
        connection = self.container.connect(
            self.url, allowed_mechs="ANONYMOUS", max_frame_size=131_072, reconnect=False
        )
        make = self.container.create_sender if self.way == "send" else self.container.create_receiver
        make(connection, f"q.{len(BODY)}.{self.each}")

    def on_link_opened(self, event: Any) -> None:
        self.links.append(event.link)
        if len(self.links) < self.connections:
            self.open()
            return
        self.began = time.process_time()
        for link in self.links:
            if self.way == "send":
                self.unsent[link.name, link.connection] = self.each
                self.send(link)
            else:
                link.flow(self.each)

    def send(self, link: Any) -> None:
        key = link.name, link.connection
        while link.credit and self.unsent[key]:
            link.send(Message(body=BODY, inferred=True))
            self.unsent[key] -= 1

    def on_sendable(self, event: Any) -> None:
        if self.unsent:
            self.send(event.sender)

    def on_accepted(self, event: Any) -> None:
        self.done()

    def on_message(self, event: Any) -> None:
        assert len(event.message.body) == len(BODY)
        self.accept(event.delivery)
        self.done()

    def done(self) -> None:
        self.left -= 1
        if not self.left:
            report("cpu", (time.process_time() - self.began) / (self.connections * self.each) * 1e6)


def memory(url: str, what: str, count: int) -> NoReturn:
    """Bytes of each so many, idle."""

    def connect() -> Any:
        return BlockingConnection(url, allowed_mechs="ANONYMOUS")

    kept: list[Any] = [connect()]
    if what == "connections":
        before = resident()
        kept += [connect() for _ in range(count)]
    elif what == "links":
        kept.append(kept[0].create_receiver("q.1.0"))
        before = resident()
        kept += [kept[0].create_receiver(f"q{n}.1.0", name=str(n)) for n in range(count)]
    else:
        receiver = kept[0].create_receiver(f"q.{len(BODY)}.{count + 1000}", credit=count + 1000)
        kept += [receiver.receive() for _ in range(1000)]
        before = resident()
        kept += [receiver.receive() for _ in range(count)]
    report("each", (resident() - before) / count)


if __name__ == "__main__":
    url, what, *arguments = sys.argv[1:]
    if what == "cost":
        way, connections, each = arguments
        Container(Many(url, way, int(connections), int(each))).run()
    else:
        memory(url, what, int(arguments[0]))
