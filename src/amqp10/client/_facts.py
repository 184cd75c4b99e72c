"""What is known of a connection: how it is made, and who its peer is."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..engine import ConnectionTerms, Engine
from ..errors import Unsupported
from ..profiles import Profile, recognize
from ._lifeline import Lifeline
from ._observe import Observer, Observers


class Facts:
    """The facts of a `Connection`, as properties."""

    _terms: ConnectionTerms
    _lifeline: Lifeline
    _engine: Engine | None
    _profile: Profile | None
    _mechanism: str | None
    _native: Any
    _observers: Observers

    @abstractmethod
    def _gone(self) -> Exception:
        """The error of who asks too early or too late."""

    @property
    def container_id(self) -> str:
        """The name of this container."""
        return self._terms.container_id

    @property
    def dialect(self) -> str:
        """The name of the dialect spoken; "auto" while that is not known."""
        return self._lifeline.dialect.name if self._lifeline.dialect is not None else "auto"

    @property
    def capabilities(self) -> frozenset[str]:
        """What the dialect can do; asking for anything else raises `Unsupported`."""
        return self._lifeline.dialect.capabilities if self._lifeline.dialect is not None else frozenset()

    @property
    def native(self) -> Any:
        """What the dialect has and AMQP 1.0 has no word for: declaring, binding, deleting; see the dialect's page.

        Raises:
            Unsupported: it has nothing of its own, as AMQP 1.0.
        """
        if self._native is None:
            dialect = self._lifeline.dialect
            if dialect is None or dialect.native is None:
                raise Unsupported(f"dialect {self.dialect!r} has nothing that the connection itself has not")
            module, _, name = dialect.native.partition(":")
            self._native = getattr(import_module(module), name)(self)
        return self._native

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism that was used; None before, and without a SASL layer."""
        return self._mechanism

    @property
    def remote(self) -> ConnectionTerms:
        """What the peer said in its open (§2.7.1): container, limits, capabilities, properties.

        Raises:
            LocalProtocolError: the connection is not open yet.
        """
        remote = self._engine.remote if self._engine is not None else None
        if remote is None:
            raise self._gone()
        return remote

    @property
    def remote_container_id(self) -> str:
        """The name of the peer's container."""
        return self.remote.container_id

    @property
    def remote_properties(self) -> Mapping[Any, Any]:
        """The peer's connection properties: product and version, mostly."""
        return self.remote.properties

    @property
    def profile(self) -> Profile:
        """What is known of the peer's product: how it spells addresses, what its answers mean (`amqp10.profiles`).

        Raises:
            LocalProtocolError: the connection is not open yet, and no profile was named.
        """
        if self._profile is None:
            endpoint = self._lifeline.endpoint
            self._profile = recognize(self.remote.properties, endpoint.host if endpoint is not None else "")
        return self._profile

    @property
    def _resumes(self) -> bool:
        """Links can be resumed, as far as is known of dialect and peer (§2.6.13)."""
        return "resume" in self.capabilities and self.profile.resumes

    @property
    def url(self) -> str:
        """Where the connection is, without credentials; or was last, or will be tried first."""
        return f"{self._lifeline.endpoint or ''}"

    def events(self) -> Observer:
        """What happens to the connection from now on, as an async iterator: interrupted, attempted, restored, given up.

        It ends when the connection is over. The logger `amqp10.connection` has the same.
        """
        return self._observers.add()

    @property
    def offered_capabilities(self) -> tuple[str, ...]:
        """The extensions that the peer offers (§2.7.1)."""
        return self.remote.offered_capabilities

    def _queue_name(self) -> str:
        """A name for a queue that is to be the server's choice: that one could not be asked for again after a loss."""
        again = self._lifeline.persistent and self._lifeline.settings.declare_again
        return f"amqp10.gen-{secrets.token_hex(12)}" if again else ""

    def _link_name(self, kind: str) -> str:
        """A name that no other link between the two containers has (§2.6.1)."""
        return f"{self.container_id}-{kind}-{secrets.token_hex(6)}"
