"""Tokens to log in with: asked for at each connect, and told to the peer anew on the connection where it takes that."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from ...engine import LINK_PAIR, SessionTerms
from ...errors import AmqpError, AuthenticationFailed, ConnectionClosed, ManagementError
from ...messaging import AmqpValue, Message
from ...sasl import OAuthBearer, Plain, XOAuth2
from .._core.connection import TokenKeeper
from .._requests.link_pair import paired_requester
from .renewal import Renewal

if TYPE_CHECKING:
    from ...net import Endpoint
    from ...sasl import Mechanism
    from ...tokens import Token
    from .._core.connection import ConnectionCore, LinkCore
    from .._settings import LoginTokens

AUDIENCE: Final = "login"
NOBODY: Final = "token"
"""The user name beside a token, where the mechanism wants one and nobody gave one."""

_OVER: Final = frozenset({"amqp:unauthorized-access", "amqp:not-allowed", "amqp:connection:forced"})
"""The conditions by which peers close a connection whose token has ended; 0-10 has no finer one than the last."""


class LoginKeeper(TokenKeeper):
    """Of one connection."""

    def __init__(self, connection: ConnectionCore, settings: LoginTokens) -> None:
        self._connection = connection
        self._settings = settings
        self._keepal = Renewal(connection, settings, AUDIENCE, settings.scope)

    async def login(self, endpoint: Endpoint) -> tuple[Mechanism, ...]:
        renewal = self._keepal
        renewal.failure = None
        try:
            token = await renewal.fetch()
        except AuthenticationFailed:
            if not renewal.usable or renewal.token is None:
                raise
            token = renewal.token
        renewal.taken(token)
        user, secret = self._settings.user or endpoint.user, token.value
        insecure = self._settings.allow_insecure
        makers: dict[str, Callable[[], Mechanism]] = {
            "OAUTHBEARER": lambda: OAuthBearer(secret, user=user, allow_insecure=insecure),
            "XOAUTH2": lambda: XOAuth2(user or NOBODY, secret, allow_insecure=insecure),
            "PLAIN": lambda: Plain(user or NOBODY, secret, allow_insecure=insecure),
        }
        return tuple(makers[name]() for name in self._settings.mechanisms)

    @property
    def seconds_left(self) -> float | None:
        left = self._keepal.seconds_left
        return left if math.isfinite(left) else None

    def connected(self) -> None:
        tell = self._way()
        if tell is not None:
            self._connection.start(self._keep, tell)

    def _way(self) -> Callable[[Token], Awaitable[None]] | None:
        """Return what tells the peer a new token on the connection; None: it has no such thing."""
        connection = self._connection
        if "update-secret" in connection.capabilities:
            return self._update_secret if connection.profile.tokens_since is not None else None
        version = str(connection.remote.properties.get("version", ""))
        if "token-nodes" in connection.capabilities and LINK_PAIR in connection.offered_capabilities:
            return TokenRequests(connection).put if connection.profile.takes_tokens(version) else None
        return None

    async def _update_secret(self, token: Token) -> None:
        from ...dialects.v0_9 import UpdateSecret  # who speaks 1.0 need not have loaded it

        await self._connection.default_session().ask(UpdateSecret(token.value, "renewed"))

    async def _keep(self, tell: Callable[[Token], Awaitable[None]]) -> None:
        """Renew the token for as long as this connection lasts, or until the token has ended without another."""
        connection, renewal = self._connection, self._keepal
        generation = connection.generation
        while await renewal.sleep(generation):
            try:
                token = await renewal.fetch()
                if token != renewal.token:
                    with anyio.fail_after(self._settings.timeout):
                        await tell(token)
            except (AmqpError, TimeoutError, anyio.ClosedResourceError) as error:
                if connection.over or connection.generation != generation:
                    return
                if not renewal.failed(error):
                    connection.supervisor.drop()
                    return
            else:
                if token == renewal.token:
                    renewal.taken(token)
                else:
                    renewal.renewed(token)

    def explained(self, error: AmqpError | None, link: LinkCore | None = None) -> AmqpError | None:
        renewal = self._keepal
        if link is not None or error is None:
            return error
        if renewal.failure is None and isinstance(error, ConnectionClosed) and error.condition in _OVER:
            if renewal.seconds_left > 1:
                return error
            renewal.failure = AuthenticationFailed(f"the token of the login ran out: {error}", 1)
            renewal.failure.__cause__ = error
        return renewal.failure or error


class TokenRequests:
    """Tells RabbitMQ 4.1 and the embedded broker a new token: a request to the management node, over a pair of links.

    The links are there for one request only, for one that is refused may end the session.
    """

    def __init__(self, connection: ConnectionCore) -> None:
        self._connection = connection

    async def put(self, token: Token) -> None:
        """Tell it.

        Raises:
            ManagementError: the peer does not take it.
            AmqpError: the session, or the connection, was lost.
        """
        connection = self._connection
        name = connection.new_link_name("tokens")
        async with (
            connection.new_session(SessionTerms(), restorable=False) as session,
            paired_requester(session, name, 1) as requester,
        ):
            body = AmqpValue(token.value.encode())
            response = await requester.request(Message(body, subject="PUT", to="/auth/tokens"))
        try:
            status = int(response.subject or 0)
        except ValueError:
            status = 0
        if not 200 <= status < 300:
            raise ManagementError(status, str(response.body or "")[:1000], None)
