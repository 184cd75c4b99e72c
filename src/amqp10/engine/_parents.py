"""What each object of the contract knows of its parent: a delivery of its link, a link of its session, and so on.

Each interface has those members of the whole class that code with the child in hand needs. A dialect extends them by
what its own links and sessions need. They are for type checkers alone: no class inherits them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..messaging import DeliveryState, Error
    from ._owners import LinkOwner, SessionOwner
    from ._terms import ConnectionTerms, LinkTerms, SessionTerms
    from ._topology_requests import PendingRequest, Request, RequestResult


class SessionEngine(Protocol):
    """The engine of a session; see `Engine`."""

    @property
    def capabilities(self) -> frozenset[str]: ...

    @property
    def terms(self) -> ConnectionTerms: ...

    @property
    def identity(self) -> str | None: ...

    @property
    def opened(self) -> bool: ...


class LinkSession(Protocol):
    """The session of a link; see `Session`."""

    @property
    def engine(self) -> SessionEngine: ...

    @property
    def owner(self) -> SessionOwner: ...

    @property
    def terms(self) -> SessionTerms | None: ...

    @property
    def begun(self) -> bool: ...

    @property
    def sendable(self) -> bool: ...

    @property
    def suspended(self) -> bool: ...

    @property
    def peer_window(self) -> int | None: ...

    def request(self, request: Request[RequestResult], /) -> PendingRequest[RequestResult]: ...

    def end(self, error: Error | None = None) -> None: ...


class DeliveryLink(Protocol):
    """The link of a delivery, with the members that both ends have; see `Link`."""

    @property
    def session(self) -> LinkSession: ...

    @property
    def owner(self) -> LinkOwner: ...

    @property
    def name(self) -> str: ...

    @property
    def remote(self) -> LinkTerms | None: ...

    @property
    def attached(self) -> bool: ...

    @property
    def incomplete(self) -> bool: ...

    @property
    def retired(self) -> bool: ...


class OutgoingLink(DeliveryLink, Protocol):
    """The link of an outgoing delivery; see `SenderLink`."""

    def abort(self, delivery: Any) -> None: ...


class IncomingLink(DeliveryLink, Protocol):
    """The link of an incoming delivery; see `ReceiverLink`."""

    def settle_like_last(self, number: int | None, tag: bytes, state: DeliveryState) -> bool: ...

    def settle(self, delivery: Any, state: DeliveryState | None, *, settled: bool | None = None) -> None: ...

    def read(self, delivery: Any) -> bytes | None: ...

    def discard(self, delivery: Any) -> None: ...
