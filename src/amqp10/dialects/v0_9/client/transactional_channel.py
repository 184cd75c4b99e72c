"""A channel of a client that can be transactional: what is written between tx.select and tx.commit (0-9-1 §1.9).

After a tx.commit nothing more is written to it until the answer comes: RabbitMQ has an error for that (504).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from ....engine import Handlers
from ....messaging import DeliveryState, Error
from ..._kit.coordinators import ROLLED_BACK, rejected
from ..channel import Channel
from ..codes import Fault
from ..wire.framing import METHOD
from ..wire.method_table import Method
from ..wire.methods import BasicReturn, TxCommit, TxCommitOk, TxSelect, TxSelectOk

if TYPE_CHECKING:
    from ..engine import V09Engine

OnDischarged = Callable[[DeliveryState], None]


class Commit(Protocol):
    """A transaction whose commit was sent."""

    def on_return(self, method: BasicReturn, properties: bytes, body: bytes) -> None: ...

    def outcome(self) -> DeliveryState: ...


class TransactionalChannel(Channel):
    """A channel that becomes transactional with `select`, and stays so."""

    engine: V09Engine
    handlers: ClassVar[Handlers] = {
        TxSelectOk: "receive_selected",
        TxCommitOk: "receive_committed",
        BasicReturn: "receive_return",
    }
    transactional: bool = False
    _selected = False  # the server has said that it is transactional
    _committing = False
    properties_octets: bytes

    def select(self) -> None:
        """Make the channel transactional from now on."""
        if not self.transactional:
            self.transactional = True
            self._commits: deque[tuple[Commit, OnDischarged] | None] = deque()  # None: acks alone
            self._later: deque[tuple[bytes, bool]] = deque()  # frames, and whether they contain a commit
            self.write(TxSelect())

    def write(self, method: Method) -> None:
        if not self.transactional:
            super().write(method)
            return
        variant = self.engine.variant
        frame = variant.framing.frame(METHOD, self.number, variant.methods.encode(method))
        self.write_frames(frame, isinstance(method, TxCommit))

    def write_frames(self, frames: bytes, commits: bool = False) -> None:
        """Write `frames`, or keep them until the commit before them is answered."""
        if self._committing:
            self._later.append((frames, commits))
        else:
            self._committing = commits
            self.engine.write(frames)

    def receive_selected(self, method: TxSelectOk) -> None:
        if not self.transactional or self._selected:
            raise Fault(503, f"{method.name}, which was not asked for", method.code)
        self._selected = True

    def commit(self, pending: Commit | None = None, done: OnDischarged | None = None) -> None:
        self.write(TxCommit())
        self._commits.append(None if pending is None or done is None else (pending, done))

    def receive_return(self, method: BasicReturn) -> None:
        before = self.properties_octets
        self.expect_content(lambda body: self._returned(method, body, before))

    def _returned(self, method: BasicReturn, body: bytes, before: bytes) -> None:
        properties, self.properties_octets = self.properties_octets, before  # of the last delivery: its place
        committing = self._commits[0] if self.transactional and self._commits else None
        if committing is None:
            raise Fault(503, "a basic.return of a message that was not published", method.code)
        committing[0].on_return(method, properties, body)

    def receive_committed(self, method: TxCommitOk) -> None:
        if not (self._selected and self._commits):
            raise Fault(503, f"{method.name}, which was not asked for", method.code)
        self._committing = False
        while self._later and not self._committing:
            self.write_frames(*self._later.popleft())
        committed = self._commits.popleft()
        if committed is not None:
            pending, done = committed
            done(pending.outcome())

    def _receive_closing(self, payload: bytes) -> None:
        methods = self.engine.variant.methods
        if self._committing and methods.has(payload, TxSelectOk, TxCommitOk):
            self.check_shape(payload)
            if methods.has(payload, TxSelectOk):
                self.receive_selected(TxSelectOk())
            else:
                self.receive_committed(TxCommitOk())
        else:
            super()._receive_closing(payload)

    def gone(self, error: Error | None) -> None:
        """Fail the commits that have no answer, for their transactions are gone; tell the user."""
        if self.transactional:
            reason = error.description if error is not None else "the channel was closed"
            while self._commits:
                committing = self._commits.popleft()
                if committing is not None:
                    committing[1](rejected(ROLLED_BACK, reason))
        super().gone(error)
