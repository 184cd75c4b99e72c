"""What senders and receivers share: attaching, facts, detaching in bounded time (§2.6.3 to §2.6.6)."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import anyio

from ..engine import LinkTerms
from ..errors import AmqpError, ConnectionClosed, LinkDetached, Unsupported
from ..messaging import NEWEST_CONNECTION, Source, Target, outlives_connection, outlives_link
from ..types import Symbol, UInt
from ._elsewhere import MOST_HOPS
from ._endpoint import Endpoint
from ._leaving import until
from ._recovery import speaks_of_other_things

if TYPE_CHECKING:
    from ..engine import Link as EngineLink
    from ..engine import ReceiverSettleMode, SenderSettleMode
    from ._connection import Connection
    from ._kept import KeptDeliveries
    from ._session import Session

# Of the time that leaving may take, what is left for the answer to our detach when all before it took too long.
ANSWER_SHARE = 0.25


class Retired:
    """Stands for the owner of an engine's link or session that was left for another, or refused.

    Nothing that still comes concerns it.
    """

    open = _returning = False

    def _on_begun(self) -> None: ...

    def _on_window(self) -> None: ...

    def _on_attached(self) -> None: ...

    def _on_incomplete(self) -> None: ...

    def _on_credit(self) -> None: ...

    def _on_outcomes(self, deliveries: Any) -> None: ...

    def _on_accepted(self, waiter: Any, count: int) -> None: ...

    def _on_settlements(self, deliveries: object) -> None: ...

    def _on_flow(self, drained: bool, wasted: int) -> None: ...

    def _on_deliveries(self) -> None: ...

    def _on_parts(self, delivery: object) -> None: ...

    def _on_resumed(self, deliveries: object) -> None: ...

    def _on_unresumed(self, deliveries: object) -> None: ...

    def _on_ended(self, error: object) -> None: ...


class Left(Retired):
    """Stands for the owner of an engine's link that it has left by its own will.

    What the peer has said last still concerns it: the engine knows all that came in one pass, and the link is left at
    the first.
    """

    def __init__(self, owner: Link) -> None:
        self._owner: Any = owner

    def _on_outcomes(self, deliveries: object) -> None:
        self._owner._on_outcomes(deliveries)

    def _on_accepted(self, waiter: Any, count: int) -> None:
        self._owner._on_accepted(waiter, count)

    def _on_settlements(self, deliveries: object) -> None:
        self._owner._on_settlements(deliveries)

    def _withdraw(self, delivery: object) -> None:
        self._owner._withdraw(delivery)

    @property
    def _untold(self) -> Any:
        return self._owner._untold


class Link(Endpoint):
    """One end of a link. `Sender` and `Receiver` are the two kinds."""

    _kind: ClassVar[str] = "link"
    _restorable = True
    _wake: Callable[[], None]

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms) -> None:
        super().__init__()
        self.connection = connection
        self._session = session
        self._terms = terms
        self._lasts = outlives_link(terms.source, terms.target)
        self._abandoned = False
        self._under_way = False  # leaving
        self._on: Session | None = None
        self._standing = False  # it was attached
        self._pending: list[Any] = []  # deliveries of the link that was lost, as long as it is not restored
        self._parting = False  # our detach is out
        self._resuming = False  # it was attached last, or is being attached, with its deliveries (§2.6.13)
        self._remembered: KeptDeliveries | None = None  # where a later connection finds what is unsettled
        self._may_resume = False  # the peer keeps them while the link is not attached, as far as is known
        self._ghosts = 0  # attaches on connections that were lost before the answer: the peer may see them yet
        self._unheard_of = False  # the peer took no deliveries of an earlier connection

    # Attaching

    async def _attach(self) -> None:
        self._enter()
        hops = 0
        while not await self._attach_here():
            hops += 1
            if hops > MOST_HOPS or self._session is not None:
                raise self._lost()
            cause, self._cause = self._cause, None
            connection, self._terms = await self.connection._elsewhere.follow(
                cause, self._terms, self._kind == "sender"
            )
            self._move(connection)
            self._over = False

    def _move(self, connection: Connection) -> None:
        """The link is of another connection now."""
        self.connection = connection

    async def _attach_here(self) -> bool:
        """Attach; False if the peer redirects the link."""
        self.connection._leaving.interrupted()
        await self.connection._ready()
        session = self._session if self._session is not None else self.connection._default_session()
        await session._ready()
        if self.connection._recovery is not None:
            await self.connection._recovery.topology.standing()
        if not session.open or not self.connection.open:
            raise session._gone() if self.connection.open else self.connection._gone()
        self._require_capabilities()
        self._ask_to_be_kept()
        self._recall()
        self._attach_to(session).context = self
        self._asking = True
        self._on = session
        self.connection._links[self] = session
        self.connection._wake()
        try:
            await self._until(lambda: self.open or self._over)
        except BaseException:
            self._abandon()
            raise
        if self._over and self._refused_to_recall():
            self._over, self._cause, self._unheard_of = False, None, True
            return await self._attach_here()
        if self._over and not is_redirect(self._cause):
            error = self._lost()
            if self._resuming and isinstance(error, ConnectionClosed) and self.connection._recovery is None:
                error.add_note(
                    f"the link {self.name!r} asked to resume what the delivery store has; if the peer cannot do that, "
                    "connect with reconnect=Reconnect(): the link is then attached without, once"
                )
            raise error
        return not self._over

    def _ask_to_be_kept(self) -> None:
        """Ask the peer to keep its end of the link for a while when the connection is lost (§3.5.6)."""
        restored = self.connection._recovery is not None
        if not (restored or self._remembered is not None) or not self._restorable or not self.connection._resumes:
            return
        if restored:
            self._terms = replace(self._terms, properties={**self._terms.properties, NEWEST_CONNECTION: True})
        timeout = self.connection._lifeline.settings.resume_timeout
        name = "target" if self._kind == "sender" else "source"
        terminus = getattr(self._terms, name)
        usual = isinstance(terminus, Source | Target) and terminus.expiry_policy == "session-end"
        if usual and not terminus.timeout and not terminus.dynamic and timeout:
            kept = copy.copy(terminus)
            kept.expiry_policy, kept.timeout = Symbol("connection-close"), UInt(timeout)
            self._terms = replace(self._terms, **{name: kept})

    def _recall(self) -> None:
        """Take what an earlier connection left unsettled; it is resumed, or else what becomes of it is decided here."""
        if self._remembered is not None:
            self._pending = self._recalled()
            self._resuming = bool(self._pending) and self.connection._resumes and not self._unheard_of
            self._may_resume = self._resuming

    def _refused_to_recall(self) -> bool:
        """The first attach was refused, it may be for the deliveries of an earlier connection: once more without."""
        if not self._resuming or speaks_of_other_things(self._cause) or not self.connection.open:
            return False
        return self._session is None or self._session.open

    def _abandon(self) -> None:
        """Attaching was cancelled: nobody will use the link, so it goes as soon as it stands."""
        self._closed = self._abandoned = True
        if self._interrupted:
            self._end_for_good(None)
        elif self.open:
            self._detach(closed=not self._lasting())

    def _on_attached(self) -> None:
        """The peer's attach is here."""
        self._asking = False
        if self._abandoned:
            # What is meant to outlive the link may have been there before, with messages in it.
            self._detach(closed=not self._lasting())
            return
        link = self._engine_link  # it may be detached already, which is told next
        restored, self._interrupted = self._interrupted and self._standing, False
        self._standing = True
        self._may_resume = self._is_kept()
        self.open = not self._closed
        if restored:
            assert self._on is not None
            assert self.connection._recovery is not None
            self._restored_at, self._refusals = anyio.current_time(), 0
            self._on._refusals = 0
            self.connection._recovery.link_restored(self)
            self._on_restored()
        elif self._pending and self.open and link is not None and link.attached:
            self._on_unresumed(self._take_pending())
        self._changed()

    def _is_kept(self) -> bool:
        """Whether the peer keeps its end for a while without the connection, as its answer says."""
        recovery = self.connection._recovery
        if recovery is None or not self.connection._resumes:
            return False
        terminus = self.remote.target if self._kind == "sender" else self.remote.source
        return outlives_connection(terminus)

    # After a loss

    def _restore(self) -> None:
        """Attach again; the connection and the session are there."""
        assert self._on is not None
        self._resuming = self._may_resume
        made_up = self._terms.name.startswith(f"{self.connection.container_id}-")
        keeps = self._engine_link is not None and self._engine_link.keeps_name
        if made_up and not keeps and not self._resuming and not self._lasts:
            # Broker-J does not answer who takes a name from a connection that it has not seen die yet.
            self._terms = replace(self._terms, name=self.connection._link_name(self._kind))
        self._ask_again(self._on)

    def _ask_again(self, session: Session) -> None:
        """Attach a link that was there before: nobody but us waits for the answer."""
        self._attach_to(session).context = self
        self._asking = True
        if self.connection._recovery is not None:
            self.connection._recovery.answers.expect(self)
        self.connection._wake()

    def _interrupt(self, error: AmqpError | None) -> None:
        if self._asking and self.connection._recovery is not None and self.connection._recovery.losing:
            self._ghosts += 1
        super()._interrupt(error)

    def _on_incomplete(self) -> None:
        """Not all could be resumed at once, and nothing new may be sent: once more, with what is left (§2.6.13)."""
        link, recovery = self._engine_link, self.connection._recovery
        assert link is not None
        assert recovery is not None
        self._may_resume = recovery.goes_on_in_part(self, len(link.suspended()))
        self._interrupt(None)
        link.context = Left(self)
        link.detach(closed=False)
        recovery.restore_link(self)

    @abstractmethod
    def _recalled(self) -> list[Any]:
        """What the store has of it."""

    def _take_pending(self) -> list[Any]:
        pending, self._pending = self._pending, []
        return pending

    @abstractmethod
    def _on_unresumed(self, deliveries: Iterable[Any]) -> None:
        """The peer does not say what became of these."""

    @abstractmethod
    def _on_restored(self) -> None:
        """It is attached again."""

    @property
    @abstractmethod
    def _engine_link(self) -> EngineLink | None: ...

    @abstractmethod
    def _attach_to(self, session: Session) -> EngineLink: ...

    @abstractmethod
    def _require_capabilities(self) -> None: ...

    def _require(self, capability: str, what: str) -> None:
        if capability not in self.connection.capabilities:
            raise Unsupported(f"dialect {self.connection.dialect!r} has no {what}")

    # Facts

    def _described(self) -> str:
        terminus = self._terms.target if self._kind == "sender" else self._terms.source
        address = getattr(terminus, "address", None)
        return f"{address!r:.200} (link {self.name!r:.100}) {super()._described()}"

    @property
    def name(self) -> str:
        """The link's name (§2.6.1): with the two containers and the direction it identifies the link."""
        return self._terms.name

    @property
    def remote(self) -> LinkTerms:
        """What the peer said in its attach (§2.7.3): its termini, settle modes, properties, largest message.

        Raises:
            LocalProtocolError: the link is not attached yet.
        """
        link = self._engine_link
        if link is None or link.remote is None:
            raise self._gone()
        return link.remote

    @property
    def settle_mode(self) -> SenderSettleMode:
        """How the sender settles, as agreed (§2.8.2): the sender's own word is the one in force."""
        return self._terms.settle_mode if self._kind == "sender" else self.remote.settle_mode

    @property
    def receiver_settle_mode(self) -> ReceiverSettleMode:
        """How the receiver settles, as agreed (§2.8.3): "second" only if both ends said so."""
        both = self._terms.receiver_settle_mode, self.remote.receiver_settle_mode
        return "second" if both == ("second", "second") else "first"

    @property
    def source(self) -> Source | None:
        """The source as the peer has it (§3.5.3)."""
        return self.remote.source

    @property
    @abstractmethod
    def address(self) -> str | None: ...

    # Detaching

    @abstractmethod
    def _stop(self) -> None:
        """Closing begins: wake every waiter, take no new work."""

    @abstractmethod
    def _owing(self) -> bool:
        """Of a link that is away: whether there is something for which leaving waits until it is back."""

    @abstractmethod
    async def _finish(self) -> None:
        """Wait until nothing is left that the detach would cut off."""

    @abstractmethod
    def _wrap_up(self) -> None:
        """The last words before the detach, at once."""

    def _lasting(self) -> bool:
        """Whether the terminus at the peer is meant to outlive the link, as a durable subscription is (§3.5.6)."""
        return self._lasts

    async def _leave(self, closed: bool, deadline: float | None = None) -> None:
        """Finish, detach and wait for the answer: shielded, and until the deadline at most, if one is given."""
        if self._closed or not self._entered:
            with anyio.CancelScope(shield=True):
                await self._until(lambda: not self._under_way)  # another task is at it
            return
        self._closed = self._under_way = True
        self.open = False
        try:
            self._stop()
            if not self._over and deadline is not None:
                await self._go(closed, deadline)
            elif not self._over:
                with self.connection._leaving.exit(self.connection.close_timeout) as this:
                    await self._go(closed, this.links_by)
        finally:
            self._under_way = False
            self._changed()

    async def _go(self, closed: bool, deadline: float) -> None:
        if self._interrupted and not self._owing():
            self._end_for_good(self._loss)
            return
        with until(deadline, 1 - ANSWER_SHARE):
            await self._finish()
        if self._interrupted:
            self._end_for_good(self._loss)
        if not self._over:
            self._wrap_up()
            self._detach(closed=closed)
            with until(deadline):
                await self._until(lambda: self._over)

    def _detach(self, closed: bool) -> None:
        self._parting = True
        link = self._engine_link
        if closed and self._remembered is not None:
            if self._remembered.left:
                closed = False  # the next link of this name is to find out what became of it
            else:
                self._remembered.end()
        if link is not None:
            link.detach(closed=closed)
            self.connection._wake()

    async def close(self) -> None:
        """Close the link for good: the peer drops its terminus too, a durable subscription ends (§2.6.6).

        Leaving `async with` does so, but for termini that are durable or never expire, which it only detaches from.
        Receivers drain and release what was prefetched, senders wait for outcomes. Does nothing when called again.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._leave(closed=True)

    async def detach(self) -> None:
        """Detach, and let the peer keep its terminus for the next link of this name (§2.6.4); else as `close`.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        await self._leave(closed=False)

    def _on_ended(self, error: AmqpError | None) -> None:
        recovery = self.connection._recovery
        if recovery is None or self._parting or self._over:
            self._end_for_good(error)
            return
        unresumed = recovery.refused_to_resume(self, error)
        if recovery.link_returns(self, error, unresumed=unresumed):
            self._interrupt(error)
            recovery.link_lost(self, error, unresumed=unresumed)
        else:
            self._end_for_good(error)

    def _end_for_good(self, error: AmqpError | None) -> None:
        if self._over:
            return
        super()._end_for_good(error)
        self.connection._links.pop(self, None)
        if self.connection._recovery is not None:
            self.connection._recovery.topology.left(self)
        self._stop()
        if self._on is not None:
            self._on._link_over()


def is_redirect(error: AmqpError | None) -> bool:
    """Whether the peer sends a link elsewhere (§2.8.18)."""
    return isinstance(error, LinkDetached) and error.condition == "amqp:link:redirect"
