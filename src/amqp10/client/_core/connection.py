"""The connection with its sessions and links, as the parts of the client below them know them.

    interface        what implements it                              what users hold
    ConnectionCore   ClientConnection (client/_client_connection.py) Connection
    SessionCore      ClientSession (client/_session.py)              Session
    LinkCore         ClientLink (client/_links/core.py)              Link: a sender or receiver
    Recovery         Restorer (client/_recovery/restorer.py)
    TokenKeeper      CbsKeeper, LoginKeeper (client/_tokens/)

`ConnectionCore` alone has a behavior of its own. The others are here, and not in the files that implement them, so that
those need not import each other. `Restorable` is what `Recovery` needs of a session or link.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from ...engine import ConnectionTerms, Engine, LinkTerms, Request, SessionTerms
from ...engine import Link as EngineLink
from ...engine import Session as EngineSession
from ...errors import AmqpError
from ...messaging import Coordinator, Source, Target
from ...net import Endpoint, Pump
from ...profiles import Profile, recognize
from ...sasl import Mechanism
from .._connecting.supervisor import TransportSupervisor
from .._events import Observers
from .._settings import Reconnect
from .._stores.link_store import LinkStore
from .._stores.store import DeliveryStore
from .close_deadline import CloseDeadlines
from .lifecycle import Lifecycle

if TYPE_CHECKING:
    from .. import Connection

    UserConnection = Connection  # for users' type checkers alone: what the attribute `connection` of a link is

R = TypeVar("R")
L = TypeVar("L")

LinkWrapper = Callable[["UserConnection", type[Any]], type[Any]]
"""Returns the class that is to be made in place of a sender's or receiver's class: a subclass of it, mostly."""


class ConnectionCore(Lifecycle, ABC):
    """A connection, as its sessions, links and the restorer know it: its facts, its engine, room in its output.

    Attributes:
        losing: the events that are told just now end with the loss of the connection, which will be restored. This is
            no state: it holds for one pass, so that sessions and links tell that loss from an end of their own.
    """

    face: UserConnection
    losing: bool
    close_timeout: float
    terms: ConnectionTerms
    supervisor: TransportSupervisor
    _engine: Engine | None
    pump: Pump | None
    _profile: Profile | None
    observers: Observers
    failure: Exception | None
    recovery: Recovery | None
    tokens: TokenKeeper | None
    delivery_store: DeliveryStore | None
    named: bool
    links: dict[LinkCore, SessionCore]
    subscriptions: dict[LinkCore, tuple[str, str]]
    close_deadlines: CloseDeadlines
    _tasks: TaskGroup | None
    _scopes: dict[anyio.CancelScope, None]
    link_wrapper: LinkWrapper | None = None  # of telemetry, for this connection or for all

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Connect, secure, authenticate, open."""

    @abstractmethod
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the links that are left on it, and close the connection."""

    @abstractmethod
    def new_session(self, terms: SessionTerms, *, restorable: bool = True) -> SessionCore:
        """Make a session of its own, to be begun by `async with`; `restorable`: it is begun again after a loss."""

    @abstractmethod
    def default_session(self) -> SessionCore:
        """Return the session of links that ask for none; begun when first needed, and again if the peer ended it."""

    @abstractmethod
    async def follow_redirect(
        self, cause: AmqpError | None, terms: LinkTerms, sender: bool
    ) -> tuple[ConnectionCore, LinkTerms]:
        """Return where a link that was refused so is to be attached, and how."""

    def described(self) -> str:
        return f"to {self.where}"

    @property
    def where(self) -> str:
        """Where it leads, without credentials."""
        return str(self.supervisor.endpoint or "what a callable says")

    @property
    def container_id(self) -> str:
        """The name of this container."""
        return self.terms.container_id

    @property
    def dialect(self) -> str:
        """The name of the dialect in use; "auto" until it is known."""
        return self.supervisor.dialect.name if self.supervisor.dialect is not None else "auto"

    @property
    def capabilities(self) -> frozenset[str]:
        """What the dialect can do; asking for anything else raises `Unsupported`."""
        return self.supervisor.dialect.capabilities if self.supervisor.dialect is not None else frozenset()

    @property
    def remote(self) -> ConnectionTerms:
        """What the peer said in its open."""
        remote = self._engine.remote if self._engine is not None else None
        if remote is None:
            raise self.gone()
        return remote

    @property
    def profile(self) -> Profile:
        """What is known of the peer's product."""
        if self._profile is None:
            endpoint = self.supervisor.endpoint
            self._profile = recognize(self.remote.properties, endpoint.host if endpoint is not None else "")
        return self._profile

    @property
    def url(self) -> str:
        """The URL of the current connection, or of the last one, or of the first one to try; without credentials."""
        return f"{self.supervisor.endpoint or ''}"

    @property
    def resumes(self) -> bool:
        """Links can be resumed, as far as is known of dialect and peer (§2.6.13)."""
        return "resume" in self.capabilities and self.profile.resumes

    @property
    def offered_capabilities(self) -> tuple[str, ...]:
        """The extensions that the peer offers (§2.7.1)."""
        return self.remote.offered_capabilities

    def link_type(self, cls: type[L]) -> type[L]:
        """Return the class to make a link of: telemetry may have another one."""
        wrapper = self.link_wrapper
        return cls if wrapper is None else wrapper(self.face, cls)

    def new_queue_name(self) -> str:
        """Return a name in place of one of the server's: that could not be asked for again after a loss."""
        again = self.supervisor.persistent and self.supervisor.settings.declare_again
        return f"amqp10.gen-{secrets.token_hex(12)}" if again else ""

    def new_link_name(self, kind: str) -> str:
        """Return a name that no other link between the two containers has (§2.6.1)."""
        return f"{self.container_id}-{kind}-{secrets.token_hex(6)}"

    # In the background, and on the wire

    def start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run something in the background, for as long as the connection is open."""
        if self._tasks is not None and not self.over:
            self._tasks.start_soon(self._in_background, function, *args)

    async def _in_background(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[scope] = None
            try:
                await function(*args)
            finally:
                del self._scopes[scope]

    @property
    def in_engine(self) -> Engine:
        """The engine; links and sessions speak to it.

        Raises:
            LocalProtocolError: the connection was not opened.
        """
        if self._engine is None:
            raise self.gone()
        return self._engine

    def wake(self) -> None:
        """Ask for the engine's output to be written soon. It is cheap, and once is enough until it was."""
        if self.pump is not None:
            self.pump.wake()

    @property
    def waker(self) -> Callable[[], None]:
        """What to call in place of `wake`, once for each message, as long as the transport is this one."""
        return self.pump.wake if self.pump is not None else self.wake

    @property
    def output_full(self) -> bool:
        """Too much is waiting to be written: senders wait in `output_drained`."""
        return self.pump is not None and self.pump.full

    @property
    def output_awaited(self) -> bool:
        """Others wait in `output_drained`."""
        return self.pump is not None and self.pump.awaited

    async def output_drained(self) -> None:
        """Wait until the output has room, or the connection is over.

        Cancelling: only stops the waiting.
        """
        if self.pump is not None:
            await self.pump.drained()


