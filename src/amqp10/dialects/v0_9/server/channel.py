"""A server's channel: what comes on it waits while the owner of its session has something to answer.

A request, a new consumer, the end of a transaction, a publish without credit: each holds up what follows on the
channel, which waits as frames. Acks go past it, because they are what others wait for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from ..channel import Channel, ChannelUser
from ..codes import Fault
from ..engine import PEER_ERRORS
from ..states import ChannelState, Step
from ..wire.framing import BODY, HEADER, METHOD

if TYPE_CHECKING:
    from ....engine import ReceiverLink
    from ..._kit.backlog import Backlog
    from ..engine import V09Engine

PUBLISH, ACK, NACK, REJECT = b"\0\x3c\0\x28", b"\0\x3c\0\x50", b"\0\x3c\0\x78", b"\0\x3c\0\x5a"
SETTLING = (ACK, NACK, REJECT)
SELECT = b"\0\x5a\0\x0a"


class ServerChannelUser(ChannelUser):
    """A session, as its channel sees it.

    Attributes:
        publisher: the link of the publishes; None before the first.
    """

    channel: ServerChannel
    publisher: ReceiverLink | None

    @property
    @abstractmethod
    def transactional(self) -> bool:
        """Return whether the client has selected transactions."""


class ServerChannel(Channel):
    """The channel of a server's session.

    Args:
        engine, number, user: see `Channel`.
        backlog: counts what waits on all channels of the connection.
    """

    engine: V09Engine
    user: ServerChannelUser

    def __init__(self, engine: V09Engine, number: int, user: ServerChannelUser, backlog: Backlog) -> None:
        super().__init__(engine, number, user)
        self.advance(Step.RECEIVE_CHANNEL_OPEN)
        self._backlog = backlog
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._holds: set[object] = set()  # reasons for which what comes has to wait
        self._selects = False  # a tx.select is among what waits: acks behind it are part of a transaction

    def hold(self, reason: object) -> None:
        """Look at nothing that comes until `reason` is released."""
        self._holds.add(reason)

    def release(self, reason: object) -> None:
        """Go on with what waits, unless another reason holds it."""
        self._holds.discard(reason)
        waiting = self._waiting
        while waiting and not self._holds and self.state is ChannelState.OPEN:
            kind, payload = waiting[0]
            if kind == METHOD and self._has_to_wait(payload):
                return
            waiting.popleft()
            self._backlog.add(-1, -len(payload))
            try:
                self._take(kind, payload)
            except PEER_ERRORS as fault:
                if isinstance(fault, Fault) and fault.soft:
                    self.fail(fault)
                else:
                    self.engine.blame(fault)
                return

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            super().receive_method(payload)
        elif kind == HEADER:
            super().receive_header(payload)
        else:
            super().receive_body(payload)

    def _wait(self, kind: int, payload: bytes) -> None:
        self._waiting.append((kind, payload))
        self._selects = self._selects or (kind == METHOD and payload[:4] == SELECT)
        self._backlog.add(1, len(payload), continues=kind != METHOD or payload[:4] != PUBLISH)

    def _has_to_wait(self, payload: bytes) -> bool:
        """Return whether the method is a publish whose credit was taken back since the last one."""
        publisher = self.user.publisher
        if payload[:4] != PUBLISH or publisher is None or publisher.credit > 0 or not publisher.attached:
            return False
        self.hold(publisher)
        return True

    def receive_method(self, payload: bytes) -> None:
        if (self._holds or self._waiting or self._has_to_wait(payload)) and self.state is ChannelState.OPEN:
            if payload[:4] not in SETTLING or self.user.transactional or self._selects:
                self._wait(METHOD, payload)
            else:
                self._hot[payload[:4]](payload)
            return
        super().receive_method(payload)

    def receive_header(self, payload: bytes) -> None:
        if self._waiting:
            self._wait(HEADER, payload)
        else:
            super().receive_header(payload)

    def receive_body(self, payload: bytes) -> None:
        if self._waiting:
            self._wait(BODY, payload)
        else:
            super().receive_body(payload)

    def drop_waiting(self) -> None:
        """Drop what waits, because the channel ends."""
        self._backlog.add(-len(self._waiting), -sum(len(payload) for _, payload in self._waiting))
        self._waiting.clear()
