"""One token that the peer has, or is to have: when the next one is asked for, and what comes of a failure."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

import anyio

from ..._calls import cancelled_elsewhere
from ...errors import AmqpError, AuthenticationFailed, LinkDetached, ManagementError
from ...net import backoff
from ...tokens import Token, ask
from .._connecting.policy import TEMPORARY
from .._events import TokenRefused, TokenRenewed

if TYPE_CHECKING:
    from .._core.connection import ConnectionCore
    from .._settings import Tokens

SHARE: Final = 0.8
"""The part of a token's life after which the next one is asked for."""
JITTER: Final = 0.05
"""The part of that which is left to chance, so that many clients do not ask at once."""
MIN_INTERVAL: Final = 1.0
"""Seconds between two askings of a source that goes on giving the same token."""
MAX_SLEEP: Final = 60.0
"""Seconds after which the clock is looked at again."""
PAUSES: Final = (0.5, 30.0, 2.0, 0.5)
"""The first pause after a failure, the longest, by how much it grows, and what of it is left to chance."""


class Renewal:
    """What is known of one token, and of those that follow on it.

    Args:
        audience: what it is for, as events say it.
        scope: what the source is asked for.

    Attributes:
        token: the one that the peer has, or had on the connection before; None before the first.
        until: when waiting for the next one ends, on the settings' clock: the end of this one.
        failure: why it ran out; None while it is valid.
    """

    def __init__(self, connection: ConnectionCore, settings: Tokens, audience: str, scope: str) -> None:
        self.audience = audience
        self.token: Token | None = None
        self.until = -math.inf
        self.failure: AmqpError | None = None
        self._connection = connection
        self._settings = settings
        self._scope = scope
        self._failures = 0
        self._fetched: Token | None = None
        self._renew_at = -math.inf

    @property
    def seconds_left(self) -> float:
        """How long the token, or the waiting for another, still lasts."""
        return self.until - self._settings.clock()

    @property
    def usable(self) -> bool:
        """Whether the token that was had last is not over."""
        now = self._settings.clock()
        return self.token is not None and (self.token.expires_on is None or now < self.token.expires_on)

    @property
    def due(self) -> bool:
        """Whether it is time for another token."""
        return self._settings.clock() >= self._renew_at

    async def fetch(self) -> Token:
        """Ask the source for a token.

        Raises:
            AuthenticationFailed: it gave none, or one that is over, or not in time.
        """
        limit = self._settings.timeout
        if self.usable:
            limit = min(limit, self.seconds_left)  # after that nobody has use for it
        reason: str
        cause: Exception | None = None
        try:
            with anyio.fail_after(limit):
                token = await ask(self._settings.source, self._scope)
        except TimeoutError as error:
            reason, cause = f"it did not come in {limit:.3g} s", error
        except BaseException as error:
            cause = error if isinstance(error, Exception) else cancelled_elsewhere(error)
            if cause is None:
                raise
            # Only the kind: what it says may quote the token, or a key.
            reason = f"its source raised {type(error).__name__}"
        else:
            if token.expires_on is None or token.expires_on > self._settings.clock():
                self._fetched = token
                return token
            reason = "the one that its source gave has ended"
        raise AuthenticationFailed(f"no token for {self.audience!r:.200}: {reason}", TEMPORARY) from cause

    def taken(self, token: Token) -> None:
        """Record that the peer has a token."""
        now = self._settings.clock()
        self.until = token.expires_on if token.expires_on is not None else math.inf
        self._renew_at = now + max(MIN_INTERVAL, (self.until - now) * SHARE * (1 - JITTER * random.random()))
        self._failures, self.token = 0, token

    def renewed(self, token: Token) -> None:
        """Record that the peer has a token, and tell it."""
        self.taken(token)
        self._connection.observers.tell(TokenRenewed(self.audience, token.expires_on))

    def wait_for(self, seconds: float) -> None:
        """Wait for a token that long at least, though the one before has ended."""
        self.until = max(self.until, self._settings.clock() + seconds)

    def failed(self, error: Exception) -> bool:
        """Record a failure, and tell it; return whether there is time for another try."""
        end = "ran out"
        if self.token is None:
            end = "was refused" if isinstance(error, ManagementError) else "could not be had"
        error = self._to_show(error)
        self._failures += 1
        now = self._settings.clock()
        left = self.until - now
        pause = min(backoff(self._failures, *PAUSES, random.random()), left) if left > 0 else None
        self._connection.observers.tell(TokenRefused(self.audience, error, pause))
        if pause is not None:
            self._renew_at = now + pause
            return True
        if isinstance(error, ManagementError) and error.status == 404:  # Azure says so instead of refusing the link
            self.failure = LinkDetached("amqp:not-found", error.description)
        else:
            self.failure = AuthenticationFailed(f"the token for {self.audience!r:.200} {end}: {error}", 1)
        self.failure.__cause__ = error
        return False

    def _to_show(self, error: Exception) -> Exception:
        """Return an error as it may be shown and logged: a peer may repeat the token in what it says of it."""
        if isinstance(error, TimeoutError):
            return TimeoutError(f"the peer did not answer in {self._settings.timeout:g} s")
        text = str(error)
        if self._fetched is None or self._fetched.value not in text:
            return error
        return AuthenticationFailed(text.replace(self._fetched.value, "<token>"), TEMPORARY)

    async def sleep(self, generation: int) -> bool:
        """Wait for the time of the next token; return whether the connection is still the same by then."""
        connection, clock = self._connection, self._settings.clock

        def lost() -> bool:
            return connection.over or connection.generation != generation

        # A clock that others set, or that goes on while the machine is suspended, is not the event loop's.
        while not lost() and (left := self._renew_at - clock()) > 0:
            with anyio.move_on_after(min(left, MAX_SLEEP)):
                await connection.until(lost)
        return not lost()
