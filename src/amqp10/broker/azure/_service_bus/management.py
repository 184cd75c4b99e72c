"""The management node of an entity: requests for locks, and for peeked, scheduled and deferred messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, overload
from uuid import UUID

from ....errors import DecodeError
from ....messaging import ACCEPTED, RELEASED, Error, Message, Modified, Outcome, Rejected
from ....types import Array, Int, Symbol
from ..._errors import Refused
from ..._requests.answers import answer_to
from .._conditions import (
    ALREADY_EXISTS,
    ARGUMENT_ERROR,
    ARGUMENT_OUT_OF_RANGE,
    ENTITY_DISABLED,
    ENTITY_NOT_FOUND,
    MESSAGE_LOCK_LOST,
    MESSAGE_NOT_FOUND,
    NO_MATCHING_SUBSCRIPTION,
    NOT_ALLOWED,
    SERVER_BUSY,
    SESSION_CANNOT_BE_LOCKED,
    SESSION_LOCK_LOST,
    TIMEOUT,
)
from .._messages import SCHEDULED_FOR, EntityMessage, timestamp
from .outcomes import DEAD_LETTER, DESCRIPTION, REASON, check_reason, checked_outcome, settle
from .rules import read_rule
from .transactions import UNKNOWN_ID, EntityWork

if TYPE_CHECKING:
    from ..._peer import Peer
    from ..._users.users import Action
    from .entity import Entity
    from .topic import Subscription

_PREFIX: Final = "com.microsoft:"
_STATUS: Final = {
    "amqp:unauthorized-access": 401,
    "amqp:decode-error": 400,
    MESSAGE_LOCK_LOST: 410,
    MESSAGE_NOT_FOUND: 404,
    SESSION_LOCK_LOST: 410,
    SERVER_BUSY: 503,
    ENTITY_DISABLED: 403,
    NOT_ALLOWED: 403,
    ALREADY_EXISTS: 409,
    ENTITY_NOT_FOUND: 404,
    NO_MATCHING_SUBSCRIPTION: 500,
    "amqp:not-implemented": 501,
    UNKNOWN_ID: 400,
    "amqp:resource-limit-exceeded": 403,
    # Only tests cause these.
    "com.microsoft:auth-failed": 401,
    "com.microsoft:session-not-found": 404,
    TIMEOUT: 408,
    SESSION_CANNOT_BE_LOCKED: 410,
    "com.microsoft:precondition-failed": 412,
    "com.microsoft:operation-cancelled": 500,
    "com.microsoft:container-close": 503,
}
MAX_AT_ONCE: Final = 1000
"""The most messages that one request peeks, schedules, receives or settles."""
MAX_REMOVED: Final = 4000
"""The most messages that one request removes, as in the premium tier."""
MAX_OCTETS: Final = 1_048_576
"""The most octets of the messages in one answer, unless a single message is larger."""
MAX_STATE: Final = 262_144
"""The most octets of a session's state."""
_NO_TIME: Final = 253_402_300_799.0
"""The last second of the year 9999, which means any time."""

Answer = Mapping[str, Any] | None
"""The map of an answer; None: there is nothing (204)."""