class Restorable(Lifecycle, ABC):
    """A session or link, as what restores it after a loss sees it.

    Attributes:
        connection: the one on which it comes back; a redirect may change that of a link.
    """

    connection: ConnectionCore

    def check_loop(self) -> None:
        self.connection.check_loop()

    @abstractmethod
    def restore(self) -> None:
        """Begin or attach again; what is above it is there."""


class LinkCore(Restorable):
    """A link, as its session, its connection, the restorer and its deliveries know it.

    Attributes:
        face: what the user holds.
        terms: what our attach says, or said last.
        session: the one on which it is attached, or being attached, or to be attached again.
        restorable: it is attached again after a loss.
        ever_attached: it was attached.
        detach_sent: our detach is out.
        resuming: it was attached last, or is being attached, with its deliveries (§2.6.13).
        may_resume: the peer keeps them while the link is not attached, as far as is known.
        stray_attaches: attaches on connections that were lost before the answer: the peer may see them yet.
        pending: deliveries of the link that was lost, as long as it is not restored.
        store: where a later connection finds what is unsettled.
        wake: asks for the engine's output to be written soon.
    """

    face: Any
    terms: LinkTerms
    session: SessionCore | None
    restorable: bool
    ever_attached: bool
    detach_sent: bool
    resuming: bool
    may_resume: bool
    stray_attaches: int
    pending: list[Any]
    store: LinkStore | None
    wake: Callable[[], None]

    @property
    def name(self) -> str:
        """The link's name."""
        return self.terms.name

    @property
    @abstractmethod
    def remote(self) -> LinkTerms:
        """What the peer said in its attach; while the link is attached anew, in the one before.

        Raises:
            LocalProtocolError: the link is not attached yet.
        """

    @property
    def terminus(self) -> Source | Target | Coordinator | None:
        """The terminus at the peer, as our attach asks for it: a sender's target, a receiver's source."""
        return self.terms.target if self.kind == "sender" else self.terms.source

    @property
    @abstractmethod
    def engine_link(self) -> EngineLink | None:
        """The engine's link; None before it is attached."""

    @property
    @abstractmethod
    def unsettled(self) -> int:
        """How many deliveries are not settled at both ends."""

    @abstractmethod
    def use_transport(self) -> None:
        """Write by the transport that is there now: the session is on another one."""

    @abstractmethod
    def has_unfinished_work(self) -> bool:
        """Return whether an interrupted link has work for which closing waits until it is restored."""

    @abstractmethod
    def outlives_link(self) -> bool:
        """Return whether the terminus at the peer is meant to outlive the link, as a durable subscription is."""

    @abstractmethod
    def detach(self, closed: bool) -> None:
        """Send the detach."""

    @abstractmethod
    async def leave(self, closed: bool, deadline: float | None = None) -> None:
        """Finish, detach and wait for the answer: shielded, and until the deadline at most, if one is given."""


