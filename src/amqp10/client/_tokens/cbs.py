"""Tokens at the peer's node `$cbs`, one for each audience (AMQP Claims-based Security, as Azure has it)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import anyio

from ...engine import TOKENS, LinkTerms, SessionTerms
from ...errors import AmqpError, AuthenticationFailed, InsecureTransport, LinkDetached, ManagementError, Unsupported
from ...messaging import AmqpValue, Message, Source, Target
from ...tokens import SAS_PREFIX
from ...types import Timestamp
from .._core.connection import TokenKeeper
from .._errors import fresh
from .._requests.management import DESCRIPTION, STATUS, first
from .._requests.requester import ReplyCore, ReplyReceiver, Requester
from .._session import Session
from .renewal import Renewal

if TYPE_CHECKING:
    from ...tokens import Token
    from .._core.connection import ConnectionCore, LinkCore
    from .._settings import CbsTokens

SAS_TYPE: Final = "servicebus.windows.net:sastoken"
JWT_TYPE: Final = "jwt"
GRACE_PERIOD: Final = 20.0
"""Seconds after a reconnect in which a token is tried to be had, though the one before has ended."""


class Grant(Renewal):
    """The token of one audience.

    Attributes:
        generation: of the connection on which the peer has it.
    """

    generation = -1


class CbsKeeper(TokenKeeper):
    """Of one connection."""

    def __init__(self, connection: ConnectionCore, settings: CbsTokens) -> None:
        self._connection = connection
        self._settings = settings
        self._grants: dict[str, Grant] = {}
        self._requester: Requester | None = None
        self._opening = anyio.Lock()

    # What links ask

    async def admit(self, link: LinkCore) -> bool:
        audience = self._audience(link)
        if audience is None:
            return False
        connection = self._connection
        if "token-nodes" not in connection.capabilities:
            raise Unsupported(f"dialect {connection.dialect!r} has no node {TOKENS!r}: log in with LoginTokens")
        if not (connection.supervisor.secure or self._settings.allow_insecure):
            raise InsecureTransport(
                "a token at $cbs would be readable by others, for there is no TLS, or TLS with verify=False: use "
                "amqps:// and have the server checked, or use CbsTokens(..., allow_insecure=True)"
            )
        grant = self._grants.get(audience)
        stood = grant is not None and self._stands(grant)
        if grant is None:
            scope = self._settings.scope if self._settings.scope is not None else audience
            grant = self._grants[audience] = Grant(connection, self._settings, audience, scope)
            connection.start(self._keep, grant)
        await connection.until(lambda: self._stands(grant) or grant.failure is not None or connection.over)
        if grant.failure is not None:
            raise fresh(grant.failure)
        if connection.over:
            raise connection.gone()
        return stood

    async def put_anew(self, link: LinkCore) -> bool:
        grant = self._grants.get(self._audience(link) or "")
        if grant is None or not self._stands(grant):
            return False
        try:
            token = await grant.fetch()
            with anyio.fail_after(self._settings.timeout):
                await self._put(grant.audience, token)
        except (AmqpError, TimeoutError, anyio.ClosedResourceError):
            return False
        grant.renewed(token)
        return self._stands(grant)

    def admits(self, link: LinkCore) -> bool:
        audience = self._audience(link)
        if audience is None:
            return True
        grant = self._grants.get(audience)
        return grant is None or self._stands(grant)

    def _audience(self, link: LinkCore) -> str | None:
        """Return what a link needs a token for; None for one that needs none."""
        address = getattr(link.terminus, "address", None)
        audience = self._settings.audience
        if address == TOKENS or (address is None and not isinstance(audience, str)):
            return None
        if audience is None:
            endpoint = self._connection.supervisor.endpoint
            host = (endpoint.name or endpoint.host) if endpoint is not None else ""
            return f"amqps://{host}/{str(address).lstrip('/')}"
        return audience if isinstance(audience, str) else audience(str(address))

    def _stands(self, grant: Grant) -> bool:
        """Return whether the peer has the token, on the connection that is there now."""
        return grant.generation == self._connection.generation and self._connection.established

    def explained(self, error: AmqpError | None, link: LinkCore | None = None) -> AmqpError | None:
        if link is None or not isinstance(error, LinkDetached) or error.condition != "amqp:unauthorized-access":
            return error
        grant = self._grants.get(self._audience(link) or "")
        if grant is None or grant.seconds_left > 1:
            return error
        failure = AuthenticationFailed(f"the token for {grant.audience!r:.200} ran out: {error}", 1)
        failure.__cause__ = error
        return failure

    # The connection

    @property
    def seconds_left(self) -> float | None:
        lefts = [grant.seconds_left for grant in self._grants.values() if math.isfinite(grant.until)]
        return min(lefts, default=None)

    def connected(self) -> None:
        self._requester = None  # it was of the connection before
        for grant in self._grants.values():
            grant.wait_for(GRACE_PERIOD)

    async def _keep(self, grant: Grant) -> None:
        """Keep the peer supplied with the token of one audience."""
        connection = self._connection
        while not connection.over:
            await connection.ready()
            generation = connection.generation
            if self._stands(grant) and not grant.due:
                await grant.sleep(generation)
                continue
            error = await self._renew(grant, generation)
            if connection.over or connection.generation != generation:
                continue
            if error is not None and not grant.failed(error):
                self._end(grant)
                return
            if error is not None:
                await grant.sleep(generation)
            connection.changed()

    async def _renew(self, grant: Grant, generation: int) -> Exception | None:
        """Put the token that is due; return what went wrong with it."""
        token, problem = grant.token, None
        if token is None or grant.due or not grant.usable:
            try:
                token = await grant.fetch()
            except AuthenticationFailed as error:
                problem = error
                if not grant.usable:
                    return problem
        assert token is not None
        if token == grant.token and grant.generation == generation:
            if problem is None:
                grant.taken(token)  # the source has no other yet
            return problem
        try:
            with anyio.fail_after(self._settings.timeout):
                await self._put(grant.audience, token)
        except (AmqpError, TimeoutError, anyio.ClosedResourceError) as error:
            return error
        began, grant.generation = grant.generation != generation, generation
        grant.renewed(token)
        if began and (recovery := self._connection.recovery) is not None:
            for link in self._links_of(grant):
                recovery.restore_link(link)
        return problem

    async def _put(self, audience: str, token: Token) -> None:
        """Put a token.

        Raises:
            ManagementError: the peer does not take it.
            AmqpError, anyio.ClosedResourceError: the peer has no such node, or the connection is lost.
        """
        properties: dict[str, Any] = {
            "operation": "put-token",
            "type": SAS_TYPE if token.value.startswith(SAS_PREFIX) else JWT_TYPE,
            "name": audience,
        }
        if token.expires_on is not None:
            properties["expiration"] = Timestamp(int(token.expires_on * 1000))
        requester = await self._links()
        if not (self._connection.supervisor.secure or self._settings.allow_insecure):
            raise InsecureTransport("the connection was restored without TLS, so no token is sent on it")
        response = await requester.request(Message(AmqpValue(token.value), application_properties=properties))
        answer = response.application_properties or {}
        status = first(answer, STATUS)
        if not isinstance(status, int):
            raise ManagementError(0, f"{TOKENS} answers without a status code", None)
        if not 200 <= status < 300:
            raise ManagementError(int(status), str(first(answer, DESCRIPTION) or "")[:1000], None)

    async def _links(self) -> Requester:
        """Return the pair of links to the node, attached."""
        async with self._opening:
            requester = self._requester
            if requester is not None and requester.sender.open and requester.replies.open:
                return requester
            connection = self._connection
            session = connection.new_session(SessionTerms(), restorable=False)
            name = connection.new_link_name("cbs")
            sender = Session(session).sender(Target(TOKENS), name=f"{name}-sender", source=Source(TOKENS))
            terms = LinkTerms(name=f"{name}-receiver", source=Source(TOKENS), target=Target(TOKENS))
            requester = Requester(sender, ReplyReceiver(ReplyCore(connection, session, terms, 100)), TOKENS)
            await session.__aenter__()
            try:
                await requester.__aenter__()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await session.__aexit__(None, None, None)
                raise
            self._requester = requester
            return requester

    def _links_of(self, grant: Grant) -> list[LinkCore]:
        return [link for link in self._connection.links if self._audience(link) == grant.audience]

    def _end(self, grant: Grant) -> None:
        """End the links of an audience whose token ran out."""
        connection = self._connection
        self._grants.pop(grant.audience, None)
        for link in self._links_of(grant):
            if link.awaiting_peer or link.open:
                link.detach(closed=False)
            link.end_for_good(grant.failure)
        connection.changed()