class Management:
    """The management node of one entity, for one peer.

    Args:
        used: called with the name of the link that a request uses.
        fits: returns whether the store has room for a number of octets.

    Attributes:
        entity: the entity.
        subscription: the subscription whose messages are in the entity, or None.
    """

    def __init__(
        self,
        entity: Entity,
        peer: Peer,
        subscription: Subscription | None,
        *,
        used: Callable[[str], None],
        fits: Callable[[int], bool],
    ) -> None:
        self.entity = entity
        self.subscription = subscription
        self._peer = peer
        self._used = used
        self._fits = fits

    def carry_out(self, request: Message, txn_id: bytes | None) -> Message:
        """Carry out a request, in the transaction with this id or in none, and return the answer."""
        condition: Symbol | None = None
        body: Answer = None
        try:
            body = self._do(request, txn_id)
        except Refused as refusal:
            condition = Symbol(refusal.error.condition)
            status, description = _STATUS.get(condition, 400), refusal.error.description or ""
        else:
            status, description = (204, "No Content") if body is None else (200, "OK")
        properties: dict[str, Any] = {"statusCode": Int(status), "statusDescription": description}
        if condition is not None:
            properties["errorCondition"] = condition
        return answer_to(request, dict(body or {}), properties)

    def _do(self, request: Message, txn_id: bytes | None) -> Answer:
        operation, body = request.application_properties.get("operation"), request.body
        self.entity.accessed = self.entity.now
        if isinstance(link := request.application_properties.get("associated-link-name"), str):
            self._used(link)
        name = operation.removeprefix(_PREFIX) if isinstance(operation, str) else ""
        known = _OPERATIONS.get(name)
        if known is None:
            raise Refused("amqp:not-implemented", f"the operation {operation!r:.100} is not supported")
        if not isinstance(body, dict):
            raise Refused(ARGUMENT_ERROR, f"the body of a request must be a map, not {type(body).__name__}")
        action, act = known
        self._peer.rights.check(action, self.entity.name)
        if action != "configure":
            self.entity.check_open("receive" if action == "read" else "send")
        self.entity.check_busy()
        if txn_id is None:
            return act(self, body)
        work = EntityWork(self._peer, txn_id, self.entity)
        if name in _IN_TRANSACTIONS:
            return _IN_TRANSACTIONS[name](self, body, work)
        if name in _NOTHING_TO_UNDO:
            return act(self, body)
        raise Refused("amqp:not-implemented", f"{name} cannot be part of a transaction, for no rollback undoes it")

    def admit(self, payloads: list[bytes]) -> list[EntityMessage]:
        """Return the messages in a request, after the same checks as on a link.

        Raises:
            Refused: one of them is malformed, or has another user's user-id, or there is no room for them.
        """
        peer, entity = self._peer, self.entity
        if peer.blocked is not None:
            raise Refused("amqp:resource-limit-exceeded", peer.blocked)
        if entity.free < len(payloads):
            raise Refused("amqp:resource-limit-exceeded", f"{entity.name!r} has no room for {len(payloads)} messages")
        octets = sum(map(len, payloads)) * entity.copies_stored(durable=True)
        if not self._fits(octets):
            raise Refused("amqp:resource-limit-exceeded", f"the disk of the store has no room for {octets} octets more")
        messages = []
        for payload in payloads:
            try:
                messages.append(EntityMessage.read(payload))
                forged = peer.claims_another_user(payload)
            except DecodeError as error:
                raise Refused("amqp:decode-error", str(error)) from None
            if forged is not None:
                raise Refused(str(forged.condition), forged.description or "")
            entity.check(messages[-1])
            messages[-1].account = peer.maker.account
        return messages


def _renew_lock(node: Management, body: dict[Any, Any]) -> Answer:
    ends = node.entity.renew(_tokens(body))
    return {"expirations": Array("timestamp", [timestamp(end) for end in ends])}


def _peek(node: Management, body: dict[Any, Any]) -> Answer:
    first, count = _number(body, "from-sequence-number"), _number(body, "message-count", least=1)
    found: list[dict[str, bytes]] = []
    octets = 0
    for message in node.entity.peek(first, min(count, MAX_AT_ONCE), _session_id(body, required=False)):
        payload = message.outgoing()
        octets += len(payload)
        if found and octets > MAX_OCTETS:
            break  # a client that wants more asks again, from behind the last one
        found.append({"message": payload})
    return {"messages": found} if found else None


def _schedule(node: Management, body: dict[Any, Any]) -> Answer:
    return {"sequence-numbers": Array("long", [node.entity.schedule(each) for each in _to_schedule(node, body)])}


def _schedule_in(node: Management, body: dict[Any, Any], work: EntityWork) -> Answer:
    return {"sequence-numbers": Array("long", work.schedule(_to_schedule(node, body)))}


def _to_schedule(node: Management, body: dict[Any, Any]) -> list[EntityMessage]:
    """Return the messages that a request schedules."""
    payloads: list[Any]
    payloads = [each.get("message") if isinstance(each, dict) else None for each in _list(body, "messages")]
    if not all(isinstance(payload, bytes) for payload in payloads):
        raise Refused(ARGUMENT_ERROR, "each of 'messages' must be a map with the encoded message as 'message'")
    messages = node.admit(payloads)
    if any(message.scheduled_for is None for message in messages):
        raise Refused(ARGUMENT_ERROR, f"a message to schedule must have the annotation {SCHEDULED_FOR}")
    return messages


