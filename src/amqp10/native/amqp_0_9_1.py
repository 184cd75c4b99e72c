"""What 0-9-1 and its relatives have beyond the topology: bindings of exchanges, get, recover, update-secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._arguments import checked, hinted
from ..client.internals import Receiver, engine_link, new_queue_name
from ..dialects.v0_9 import GetMessage, LimitUnsettled, Recover, UpdateSecret
from ..engine import Bind, DeclareQueue, QueueFacts, Request, RequestResult, Unbind
from ..errors import LocalProtocolError
from ..messaging import Message
from .topology import Topology


@hinted
class Native(Topology):
    """The native operations of a 0-9-1 connection: `connection.native`.

    Every method also raises:

    - `RequestRefused`: the server refused; `condition` and `description` have the reason, `info["reply-code"]` its
      code;
    - `SessionEnded`, `ConnectionClosed`, `ConnectionLost`: no answer came, and the request may have been carried out;
    - `LocalProtocolError`: the request cannot be encoded, because a name is longer than 255 octets, or a table cannot
      hold an argument.

    With `reconnect`, declarations and bindings made here are repeated after a loss (`Reconnect.declare_again`). Any
    number of tasks may use it at a time.
    """

    async def _ask(self, request: Request[RequestResult]) -> RequestResult:
        return await self._ask_own(request)

    async def _declare_queue(self, request: DeclareQueue) -> QueueFacts:
        # With `reconnect`, choose the name here, because RabbitMQ refuses to declare a name again that it chose itself.
        return await self._ask(replace(request, name=request.name or new_queue_name(self._connection)))

    # Bindings of exchanges

    @checked
    async def bind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Bind the exchange `destination` to `source`, which then passes messages to it; RabbitMQ's extension.

        Raises:
            RequestRefused: one of the exchanges does not exist (404).
            ConnectionClosed: the server, such as Qpid, does not support these bindings (540).

        Cancelling: the binding may have been made.
        """
        await self._ask(Bind(destination, source, key, dict(arguments or {}), "exchange"))

    @checked
    async def unbind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Undo `bind_exchange`, with the same arguments.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Cancelling: the binding may have been removed.
        """
        await self._ask(Unbind(destination, source, key, dict(arguments or {}), "exchange"))

    # Messages

    @checked
    async def get(self, queue: str) -> Message | None:
        """Take one message from a queue, and acknowledge it on arrival; return None if the queue is empty (basic.get).

        To choose the outcome, use a receiver with `receiver.add_credit(1)` and `await receiver.drain()`.

        Raises:
            RequestRefused: the queue does not exist (404).

        Cancelling: the message may have been taken, and is then lost.
        """
        got = await self._ask(GetMessage(queue))
        return None if got is None else Message.decode(got.payload)

    @checked
    async def qos(self, receiver: Receiver, prefetch: int) -> None:
        """Allow a receiver at least `prefetch` deliveries without an outcome (basic.qos).

        By default the prefetch follows the credit, and is raised when that many deliveries are unsettled.

        Raises:
            ValueError: `prefetch` is not in 1..65535.

        Cancelling: the prefetch may have been set.
        """
        if not 1 <= prefetch <= 0xFFFF:
            raise ValueError(f"prefetch must be in 1..65535, not {prefetch}")
        await self._ask(LimitUnsettled(self._link(receiver), prefetch))

    @checked
    async def recover(self, receiver: Receiver) -> None:
        """Ask the server to redeliver all unsettled deliveries of a receiver (basic.recover).

        The old deliveries are then stale: settling one raises `StaleDelivery`, as after a loss.

        Raises:
            RequestRefused: the server refused; `description` has the reason.

        Cancelling: the server may have been asked.
        """
        await self._ask(Recover(self._link(receiver)))

    @staticmethod
    def _link(receiver: Receiver) -> Any:
        link = engine_link(receiver)
        if link is None:
            raise LocalProtocolError("the receiver is not attached")
        return link

    # The connection

    @checked
    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the server a new secret, such as a token, before the old one expires; RabbitMQ's extension.

        After a reconnect, the login still uses the credentials given to `Connection`, which may have expired by then.

        Raises:
            ConnectionClosed: the server refuses the secret, or does not support the method.
            LocalProtocolError: the secret is larger than the server's frames, or the reason longer than 255 octets.

        Cancelling: the secret may have been updated.
        """
        await self._ask(UpdateSecret(secret, reason))
