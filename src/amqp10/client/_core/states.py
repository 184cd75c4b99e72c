"""The states of the client's connections, sessions and links, as a table: what callers can do, and what they wait for.

All three use the same table, whatever the dialect; what frames are legal is in the tables of the dialects.
`Lifecycle` is the machine on it (`amqp10._machine`). Which of our frames are out (`awaiting_peer`, `end_sent`,
`detach_sent`), and what has been once (`begun`, `ever_attached`), are no states: each is so in several of these.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..._machine import HAPPENED
from ..._machine import Step as AnyStep


class Step(AnyStep):
    """What moves a connection, session or link on."""

    ENTER = HAPPENED, "`async with`"
    OPEN = HAPPENED, "open"
    LOSE = HAPPENED, "loss"
    CANCEL = HAPPENED, "cancelling of `async with`"
    CLOSE = HAPPENED, "close by the owner"
    END = HAPPENED, "end"
    RETRY = HAPPENED, "another attach"


class State(Enum):
    """What a caller finds.

    A connection or link is open when the peer has answered; a session from our begin on, for links attach at once.
    """

    NEW = "made, and not opened yet"
    OPENING = "`async with` opens it"
    OPEN = "it can be used"
    ABANDONED = "opening it was cancelled: it is closed when the peer has answered, or is over with a loss"
    INTERRUPTED = "it was lost and will be restored: callers wait"
    CLOSING = "its owner closes it"
    CLOSING_INTERRUPTED = "its owner closes it; it was lost, and will be restored to finish its work"
    CLOSING_RESTORED = "its owner closes it; it was restored, and finishes its work"
    ENDED = "it has ended: callers get the cause"
    CLOSED = "it has ended, and its owner closed it"


_S = State

LIFECYCLE: Final[dict[tuple[State, Step], State]] = {
    (_S.NEW, Step.ENTER): _S.OPENING,
    (_S.NEW, Step.LOSE): _S.INTERRUPTED,  # a session for one link of another session, to be begun after a loss
    (_S.OPENING, Step.OPEN): _S.OPEN,
    (_S.OPENING, Step.LOSE): _S.INTERRUPTED,
    (_S.OPENING, Step.CANCEL): _S.ABANDONED,  # a link
    (_S.OPENING, Step.CLOSE): _S.CLOSING,
    (_S.OPEN, Step.OPEN): _S.OPEN,  # a link that has moved to another attachment
    (_S.OPEN, Step.LOSE): _S.INTERRUPTED,
    (_S.OPEN, Step.CANCEL): _S.ABANDONED,  # a session, which the peer has not begun
    (_S.ABANDONED, Step.CLOSE): _S.CLOSING,
    (_S.OPEN, Step.CLOSE): _S.CLOSING,
    (_S.INTERRUPTED, Step.OPEN): _S.OPEN,
    (_S.INTERRUPTED, Step.LOSE): _S.INTERRUPTED,
    (_S.INTERRUPTED, Step.CLOSE): _S.CLOSING_INTERRUPTED,
    (_S.CLOSING, Step.OPEN): _S.CLOSING,  # the answer crossed the close
    (_S.CLOSING, Step.LOSE): _S.CLOSING_INTERRUPTED,
    (_S.CLOSING, Step.CLOSE): _S.CLOSING,
    (_S.CLOSING_INTERRUPTED, Step.OPEN): _S.CLOSING_RESTORED,
    (_S.CLOSING_INTERRUPTED, Step.LOSE): _S.CLOSING_INTERRUPTED,
    (_S.CLOSING_INTERRUPTED, Step.CLOSE): _S.CLOSING_INTERRUPTED,
    (_S.CLOSING_RESTORED, Step.LOSE): _S.CLOSING_INTERRUPTED,
    (_S.CLOSING_RESTORED, Step.CLOSE): _S.CLOSING,
    **{(state, Step.END): _S.ENDED for state in (_S.OPENING, _S.OPEN, _S.INTERRUPTED)},
    **{
        (state, Step.END): _S.CLOSED
        for state in (_S.ABANDONED, _S.CLOSING, _S.CLOSING_INTERRUPTED, _S.CLOSING_RESTORED)
    },
    (_S.ENDED, Step.CLOSE): _S.CLOSED,
    (_S.CLOSED, Step.CLOSE): _S.CLOSED,
    # A link whose attach the peer refused or redirected, before anybody has the link.
    (_S.ENDED, Step.RETRY): _S.OPENING,
    (_S.CLOSED, Step.RETRY): _S.CLOSING,
    # An answer that crossed the end; `Lifecycle` ignores later losses and ends, so that the first cause stays.
    (_S.ENDED, Step.OPEN): _S.ENDED,
    (_S.CLOSED, Step.OPEN): _S.CLOSED,
}