def _cancel(node: Management, body: dict[Any, Any]) -> Answer:
    node.entity.cancel(_numbers(body))
    return {}


def _remove_batch(node: Management, body: dict[Any, Any]) -> Answer:
    count = _number(body, "message-count", least=1, most=MAX_REMOVED)
    before, session_id = _moment(body, "enqueued-time-utc"), _session_id(body, required=False)
    return {"message-count": Int(node.entity.remove_batch(count, before, session_id))}


def _receive(node: Management, body: dict[Any, Any]) -> Answer:
    mode = body.get("receiver-settle-mode", 1)
    if not isinstance(mode, int) or mode not in (0, 1):
        raise Refused(ARGUMENT_OUT_OF_RANGE, f"receiver-settle-mode must be 0 or 1, not {mode!r:.60}")
    found = node.entity.receive(_numbers(body), locks=mode == 1, session_id=_session_id(body, required=False))
    return {
        "messages": [
            {"message": payload} if token is None else {"lock-token": token, "message": payload}
            for token, payload in found
        ]
    }


def _settle(node: Management, body: dict[Any, Any]) -> Answer:
    tokens, outcome = _tokens(body), _outcome(body)
    node.entity.hold_locks(tokens)
    for token in tokens:
        settle(node.entity, token, outcome)
    return {}


def _settle_in(_node: Management, body: dict[Any, Any], work: EntityWork) -> Answer:
    work.settle(_tokens(body), _outcome(body))
    return {}


def _outcome(body: dict[Any, Any]) -> Outcome:
    """Return the outcome that a request names in its own words."""
    status, changes = body.get("disposition-status"), body.get("properties-to-modify")
    properties = dict(changes) if isinstance(changes, dict) else {}
    reasons = {REASON: body.get("deadletter-reason"), DESCRIPTION: body.get("deadletter-description")}
    check_reason("deadletter-reason", reasons[REASON])
    check_reason("deadletter-description", reasons[DESCRIPTION])
    death = {name: text for name, text in reasons.items() if text is not None}
    outcomes: dict[object, Outcome] = {
        "completed": ACCEPTED,
        "abandoned": Modified(delivery_failed=True, message_annotations=properties),
        "defered": Modified(undeliverable_here=True, message_annotations=properties),
        "suspended": Rejected(Error(DEAD_LETTER, None, {**properties, **death})),
        "released": RELEASED,
    }
    if not isinstance(status, str) or status not in outcomes:
        known = ", ".join(map(str, outcomes))
        raise Refused(ARGUMENT_ERROR, f"disposition-status must be one of {known}, not {status!r:.60}")
    return checked_outcome(outcomes[status])


def _renew_session(node: Management, body: dict[Any, Any]) -> Answer:
    return {"expiration": timestamp(node.entity.renew_session(_session_id(body)))}


def _session_state(node: Management, body: dict[Any, Any]) -> Answer:
    return {"session-state": node.entity.session_state(_session_id(body))}


def _set_session_state(node: Management, body: dict[Any, Any]) -> Answer:
    state = body.get("session-state")
    if not isinstance(state, bytes | None):
        raise Refused(ARGUMENT_ERROR, f"'session-state' must be binary or null, not {type(state).__name__}")
    if state is not None and len(state) > MAX_STATE:
        raise Refused(ARGUMENT_OUT_OF_RANGE, f"a state must have at most {MAX_STATE} octets, not {len(state)}")
    node.entity.set_session_state(_session_id(body), state)
    return {}


def _list_sessions(node: Management, body: dict[Any, Any]) -> Answer:
    skip, top = _number(body, "skip", least=0), _number(body, "top", least=0)
    seconds = _moment(body, "last-updated-time")
    found = node.entity.sessions(None if seconds >= _NO_TIME else seconds)[skip : skip + top]
    return {"skip": Int(skip + len(found)), "sessions-ids": Array("string", found)} if found else None


def _add_rule(node: Management, body: dict[Any, Any]) -> Answer:
    description = body.get("rule-description")
    if not isinstance(description, dict):
        raise Refused(ARGUMENT_ERROR, f"'rule-description' must be a map, not {type(description).__name__}")
    try:
        _rules_of(node).add(read_rule(_text(body, "rule-name"), description))
    except ValueError as error:
        raise Refused(ARGUMENT_ERROR, str(error)) from None
    return {}


