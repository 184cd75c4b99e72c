"""Outcomes of locked messages, from links or through the management node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from ....messaging import OUTCOMES, Accepted, Modified, Outcome, Rejected, Released
from ..._errors import Refused
from .._conditions import ARGUMENT_ERROR

if TYPE_CHECKING:
    from uuid import UUID

    from .entity import Entity

DEAD_LETTER: Final = "com.microsoft:dead-letter"
"""The condition of a dead letter that gives no other reason."""
REASON, DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"
MAX_CHANGES: Final = 100
"""The most properties that one outcome changes, because it may be the outcome of many messages."""


def check_reason(name: str, value: object) -> None:
    """Check the reason or the description of a dead letter.

    Raises:
        Refused: it is not a string.
    """
    if not isinstance(value, str | None):
        raise Refused(ARGUMENT_ERROR, f"{name} of a dead letter must be a string, not {value!r:.60}")


def checked_outcome(state: object) -> Outcome:
    """Return a delivery-state that is a possible outcome of a message.

    Raises:
        Refused: it is another state, or has invalid details.
    """
    if not isinstance(state, OUTCOMES):
        raise Refused("amqp:not-implemented", f"the outcome {type(state).__name__} is not supported")
    changes = _changes(state)
    if isinstance(state, Rejected):
        for name in (REASON, DESCRIPTION):
            check_reason(name, changes.pop(name, None))
    if len(changes) > MAX_CHANGES:
        raise Refused(ARGUMENT_ERROR, f"at most {MAX_CHANGES} properties can be changed, not {len(changes)}")
    return state


def settle(entity: Entity, token: UUID, outcome: Outcome) -> None:
    """Settle a locked message.

    Raises:
        Refused: the lock is lost, or a transaction has the message.
    """
    changes = _changes(outcome)
    if isinstance(outcome, Accepted):
        entity.complete(token)
    elif isinstance(outcome, Released):
        entity.release(token)
    elif isinstance(outcome, Modified):
        if outcome.undeliverable_here:
            entity.defer(token, changes)
        else:
            entity.abandon(token, changes)
    elif isinstance(outcome, Rejected):
        reason, description = changes.pop(REASON, None), changes.pop(DESCRIPTION, None)
        if outcome.error is not None and outcome.error.condition != DEAD_LETTER:
            reason = reason or str(outcome.error.condition)
            description = description or outcome.error.description
        entity.dead_letter(token, reason, description, changes)
    else:
        assert_never(outcome)


def _changes(outcome: Outcome) -> dict[Any, Any]:
    """Return the properties that an outcome changes, including a dead letter's reason and description."""
    if isinstance(outcome, Modified):
        return dict(outcome.message_annotations or {})
    error = outcome.error if isinstance(outcome, Rejected) else None
    return dict(error.info or {}) if error is not None else {}