class SessionCore(Restorable):
    """A session, as its connection, its links and the restorer know it.

    Attributes:
        coordinator_link: what `_transactions` keeps of its link to the coordinator.
    """

    parent: SessionCore | None
    begun: bool
    end_sent: bool
    refused_to_resume: bool
    coordinator_link: object

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Begin the session."""

    @abstractmethod
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the session."""

    @property
    @abstractmethod
    def remote(self) -> SessionTerms:
        """What the peer said in its begin."""

    @property
    @abstractmethod
    def links(self) -> list[LinkCore]:
        """Those that are attached on it, or being attached, or interrupted; and those of it that are on one apart."""

    @property
    @abstractmethod
    def in_engine(self) -> EngineSession:
        """The engine's session; links attach to it.

        Raises:
            LocalProtocolError: there is no session yet.
        """

    @property
    @abstractmethod
    def suspended(self) -> bool:
        """Its transport is lost, and nothing else: it goes on where it was when it is resumed."""

    @abstractmethod
    def begin(self) -> None:
        """Send the begin; links may attach at once."""

    @abstractmethod
    def resume(self) -> None:
        """Go on: the connection is back."""

    @abstractmethod
    def for_one(self, link: LinkCore) -> SessionCore:
        """Return a session for one link of this one, to be begun as one that was lost."""

    @abstractmethod
    def link_over(self) -> None:
        """End the session if it was begun for a link that is over."""

    @abstractmethod
    async def request(self, request: Request[R]) -> R:
        """Ask the peer for what AMQP 1.0 has no word for; with `reconnect`, what is declared so is declared again.

        Raises:
            Unsupported: the dialect has no such request; nothing was written.
            RequestRefused: the peer's answer is no.
            SessionEnded, ConnectionClosed, ConnectionLost: no answer came, and it may have been done.

        Cancelling: it may have been done.
        """

    @abstractmethod
    async def ask(self, request: Request[R]) -> R:
        """Ask as `request`, once."""

    @abstractmethod
    def add_sender(self, sender: LinkCore, on_window: Callable[[], None]) -> None:
        """Note what to call for a sender when the peer's window opens."""

    @abstractmethod
    def remove_sender(self, sender: LinkCore) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    @abstractmethod
    async def leave(self, deadline: float) -> None: ...