def _remove_rule(node: Management, body: dict[Any, Any]) -> Answer:
    _rules_of(node).remove(_text(body, "rule-name"))
    return {}


def _enumerate_rules(node: Management, body: dict[Any, Any]) -> Answer:
    skip, top = _number(body, "skip", least=0), _number(body, "top", least=0)
    found = _rules_of(node).described(skip, min(top, MAX_AT_ONCE))
    return {"rules": [{"rule-description": each} for each in found]} if found else None


def _rules_of(node: Management) -> Subscription:
    if node.subscription is None:
        raise Refused("amqp:not-implemented", f"{node.entity.name!r} is not a subscription, so it has no rules")
    return node.subscription


_OPERATIONS: Final[dict[str, tuple[Action, Callable[[Management, dict[Any, Any]], Answer]]]] = {
    "renew-lock": ("read", _renew_lock),
    "peek-message": ("read", _peek),
    "schedule-message": ("write", _schedule),
    "cancel-scheduled-message": ("write", _cancel),
    "batch-delete-messages": ("read", _remove_batch),
    "receive-by-sequence-number": ("read", _receive),
    "update-disposition": ("read", _settle),
    "renew-session-lock": ("read", _renew_session),
    "get-session-state": ("read", _session_state),
    "set-session-state": ("read", _set_session_state),
    "get-message-sessions": ("read", _list_sessions),
    "add-rule": ("configure", _add_rule),
    "remove-rule": ("configure", _remove_rule),
    "enumerate-rules": ("read", _enumerate_rules),
}


_IN_TRANSACTIONS: Final[dict[str, Callable[[Management, dict[Any, Any], EntityWork], Answer]]] = {
    "schedule-message": _schedule_in,
    "update-disposition": _settle_in,
}
_NOTHING_TO_UNDO: Final = frozenset(
    ("renew-lock", "renew-session-lock", "peek-message", "get-session-state", "get-message-sessions", "enumerate-rules")
)
"""Requests that are carried out at once in a transaction, too: the SDK for .NET names its transaction in each."""


def _text(body: dict[Any, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise Refused(ARGUMENT_ERROR, f"{name!r} must be a string, not {value!r:.60}")
    return value


def _number(body: dict[Any, Any], name: str, *, least: int | None = None, most: int | None = None) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(ARGUMENT_ERROR, f"{name!r} must be a number, not {value!r:.60}")
    if (least is not None and value < least) or (most is not None and value > most):
        rule = f"{least} or more" if most is None else f"{least} to {most}"
        raise Refused(ARGUMENT_OUT_OF_RANGE, f"{name!r} must be {rule}, not {value}")
    return int(value)


def _moment(body: dict[Any, Any], name: str) -> float:
    """Return a time in seconds since 1970."""
    value = body.get(name)
    if isinstance(value, datetime):
        return value.timestamp()
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(ARGUMENT_ERROR, f"{name!r} must be a timestamp, not {value!r:.60}")
    return value / 1000


@overload
def _session_id(body: dict[Any, Any]) -> str: ...


@overload
def _session_id(body: dict[Any, Any], *, required: Literal[False]) -> str | None: ...


def _session_id(body: dict[Any, Any], *, required: bool = True) -> str | None:
    value = body.get("session-id")
    if not isinstance(value, str) and (required or value is not None):
        raise Refused(ARGUMENT_ERROR, f"'session-id' must be a string, not {value!r:.60}")
    return value


def _list(body: dict[Any, Any], name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list):
        raise Refused(ARGUMENT_ERROR, f"{name!r} must be an array, not {value!r:.60}")
    if not 1 <= len(value) <= MAX_AT_ONCE:
        raise Refused(ARGUMENT_OUT_OF_RANGE, f"{name!r} must have 1 to {MAX_AT_ONCE} elements, not {len(value)}")
    return list(value)


def _numbers(body: dict[Any, Any]) -> list[int]:
    value = _list(body, "sequence-numbers")
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in value):
        raise Refused(ARGUMENT_ERROR, "'sequence-numbers' must be numbers")
    return value


def _tokens(body: dict[Any, Any]) -> list[UUID]:
    value = _list(body, "lock-tokens")
    if not all(isinstance(each, UUID) for each in value):
        raise Refused(ARGUMENT_ERROR, "'lock-tokens' must be UUIDs")
    return list(dict.fromkeys(value))
