"""A small broker on python-qpid-proton, in the style of its examples; a program, run by test_proton_listener.py.

    python proton_listener.py PORT [FOLDER]     with a folder that has server.pem and server.key: TLS

It decodes every message and encodes it anew, by proton's codec both times. Addresses are queues, made when first used.
Released and modified messages come again, rejected ones go to `dead`. Senders to `slow` get one credit at a time.
Receivers from `parts` get a message in parts, the end of it a while after the rest; from `aborted` one that is aborted
in the middle, and one that is whole.
"""

from __future__ import annotations

import sys
import uuid
from collections import defaultdict, deque
from typing import Any

from proton import Condition, Delivery, Endpoint, Message, SSLDomain, Terminus
from proton.handlers import MessagingHandler
from proton.reactor import Container

DEAD = "dead"
SLOW = "slow"
FORBIDDEN = "forbidden"
PARTS = "parts"
ABORTED = "aborted"
PART = bytes(range(256)) * 4096
CREDIT = 100


class Listener(MessagingHandler):
    """Takes connections, keeps queues."""

    def __init__(self, port: int, folder: str | None) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.port = port
        self.folder = folder
        self.queues: defaultdict[str, deque[Message]] = defaultdict(deque)
        self.consumers: defaultdict[str, list[Any]] = defaultdict(list)
        self.streamed: set[str] = set()
        self.unsettled: dict[tuple[str, str], tuple[str, Message]] = {}

    def on_start(self, event: Any) -> None:
        domain = None
        if self.folder:
            domain = SSLDomain(SSLDomain.MODE_SERVER)
            domain.set_credentials(f"{self.folder}/server.pem", f"{self.folder}/server.key", "")
        event.container.listen(f"127.0.0.1:{self.port}", ssl_domain=domain)
        print("listening", flush=True)

    # Links

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        if FORBIDDEN in (link.remote_source.address, link.remote_target.address):
            # Attached without a terminus, then detached: how links are refused (§2.6.3).
            link.source.type = link.target.type = Terminus.UNSPECIFIED
            return
        if link.is_sender:
            dynamic = link.remote_source.dynamic
            link.source.address = f"dynamic-{uuid.uuid4()}" if dynamic else link.remote_source.address
            link.source.dynamic = dynamic
            self.consumers[link.source.address].append(link)
        else:
            link.target.address = link.remote_target.address
        link.target.copy(link.remote_target) if link.is_sender else link.source.copy(link.remote_source)
        link.open()
        if link.is_receiver:
            link.flow(1 if link.target.address == SLOW else CREDIT)

    def on_link_opened(self, event: Any) -> None:
        link = event.link
        if FORBIDDEN in (link.remote_source.address, link.remote_target.address):
            link.condition = Condition("amqp:unauthorized-access", "nobody may use this address")
            link.close()

    def on_link_closing(self, event: Any) -> None:
        self._forget(event.link)

    def on_connection_closing(self, event: Any) -> None:
        self._forget_connection(event.connection)

    def on_disconnected(self, event: Any) -> None:
        self._forget_connection(event.connection)

    def _forget(self, link: Any) -> None:
        if link.is_sender and link in self.consumers[link.source.address]:
            self.consumers[link.source.address].remove(link)

    def _forget_connection(self, connection: Any) -> None:
        for links in self.consumers.values():
            links[:] = [link for link in links if link.connection != connection]

    # From the client

    def on_message(self, event: Any) -> None:
        link, message = event.link, event.message
        address = link.target.address or message.address
        self.queues[address].append(message)
        if event.delivery.settled:
            event.delivery.settle()
        else:
            self.accept(event.delivery)
        link.flow(1)
        self._dispatch(address)

    # To the client

    def on_link_flow(self, event: Any) -> None:
        link = event.link
        if link.is_sender and link.state == Endpoint.LOCAL_ACTIVE | Endpoint.REMOTE_ACTIVE:
            self._dispatch(link.source.address)
            if link.source.address in (PARTS, ABORTED) and link.name not in self.streamed:
                self._stream(event.container, link)
            if link.drain_mode:
                link.drained()

    def _dispatch(self, address: str) -> None:
        queue = self.queues[address]
        for link in self.consumers[address]:
            while link.credit and queue:
                message = queue.popleft()
                delivery = link.send(message)
                if not delivery.settled:
                    self.unsettled[link.name, delivery.tag] = address, message

    def _stream(self, container: Any, link: Any) -> None:
        """A message of which proton does not have the whole when it begins to send it: a data section in two parts."""
        self.streamed.add(link.name)
        delivery = link.delivery(str(uuid.uuid4()))
        head = Message(subject="in parts", inferred=True, body=b"").encode()[:-5]  # without the data section
        link.stream(bytes(head) + b"\x00\x53\x75\xb0" + (2 * len(PART)).to_bytes(4, "big") + PART)
        if link.source.address == ABORTED:
            delivery.abort()
            self.queues[ABORTED].append(Message(subject="whole", inferred=True, body=b"next"))
            self._dispatch(ABORTED)
        else:
            container.schedule(0.1, LastPart(link))

    def on_accepted(self, event: Any) -> None:
        self.unsettled.pop((event.link.name, event.delivery.tag), None)
        if not event.delivery.settled:  # receiver-settle-mode "second": the receiver waits for us
            event.delivery.settle()

    def on_rejected(self, event: Any) -> None:
        self._again(event, DEAD)

    def on_released(self, event: Any) -> None:
        self._again(event, None)

    def _again(self, event: Any, elsewhere: str | None) -> None:
        address, message = self.unsettled.pop((event.link.name, event.delivery.tag))
        state = event.delivery.remote
        if event.delivery.remote_state == Delivery.MODIFIED:
            if state.failed:
                message.delivery_count += 1
            message.annotations = {**(message.annotations or {}), **(state.annotations or {})}
        if elsewhere:
            message.annotations = {"x-opt-reason": state.condition.name if state.condition else None}
            self.queues[elsewhere].append(message)
        else:
            self.queues[address].appendleft(message)
        self._dispatch(elsewhere or address)


class LastPart(MessagingHandler):
    """The end of a message that was begun."""

    def __init__(self, link: Any) -> None:
        super().__init__()
        self.link = link

    def on_timer_task(self, event: Any) -> None:
        self.link.stream(PART)
        self.link.advance()


if __name__ == "__main__":
    Container(Listener(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)).run()
