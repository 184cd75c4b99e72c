"""A message at rest in an entity of Service Bus: its sections, the annotations of the entity, and its encoding."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID, uuid4

from ...errors import DecodeError, EncodeError
from ...messaging import Data, Message, bare_message, read_annotations, read_header
from ...messaging.sections import DELIVERY_ANNOTATIONS, HEADER, PROPERTIES, section_at
from ...types import Described, Int, Symbol, Timestamp, UByte, UInt, ULong, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._users.accounts import Account

State = Literal["active", "deferred", "scheduled"]
_STATES: Final[dict[State, int]] = {"active": 0, "deferred": 1, "scheduled": 2}

BATCH_FORMAT: Final = 0x80013700
"""The message-format of a batch: each data section is a whole message."""
MAX_IN_BATCH: Final = 4500
"""The most messages of a batch, as in Service Bus."""
MAX_ADDED_PROPERTIES: Final = 65_536
"""The most octets of application properties that others than the sender add."""
ENQUEUED_SEQUENCE: Final = Symbol("x-opt-enqueue-sequence-number")
SCHEDULED_FOR: Final = Symbol("x-opt-scheduled-enqueue-time")
_OURS: Final = frozenset(
    Symbol(f"x-opt-{name}")
    for name in ("sequence-number", "enqueued-time", "locked-until", "message-state", "lock-token", "deadletter-source")
)
"""Annotations that only the service gives; those of a sender are ignored."""
_STORED: Final = (
    *("bare", "durable", "priority", "ttl", "annotations", "message_id", "kept_beside", "scheduled_for"),
    *("session_id", "attempts", "sequence", "origin_sequence", "state", "enqueued", "expires", "dead_letter_source"),
    *("hops", "size", "sent", "delivery_annotations"),
)
_MADE: Final = 8
"""How many of `_STORED`, from the first, are arguments of `EntityMessage`; the others are set afterwards."""
_FAR: Final = 253_402_300_799_000  # the last millisecond of the year 9999
_MAX_TTL: Final = 0xFFFF_FFFF
"""The most milliseconds in a header, about 50 days."""
_HEADER: Final = ULong(0x70)
_ANNOTATIONS: Final = ULong(0x72)
_PROPERTIES: Final = ULong(PROPERTIES)
_DELIVERY_ANNOTATIONS: Final = ULong(DELIVERY_ANNOTATIONS)
_LOCK_TOKEN: Final = Symbol("x-opt-lock-token")
_ONLY_A_TOKEN: Final = encode(Described(_DELIVERY_ANNOTATIONS, {_LOCK_TOKEN: UUID(int=0)}))[:-16]
"""The encoded delivery annotations with nothing but a lock token, up to its octets."""


@dataclass(eq=False, slots=True)
class EntityMessage:
    """One message in one entity.

    Attributes:
        bare: the encoded message without header and annotations.
        durable, priority, ttl: those of its header; `ttl` in milliseconds.
        annotations: message annotations as they came, without those that the service gives.
        delivery_annotations: those of the sender, without a lock token.
        message_id: identifies it for duplicate detection; made by the service if its sender gave none.
        kept_beside: octets of its header and annotations as they came.
        scheduled_for: when it becomes available; None: at once. All times are seconds since 1970.
        attempts: how often it was received and not completed.
        sequence: its unique number in the entity; 0: it has none yet.
        origin_sequence: its number in the entity where it was sent first.
        enqueued: when it came.
        expires: when it expires; None: never.
        account: that of the user who sent it; None: there is no user.
        dead_letter_source: the entity where it became a dead letter, if it was forwarded from there.
        session_id: its session (group-id), or None.
        hops: how often it was forwarded.
        size: octets that it takes; `sent`: octets that it took at first.
    """

    bare: bytes
    durable: bool
    priority: int
    ttl: int | None
    annotations: dict[Any, Any]
    message_id: object
    kept_beside: int
    scheduled_for: float | None
    session_id: str | None = None
    attempts: int = 0
    sequence: int = 0
    origin_sequence: int = 0
    state: State = "active"
    enqueued: float = 0.0
    expires: float | None = None
    account: Account | None = None
    dead_letter_source: str | None = None
    hops: int = 0
    delivery_annotations: dict[Any, Any] = field(default_factory=dict)
    size: int = field(init=False)
    sent: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.sent = self.kept_beside + len(self.bare)

    @classmethod
    def read(cls, payload: bytes) -> EntityMessage:
        """Read a message from a sender.

        Raises:
            DecodeError: it is not a message.
        """
        payload, message = checked(payload)
        header = read_header(payload)
        annotations = {key: value for key, value in read_annotations(payload).items() if key not in _OURS}
        due = annotations.get(SCHEDULED_FOR)
        bare = bare_message(payload)
        beside, message_id = len(payload) - len(bare), message.message_id
        if message_id is None:
            message_id = uuid4().hex
            bare = _identified(bare, message_id)
        return cls(
            bare,
            header.durable,
            header.priority,
            header.ttl,
            annotations,
            message_id,
            beside,
            None if due is None else _seconds(due),
            message.group_id,
            delivery_annotations={
                name: value for name, value in message.delivery_annotations.items() if name != _LOCK_TOKEN
            },
        )

    def outgoing(self, locked_until: float | None = None, token: UUID | None = None) -> bytes:
        """Return the message to send, with a header and the annotations of the entity.

        Args:
            token: the token of its lock.
        """
        header = [self.durable, UByte(self.priority), self.ttl if self.ttl is None else UInt(self.ttl), False]
        annotations = self.annotations | {
            Symbol("x-opt-sequence-number"): self.sequence,
            ENQUEUED_SEQUENCE: self.origin_sequence,
            Symbol("x-opt-enqueued-time"): timestamp(self.enqueued),
            Symbol("x-opt-message-state"): Int(_STATES[self.state]),
        }
        if locked_until is not None:
            annotations[Symbol("x-opt-locked-until")] = timestamp(locked_until)
        if self.dead_letter_source is not None:
            annotations[Symbol("x-opt-deadletter-source")] = self.dead_letter_source
        lock = b"" if token is None else _ONLY_A_TOKEN + token.bytes
        if self.delivery_annotations:
            first = self.delivery_annotations | ({} if token is None else {_LOCK_TOKEN: token})
            lock = encode(Described(_DELIVERY_ANNOTATIONS, first))
        header_section = encode(Described(_HEADER, [*header, UInt(self.attempts)]))
        return b"".join((header_section, lock, encode(Described(_ANNOTATIONS, annotations)), self.bare))

    def stored(self, lock: tuple[UUID, float] | None) -> bytes:
        """Return the message as a store keeps it.

        Args:
            lock: the token and the end of its lock; None: it is not locked.
        """
        values = [getattr(self, name) for name in _STORED]
        return encode([*values, *(lock or (None, None))])

    @classmethod
    def restored(cls, content: bytes) -> tuple[EntityMessage, tuple[UUID, float] | None]:
        """Return a stored message and its lock; None: it was not locked.

        Raises:
            DecodeError, TypeError, ValueError: `content` is something else.
        """
        found = decode(content)
        # Before delivery annotations were kept, there was one value less.
        if not isinstance(found, list) or len(found) not in (len(_STORED) + 1, len(_STORED) + 2):
            raise ValueError("this is not a message of an entity")
        fields, (token, until) = dict(zip(_STORED, found[:-2], strict=False)), found[-2:]
        made = {name: fields.pop(name) for name in _STORED[:_MADE]}
        message = cls(**made)
        for name, value in fields.items():
            setattr(message, name, value)
        if message.state not in _STATES or not isinstance(message.bare, bytes):
            raise ValueError(f"{message.state!r:.60} is not a state of a message")
        Message.decode(message.bare).check()
        return message, None if token is None else (token, float(until))

    def live_at_most(self, seconds: float) -> None:
        """Shorten the ttl to what the entity allows; the header shows the result."""
        milliseconds = min(round(seconds * 1000), _MAX_TTL)
        self.ttl = milliseconds if self.ttl is None else min(self.ttl, milliseconds)

    def say(self, properties: dict[str, Any]) -> None:
        """Add application properties, replacing those of the same name, unless they are too large or not encodable."""

        try:
            if len(Message(application_properties=properties).encode()) > MAX_ADDED_PROPERTIES:
                return
        except EncodeError:
            return

        def add(message: Message) -> None:
            message.application_properties = message.application_properties | properties

        self.rewrite(add)

    def rewrite(self, change: Callable[[Message], None]) -> None:
        """Change the bare message; keep it as it was if the result cannot be encoded or is too large."""
        try:
            message = Message.decode(self.bare)
            change(message)
            bare = message.encode()
        except (DecodeError, EncodeError):
            return
        size = self.kept_beside + len(bare)
        if size <= max(self.size, self.sent + MAX_ADDED_PROPERTIES):
            self.bare, self.size = bare, size
            self.session_id, self.message_id = message.group_id, message.message_id

    def twin(self) -> EntityMessage:
        """Return a copy for another entity, where it has not been yet."""
        return replace(
            self,
            scheduled_for=None,
            attempts=0,
            sequence=0,
            state="active",
            enqueued=0.0,
            expires=None,
        )

    def dead(self, reason: str | None, description: str | None) -> EntityMessage:
        """Return a copy for the dead letters; a reason or description of None is left out."""
        twin = replace(self.twin(), ttl=None, attempts=self.attempts)
        properties = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
        twin.say({name: value for name, value in properties.items() if value is not None})
        return twin


def _identified(bare: bytes, message_id: str) -> bytes:
    """Return a message without message-id with this one."""
    code, _, end = section_at(bare, 0)
    fields, rest = (decode(bare[:end]).value, bare[end:]) if code == PROPERTIES else ([], bare)
    return encode(Described(_PROPERTIES, [message_id, *fields[1:]])) + rest


def checked(payload: bytes) -> tuple[bytes, Message]:
    """Return a fully decoded message, and its octets in the order of §3.2.

    azure-servicebus and azure-eventhub put delivery annotations behind the body.

    Raises:
        DecodeError: it is not a message.
    """
    message = Message.decode(payload)
    try:
        message.check()
    except DecodeError:
        payload = _with_annotations_first(payload)
        message = Message.decode(payload)
        message.check()
    return payload, message


def _with_annotations_first(payload: bytes) -> bytes:
    """Return a message with the delivery annotations at its end, if there are any, moved to their place."""
    first, _, header_end = section_at(payload, 0)
    at = last_at = code = 0
    while at < len(payload):
        last_at = at
        code, _, at = section_at(payload, at)
    if code != DELIVERY_ANNOTATIONS:
        return payload
    front = header_end if first == HEADER else 0
    return payload[:front] + payload[last_at:] + payload[front:last_at]


def messages_in(payload: bytes, message_format: int) -> list[EntityMessage]:
    """Return the message in a payload, or the messages of a batch.

    Raises:
        DecodeError: it is neither.
    """
    if message_format != BATCH_FORMAT:
        return [EntityMessage.read(payload)]
    return [EntityMessage.read(each) for each in parts_of_batch(payload, MAX_IN_BATCH)]


def parts_of_batch(payload: bytes, most: int | None = None) -> Sequence[bytes]:
    """Return the encoded messages of a batch.

    Raises:
        DecodeError: it is not a batch, or has more than `most` messages.
    """
    body = Message.decode(payload).body
    if not isinstance(body, bytes | Data):
        raise DecodeError("a batch must have its messages in data sections")
    parts = body.parts if isinstance(body, Data) else (body,)
    if most is not None and len(parts) > most:
        raise DecodeError(f"a batch must have at most {most} messages, not {len(parts)}")
    return parts


def timestamp(seconds: float) -> Timestamp:
    """Return a time as an AMQP timestamp."""
    return Timestamp(min(round(seconds * 1000), _FAR))


def _seconds(value: Any) -> float:
    """Return the seconds since 1970 of a decoded timestamp.

    Raises:
        DecodeError: `value` is not a timestamp.
    """
    if isinstance(value, int):
        return value / 1000
    try:
        return float(value.timestamp())
    except AttributeError:
        raise DecodeError(f"{SCHEDULED_FOR} must be a timestamp, not {value!r:.60}") from None
