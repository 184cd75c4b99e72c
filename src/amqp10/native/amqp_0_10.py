"""What 0-10 has beyond the topology: querying bindings, acquiring browsed messages, distributed transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio

from .._arguments import checked, hinted
from ..client.internals import ConnectionFace, Delivery, Session, SessionCore, ask, receiver_delivery
from ..engine import Acquire, BindingFacts, DeclareQueue, QueryBinding, QueueFacts, Request, RequestResult
from ..errors import LocalProtocolError
from .topology import Topology
from .xa import XA


@hinted
class Native(Topology):
    """The native operations of a 0-10 connection: `connection.native`.

    Every method also raises:

    - `RequestRefused`: the server refused; `condition` and `description` have the reason, `info["reply-code"]` its
      code.
      Or the request was not sent, because a name has more than 255 octets (`amqp:invalid-field`);
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and the request may have been carried out;
    - `LocalProtocolError`: the request cannot be encoded, because a map cannot hold one of its arguments.

    In 0-10 a failed request ends its session. To avoid that, the client first queries whether a queue exists and is in
    use. If the server refuses nevertheless, only the session of these requests ends, not that of the links, and the
    next request begins another. With `reconnect`, declarations and bindings made here are repeated after a loss
    (`Reconnect.declare_again`). Any number of tasks may use it at a time.
    """

    def __init__(self, connection: ConnectionFace) -> None:
        super().__init__(connection)
        self._session: Session | None = None
        self._opening = anyio.Lock()

    async def _ask(self, request: Request[RequestResult]) -> RequestResult:
        async with self._opening:
            session = self._session
            if session is None or not session.open:
                session = self._connection.session()
                await session.__aenter__()
                self._session = session
        return await ask(session, request)

    async def _declare_queue(self, request: DeclareQueue) -> QueueFacts:
        # An exclusive queue belongs to the session that declared it, which senders and receivers must share.
        return await (self._ask_own(request) if request.exclusive else self._ask(request))

    @checked
    async def binding(
        self,
        exchange: str,
        queue: str,
        key: str | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
    ) -> BindingFacts:
        """Return which parts of a binding exist; `key` and `arguments` are not compared if None.

        Raises:
            SessionEnded, ConnectionClosed, ConnectionLost, LocalProtocolError: see the class.

        Cancelling: nothing is changed.
        """
        return await self._ask(QueryBinding(exchange, queue, key, arguments))

    # Messages

    async def acquire(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Acquire browsed messages; return those that were acquired, which must then be settled.

        Args:
            deliveries: unsettled deliveries of one receiver with `Source(queue, distribution_mode="copy")`. Those of
                `connection.browser()` are already settled.

        Raises:
            LocalProtocolError: the deliveries are of several receivers, or settled; nothing was sent. Or see the class.
            SessionEnded, ConnectionClosed, ConnectionLost: see the class.

        Cancelling: the messages may have been acquired.
        """
        shown = [receiver_delivery(each) for each in deliveries]
        if not shown:
            return []
        link = shown[0].link
        if any(each.link is not link for each in shown):
            raise LocalProtocolError("one call can acquire messages of only one receiver")
        if any(each.local_settled for each in shown):
            raise LocalProtocolError("a settled message cannot be acquired, nor one that a `browser()` returned")
        session: SessionCore = link.session.owner  # type: ignore[assignment]
        acquired = await session.request(Acquire(tuple(shown)))
        return [each for each in shown if each in acquired]

    # Distributed transactions

    def xa(self) -> XA:
        """Return a session for branches of distributed transactions: `async with connection.native.xa() as xa`."""
        return XA(self._connection)
