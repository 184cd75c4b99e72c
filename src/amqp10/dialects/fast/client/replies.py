"""The replies that a channel or a handle of a client waits for, by their confirm-tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....errors import RemoteProtocolError
from ..codes import error_of

if TYPE_CHECKING:
    from ..wire.commands import ChannelReply, HandleReply
    from .parents import Answered

MAX_TAG: Final = 0xFFFF


class PendingReplies:
    """The callbacks of replies that have not come yet."""

    __slots__ = ("_last", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, Answered] = {}
        self._last = 0

    def tag(self, answered: Answered) -> int:
        """Return a confirm-tag for a command; the reply with this tag is passed to `answered`."""
        tag = self._last
        while True:
            tag = tag % MAX_TAG + 1
            if tag not in self._waiting:
                self._last = tag
                self._waiting[tag] = answered
                return tag

    def drop(self, tag: int) -> None:
        """Stop waiting for the reply with this tag, because another command has answered."""
        self._waiting.pop(tag, None)

    def receive(self, reply: ChannelReply | HandleReply) -> None:
        """Pass on a reply.

        Raises:
            RemoteProtocolError: no command asked for it.
        """
        answered = self._waiting.pop(reply.confirm_tag, None)
        if answered is None:
            raise RemoteProtocolError(f"an unexpected {reply.title()} with the tag {reply.confirm_tag}")
        answered(error_of(reply.reply_code, reply.reply_text))