class Recovery(Protocol):
    """What sessions and links ask of the restorer; a connection without `reconnect` has none.

    Attributes:
        settings: the user's.
        sessions: those that are to be there, in order of beginning.
    """

    settings: Reconnect
    sessions: dict[SessionCore, None]

    async def standing(self) -> None:
        """Wait while queues, exchanges and bindings are declared again."""

    def declared(self, session: SessionCore, request: Request[Any], answer: Any) -> None:
        """Record a request that was done."""

    def undeclared(self, request: Request[Any]) -> None:
        """Forget what a request deletes: it was done, or may have been."""

    def expect_answer(self, owner: Restorable) -> None:
        """Wait in the background for the answer to a begin or attach, and try another host where none comes."""

    def session_returns(self, session: SessionCore, error: AmqpError | None) -> bool:
        """Return whether a session that ended so is begun again."""

    def session_lost(self, session: SessionCore) -> None:
        """Begin a session again later: it is interrupted, by itself or with the connection."""

    def session_restored(self, session: SessionCore) -> None:
        """Record that a session is begun again."""

    def session_over(self, session: SessionCore) -> None:
        """Forget a session."""

    def link_returns(self, link: LinkCore, error: AmqpError | None, *, unresumed: bool) -> bool:
        """Return whether a link that ended so is attached again; `unresumed`: without its deliveries."""

    def refused_to_resume(self, link: LinkCore, error: AmqpError | None) -> bool:
        """Return whether a link has ended because it was to be resumed."""

    def link_lost(self, link: LinkCore, error: AmqpError | None, *, unresumed: bool) -> None:
        """Attach a link again later: it is interrupted, by itself, or with its session or the connection."""

    def link_restored(self, link: LinkCore) -> None:
        """Record that a link is attached again."""

    def link_over(self, link: LinkCore) -> None:
        """Forget a link, and the queue that goes with its last consumer."""

    def resume_again(self, link: LinkCore, left: int) -> bool:
        """Return whether to resume once more what could not be resumed at once; `left`: deliveries still to do."""

    def restore_link(self, link: LinkCore) -> None:
        """Attach a link again, if it is time for that."""


class TokenKeeper(ABC):
    """What renews the connection's tokens, as it and its links know it; one without `tokens` has none."""

    async def login(self, endpoint: Endpoint) -> tuple[Mechanism, ...] | None:
        """Return the mechanisms to log in by with a token; None: those of the connection's other settings.

        Raises:
            AuthenticationFailed: no token could be had.
        """
        return None

    async def admit(self, link: LinkCore) -> bool:
        """Wait until the peer has the token that a link needs; return whether it had it before.

        Raises:
            AuthenticationFailed: the provider gives no token, or the peer refuses it.
            InsecureTransport: others could read it on the way.
            Unsupported: the dialect has no way to say it.
        """
        return False

    async def put_anew(self, link: LinkCore) -> bool:
        """Give the peer another token for a link, as it may have dropped the one before; return whether it has it."""
        return False

    def admits(self, link: LinkCore) -> bool:
        """Return whether the peer has the token that a link needs; the keeper restores the link when that is so."""
        return True

    @property
    @abstractmethod
    def seconds_left(self) -> float | None:
        """Seconds until the first token expires; None if no token expires."""

    @abstractmethod
    def connected(self) -> None:
        """Keep the peer supplied: the connection is open."""

    @abstractmethod
    def explained(self, error: AmqpError | None, link: LinkCore | None = None) -> AmqpError | None:
        """Return why the connection, or a link, ended: that a token ran out, where the error is its consequence."""
