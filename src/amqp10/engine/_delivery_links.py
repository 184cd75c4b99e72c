"""What a delivery knows of its link: the members of `SenderLink` and `ReceiverLink` for code that holds a delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..messaging import DeliveryState
    from ._owners import LinkOwner, SessionOwner
    from ._terms import LinkTerms


class DeliveryEngine(Protocol):
    """The engine of a delivery; see `Engine`."""

    @property
    def capabilities(self) -> frozenset[str]: ...


class DeliverySession(Protocol):
    """The session of a delivery; see `Session`."""

    @property
    def engine(self) -> DeliveryEngine: ...

    @property
    def owner(self) -> SessionOwner: ...


class DeliveryLink(Protocol):
    """The members that both ends of a link have; see `Link`."""

    @property
    def session(self) -> DeliverySession: ...

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

    def joins(self, number: int | None, tag: bytes, state: DeliveryState) -> bool: ...

    def settle(self, delivery: Any, state: DeliveryState | None, *, settled: bool | None = None) -> None: ...

    def read(self, delivery: Any) -> bytes | None: ...

    def discard(self, delivery: Any) -> None: ...
