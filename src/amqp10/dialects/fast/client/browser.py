"""Looking at a queue, at the client: which messages there are, then one after the other, as there is credit for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ....engine import Handlers
from ....errors import LocalProtocolError
from ....messaging import Error
from ..message.destinations import apply_filters
from ..wire.command_table import Command
from ..wire.commands import HandleBrowse, HandleIndex, HandleNotify, HandleOpen, HandleQuery
from ..wire.message_list import read_numbers
from .acks import TOLERANCE
from .receiver import ClientReceiver

if TYPE_CHECKING:
    from ....engine import IncomingDelivery
    from ....messaging import DeliveryState
    from .handle import ClientHandle


class ClientBrowser(ClientReceiver):
    """See `ReceiverLink`; what comes is a copy, settled from the beginning."""

    acknowledges = False

    handlers: ClassVar[Handlers] = {HandleIndex: "_on_index"}

    def begin(self, opening: HandleOpen) -> None:
        self._known: deque[int] = deque()  # numbers of messages to be shown
        self._shown: dict[int, int] = {}  # confirm-tags of the messages asked for, by number
        self._not_asked_for = 0  # messages that came without having been asked for
        self._last = 0
        self._querying = False
        self._listed_all = False  # all messages that were in the queue are known
        self._drain = False
        opening.consumer, opening.browser = False, True
        self.handle.open(opening, self._on_opened)
        self._query()

    def _query(self) -> None:
        self._querying = True
        command = HandleQuery(handle_id=self.handle.id, message_nbr=self._last)
        apply_filters(command, self.terms.source)
        self.engine.write(command)

    def flow(
        self, credit: int, *, drain: bool = False, echo: bool = False, properties: Mapping[Any, Any] | None = None
    ) -> None:
        super().flow(credit, properties=properties)
        self._drain, self._listed_all = drain, False

    def flush(self) -> None:
        if not self.attached:
            return
        while self._known and self.credit > len(self._shown):
            number = self._known.popleft()
            command = HandleBrowse(message_nbr=number)
            self.handle.ask(command, lambda error, number=number: self._on_gone(number))  # type: ignore[misc]
            self._shown[number] = command.confirm_tag
        if self._shown or self._querying:
            return
        if self._drain and (not self.credit or (self._listed_all and not self._known)):
            self._drain = False
            self.drained()
        elif self.credit and not self._known and not self._listed_all:
            self._query()

    def _on_gone(self, number: int) -> None:
        """Forget a message that has left the queue since it was listed."""
        self._shown.pop(number, None)
        self.engine.flush_later(self)

    def handle_received(self, handle: ClientHandle, command: Command, content: bytes) -> None:
        super().handle_received(handle, command, content)
        self.engine.flush_later(self)

    def _on_notify(self, handle: ClientHandle, command: HandleNotify, content: bytes) -> None:
        if not command.partial:
            tag = self._shown.pop(command.message_nbr, None)
            if tag is not None:
                handle.replies.drop(tag)
            else:
                self._not_asked_for += 1
        super()._on_notify(handle, command, content)

    def _exceeded(self) -> bool:
        # Each message is asked for by its number, so there is no prefetch.
        return self._not_asked_for > TOLERANCE

    def _on_index(self, handle: ClientHandle, command: HandleIndex, content: bytes) -> None:
        numbers = [number for number in read_numbers(command.message_list) if number > self._last]
        self._querying = False
        self._listed_all = not command.message_nbr
        self._known.extend(numbers)
        if numbers:
            self._last = numbers[-1]
        if not self.attached and not self.ended:
            self._on_consuming(None)

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None, *, settled: bool | None = None) -> None:
        if self.ended or self.handle.closing:
            raise LocalProtocolError(f"the link {self._name!r} is gone")

    def handle_closed(self, handle: ClientHandle, error: Error | None, requested: bool) -> None:
        super().handle_closed(handle, error, requested)
        self._known.clear()
