"""A client's engine: it opens the connection, begins sessions and resumes them (0-10 §9.1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ....engine import Authenticated, ConnectionOpened, ConnectionTerms, Engine, Handlers, Role, SessionTerms
from ....errors import AmqpError, AuthenticationFailed, ConnectionClosed, LocalProtocolError
from ..engine import V010Engine, out_of_order
from ..login import ClientLogin
from ..states import ConnectionState, Step
from ..wire.controls import ConnectionOpenOk, ConnectionRedirect, ConnectionSecure, ConnectionStart, ConnectionTune
from .orphaned_branches import OrphanedBranches
from .session import ClientSession

if TYPE_CHECKING:
    from ....engine import Session
    from ....sasl import Mechanism
    from ..parents import EngineSession

S = TypeVar("S", bound="EngineSession")


class ClientEngine(V010Engine):
    """See `Engine`.

    Args:
        terms: the terms of this side.
        mechanisms: the mechanisms to choose from; None: ANONYMOUS only.
        secure: secrets may cross the transport as they are.
    """

    remote: ConnectionTerms | None
    handlers: ClassVar[Handlers] = {
        ConnectionStart: "_receive_start",
        ConnectionSecure: "_receive_secure",
        ConnectionTune: "_receive_tune",
        ConnectionOpenOk: "_receive_open_ok",
        ConnectionRedirect: "_receive_redirect",
    }

    def __init__(self, terms: ConnectionTerms, mechanisms: tuple[Mechanism, ...] | None, secure: bool) -> None:
        super().__init__(Role.CLIENT, terms)
        self.login: ClientLogin = ClientLogin(self.write_control, terms, mechanisms, secure)
        self.orphaned_branches: OrphanedBranches = OrphanedBranches(self)
        self._next_channel = 1

    # Opening

    def inherit(self, before: Engine) -> None:
        if isinstance(before, ClientEngine):
            self.orphaned_branches.inherit(before.orphaned_branches)

    def open_if_asked(self) -> None:
        if self._open_asked and self.login.proved:
            self.login.open(self.terms)

    def _receive_start(self, control: ConnectionStart) -> None:
        self.login.start(control)

    def _receive_secure(self, control: ConnectionSecure) -> None:
        self.login.secure(control)

    def _receive_tune(self, control: ConnectionTune) -> None:
        self.login.tune(control)
        self.emit(Authenticated(self.login.mechanism, None))
        self.open_if_asked()

    def _receive_open_ok(self, control: ConnectionOpenOk) -> None:
        login = self.login
        if not (login.proved and self._open_asked):
            raise out_of_order(control)
        properties = login.server_properties
        self.remote = ConnectionTerms(
            container_id=str(properties.get("qpid.federation_tag", "")),
            max_frame_size=login.max_frame_size,
            channel_max=login.channel_max,
            idle_timeout=2.0 * login.heartbeat if login.heartbeat else None,
            properties=properties,
        )
        self.advance(Step.RECEIVE_OPEN_OK)
        self._use_agreed_limits()
        # First end the branches, so that the messages in them are back before anybody looks for them.
        self.orphaned_branches.settle(lambda: self.emit(ConnectionOpened()))

    def _receive_redirect(self, control: ConnectionRedirect) -> None:
        if not self.login.proved:
            raise out_of_order(control)
        self.finish(ConnectionClosed("amqp:connection:redirect", control.host, _redirect_info(control.host)))

    # Sessions

    def begin(self, terms: SessionTerms | None = None) -> ClientSession:
        if self.state is not ConnectionState.OPEN:
            raise LocalProtocolError(
                f"a session needs an open connection, and the state of this one is {self.state.name}"
            )
        session = self.begin_as(lambda channel: ClientSession(self, channel))
        session.begin(terms)
        return session

    def resume(self, session: Session) -> None:
        if self.state is not ConnectionState.OPEN or not isinstance(session, ClientSession) or not session.suspended:
            raise LocalProtocolError("only a suspended session can be resumed, and only on an open connection")
        session.resume(self, self._free_channel())

    def begin_as(self, kind: Callable[[int], S]) -> S:
        channel = self._free_channel()
        session = self.sessions[channel] = kind(channel)
        return session

    def _free_channel(self) -> int:
        """Return the next free channel, in turn from 1 on.

        Broker-J reads channel-max as the number of channels, not as the highest one, and counts channel 0 too.
        """
        top = min(self.terms.channel_max, max(1, self.login.channel_max - 1))
        for _ in range(top):
            channel = self._next_channel
            self._next_channel = channel % top + 1
            if channel not in self.sessions:
                return channel
        raise LocalProtocolError(
            f"the server allows {top} sessions on a connection, and all are in use: end one, or open another connection"
        )

    # Closing

    def _leave_sessions(self) -> None:
        for session in self.sessions.values():
            if isinstance(session, ClientSession) and session.begun:
                session.leave()

    def _cause_of(self, closed: ConnectionClosed) -> AmqpError:
        refused = closed.condition == "amqp:connection:forced"  # brokers close so: there is no code of its own
        if refused and not self.login.proved and self.login.mechanism:
            return AuthenticationFailed(f"the server refused the credentials: {closed.description or ''}", 1)
        return closed


def _redirect_info(address: str) -> dict[str, Any]:
    """Return the info that a redirect of AMQP 1.0 has: a host, and a port if one follows a colon in `address`."""
    found = re.fullmatch(r"(\[.+\]|[^:]*):([0-9]{1,5})", address, re.DOTALL)
    host, port = found.groups() if found is not None else (address, None)
    if host[:1] + host[-1:] == "[]":
        host = host[1:-1]
    return {"network-host": host} if port is None else {"network-host": host, "port": int(port)}
