"""A link by which the server looks at a queue for a client that browses: copies, kept under numbers of its own.

The specification says neither what the number in a query means nor that in its answer. Here a query is for messages
after that number, those that were not there before among them, and 0 looks anew; the number in the index is 0 where all
are listed, else the one after which to ask on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ....engine import LinkTerms, OutgoingDelivery
from ....errors import LocalProtocolError
from ....messaging import Error
from ....types import Symbol
from ..codes import MESSAGE_NOT_FOUND
from ..message.to_head import to_fast
from ..states import Step
from ..wire.commands import HandleBrowse, HandleIndex, HandleNotify
from ..wire.fragments import fragments
from .sender import ServerSender

if TYPE_CHECKING:
    from ....messaging import DeliveryState
    from .parents import ServerLinkHandle

MAX_FOUND: Final = 1000
MAX_OCTETS: Final = 1 << 22
"""Messages, and octets of them, that are kept for one browser until it asks on."""


_MAX_NUMBER: Final = 0xFFFF_FFFF


class ServerBrowser(ServerSender):
    """See the module."""

    drain: bool
    credit: int
    terms: LinkTerms | None

    def __init__(self, handle: ServerLinkHandle, remote: LinkTerms, *, last: int) -> None:
        super().__init__(handle, remote, None)
        self._found: dict[int, tuple[bytes, int]] = {}
        self._octets = 0
        self._last = last
        self._after = 0

    @property
    def lists(self) -> bool:
        return self.drain

    @property
    def last(self) -> int:
        """Return the last message number that was given."""
        return self._last

    def list_after(self, after: int) -> None:
        """List the messages whose numbers are above `after`."""
        if self._last > _MAX_NUMBER - MAX_FOUND:
            reason = "this browser has seen as many messages as can be numbered: look anew"
            self._handle.close(Error(Symbol("amqp:resource-limit-exceeded"), reason))
            return
        for number in [number for number in self._found if number <= after]:
            self._octets -= len(self._found.pop(number)[0])
        self._after = after
        self.drain = True
        self.credit = max(0, MAX_FOUND - len(self._found))
        if self.credit:
            self.engine.report_credit(self)
        else:
            self.drained()

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        if self.take_answer(terms):
            self.advance(Step.ATTACH)

    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
        batchable: bool = False,
        more: bool = False,
    ) -> OutgoingDelivery:
        if self.credit <= 0 or more:
            raise LocalProtocolError("a browser can be sent only complete messages, and no more than it asked for")
        self._last += 1
        self.credit -= 1
        self._found[self._last] = payload, message_format
        self._octets += len(payload)
        if self._octets > MAX_OCTETS:
            self.credit = 0
        delivery = self.delivery_type(self, self._last.to_bytes(8, "big"), payload, True, message_format)
        delivery.delivery_id = self._last
        delivery.on_wire = True
        return delivery

    def drained(self, available: int = 0) -> None:
        if not self.drain:
            return
        self.drain = False
        numbers = [number for number in self._found if number > self._after]
        listed = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else "".join(map(str, numbers))
        more = self._last if not self.credit else 0
        self.credit = 0
        self.engine.write(HandleIndex(handle_id=self._handle.id, message_nbr=more, message_list=listed.encode()))
        self._handle.go_on()

    def browse(self, command: HandleBrowse) -> None:
        """Show one of those that were listed."""
        found = self._found.get(command.message_nbr)
        if found is None:
            gone = Error("amqp:not-found", f"there is no message {command.message_nbr}")
            self._handle.reply(command.confirm_tag, gone, MESSAGE_NOT_FOUND)
            return
        max_octets = self.engine.frame_max
        head, body = to_fast(found[0], time.time(), message_format=found[1], max_octets=max_octets)
        for content, partial in fragments(head.write(), body, max_octets):
            self.engine.write(
                HandleNotify(
                    handle_id=self._handle.id,
                    message_nbr=command.message_nbr,
                    fragment_size=len(content),
                    partial=partial,
                ),
                content,
            )
