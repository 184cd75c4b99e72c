"""Queues, exchanges and bindings that were declared on a connection: after a loss they come back before its links do.

What was deleted is forgotten, and so is what the server deletes by itself: a queue that goes with its last consumer, an
exchange that goes with its last binding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from ...engine import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    QueueFacts,
    Request,
    Unbind,
    parse_address,
)
from ...errors import AmqpError, EncodeError, LinkDetached, LocalProtocolError, RequestRefused
from .._connecting.policy import is_permanent
from .._events import DeclarationRefused

if TYPE_CHECKING:
    from .._core.connection import ConnectionCore, LinkCore, SessionCore

Key: TypeAlias = tuple[str, ...]


class Declarations:
    """Of one connection that has `reconnect`.

    Attributes:
        stands: all that was declared has been declared again, or tried once; until then links and requests wait.
    """

    def __init__(self, connection: ConnectionCore, *, again: bool, attach_links: Callable[[], None]) -> None:
        self.stands: bool = True
        self._attach_links = attach_links
        self._connection = connection
        self._again = again
        self._made: dict[Key, tuple[SessionCore, Request[Any]]] = {}  # in the order in which it is to be made again
        self._due: set[Key] = set()  # of those: what is not made again yet
        self._refused: dict[str, AmqpError] = {}  # queues that nobody makes again, and why
        self._turn = 0  # of the task that declares; another turn takes over from the one before

    # What is asked for

    async def standing(self) -> None:
        """Wait while it is being declared again."""
        if not self.stands:
            await self._connection.until(lambda: self.stands or self._connection.over)

    def note(self, session: SessionCore, request: Request[Any], answer: Any) -> None:
        """Record a request that was done."""
        if not self._again:
            return
        if isinstance(request, DeclareQueue) and not request.passive:
            assert isinstance(answer, QueueFacts)
            self._made["queue", answer.name] = session, replace(request, name=answer.name)
            self._refused.pop(answer.name, None)
        elif isinstance(request, DeclareExchange) and not request.passive:
            self._made["exchange", request.name] = session, request
        elif isinstance(request, Bind):
            self._made[_binding(request)] = session, request
        else:
            self.forget(request)

    def forget(self, request: Request[Any]) -> None:
        """Forget what a request deletes: it was done, or may have been."""
        if isinstance(request, DeleteQueue):
            self._gone("queue", request.name)
        elif isinstance(request, DeleteExchange):
            self._gone("exchange", request.name)
        elif isinstance(request, Unbind):
            for kind, name in self._unbound(_binding(request)):
                self._gone(kind, name)

    def left(self, link: LinkCore) -> None:
        """Forget the queue of a link that is over, if it goes with its last consumer and that was it."""
        if not self._made or (name := _queue(link)) is None:
            return
        _, queue = self._made.get(("queue", name), (None, None))
        others = (_queue(other) for other in self._connection.links)
        if isinstance(queue, DeclareQueue) and queue.auto_delete and name not in others:
            self._gone("queue", name)

    def _gone(self, kind: str, name: str) -> None:
        """Forget a node that is deleted, and its bindings with it."""
        left = [(kind, name)]
        while left:  # a loop, because a chain of auto-delete exchanges may be longer than the stack
            kind, name = left.pop()
            self._made.pop((kind, name), None)
            for key, (_, made) in list(self._made.items()):
                if isinstance(made, Bind):
                    routes_there = (made.kind, made.destination) == (kind, name)
                    if routes_there or (kind == "exchange" and made.exchange == name):
                        left += self._unbound(key)

    def _unbound(self, key: Key) -> list[tuple[str, str]]:
        """Forget a binding; return the exchange that goes with its last one, if this was that."""
        _, bound = self._made.pop(key, (None, None))
        if not isinstance(bound, Bind):
            return []
        _, source = self._made.get(("exchange", bound.exchange), (None, None))
        bound_still = any(isinstance(made, Bind) and made.exchange == bound.exchange for _, made in self._made.values())
        goes = isinstance(source, DeclareExchange) and source.auto_delete and not bound_still
        return [("exchange", bound.exchange)] if goes else []

    # After a loss

    def lost(self, sessions: Iterable[SessionCore]) -> None:
        """Plan to declare again what was declared on these, or on sessions that are over: it may be gone with them."""
        begun = set(sessions)
        self._due |= {key for key, (on, _) in self._made.items() if on in begun or on.over}
        if self._due:
            self.stands = False

    def restore(self) -> None:
        """Declare it again, in the background; then have links attached."""
        if self._due or not self.stands:
            self._turn += 1
            self._connection.start(self._run, self._turn)

    def lacks(self, link: LinkCore, error: AmqpError | None) -> bool:
        """Return whether a link has ended because its queue could not be declared again: nobody does it later."""
        if not isinstance(error, LinkDetached) or error.condition != "amqp:not-found" or not self._refused:
            return False
        cause = self._refused.get(_queue(link) or "")
        if cause is not None:
            error.add_note(f"after the loss of the connection the queue could not be declared again: {cause}")
        return cause is not None

    async def _run(self, turn: int) -> None:
        settings, failures = self._connection.supervisor.settings, 0
        while True:
            news = not self.stands
            for key in [key for key in self._made if key in self._due]:
                if key in self._made:
                    news |= await self._declare(key)
                if turn != self._turn or self._connection.interrupted:
                    return  # it is taken up when the connection, or the session, is back
            self._due &= self._made.keys()
            self.stands = True
            self._connection.changed()
            if news and self._connection.recovery is not None:
                self._attach_links()
            if not self._due:
                return
            failures += 1
            if failures > settings.attempts:
                self._due.clear()
                return
            await anyio.sleep(settings.delay(failures, random.random()))
            if turn != self._turn or self._connection.interrupted:
                return

    async def _declare(self, key: Key) -> bool:
        """Declare it again; return whether that was done."""
        session, request = self._made[key]
        try:
            session = self._connection.default_session() if session.over else session
            await session.ready()
            with anyio.fail_after(self._connection.supervisor.settings.attempt_timeout):
                await session.ask(request)
        except TimeoutError:
            self._connection.supervisor.drop()
            return False
        except (RequestRefused, EncodeError, LocalProtocolError) as error:
            if isinstance(error, RequestRefused) and not is_permanent(error):
                return False
            self._due.discard(key)
            self._made.pop(key, None)
            if isinstance(request, DeclareQueue):
                self._refused[request.name] = error
            self._connection.observers.tell(DeclarationRefused(" ".join(key[:2]), error))
            return False
        except (AmqpError, anyio.ClosedResourceError):
            return False  # the session, or the connection, is lost
        self._due.discard(key)
        return True


def _binding(request: Bind | Unbind) -> Key:
    arguments = repr(sorted(request.arguments.items()))
    return "binding", request.exchange, request.kind, request.destination, request.key, arguments


def _queue(link: LinkCore) -> str | None:
    """Return the queue that this link consumes from."""
    source = link.terms.source
    if link.kind != "receiver" or source is None or not isinstance(source.address, str):
        return None
    try:
        return parse_address(source.address).queue
    except ValueError:
        return None
