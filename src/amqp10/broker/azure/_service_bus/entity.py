"""An entity that holds messages: locks, deferred and scheduled messages, dead letters, all by one clock.

It knows no link and no protocol; receivers and the management node call it with sequence numbers and lock tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID, uuid4

from ....errors import DecodeError
from ....messaging import Error
from ....types import decode, encode
from ..._deadlines import Deadlines
from ..._errors import Refused
from ..._log import attempt, dead_letter_observers, notice
from ..._queues.node import MESSAGE_OVERHEAD, Node
from .._busy import AzureNode
from .._conditions import (
    ARGUMENT_ERROR,
    ENTITY_DISABLED,
    MESSAGE_LOCK_LOST,
    MESSAGE_NOT_FOUND,
    NO_MATCHING_SUBSCRIPTION,
    NOT_ALLOWED,
    SESSION_CANNOT_BE_LOCKED,
    SESSION_LOCK_LOST,
    TIMEOUT,
)
from .._messages import EntityMessage, State, messages_in
from .groups import Group, Receiver, SessionReceiver
from .locks import Lock, Locks
from .seen_ids import SEEN, SeenIds
from .sessions import SESSION, Sessions
from .terms import MAX_ID_LENGTH, EntityTerms, Status

if TYPE_CHECKING:
    from ..._queues.journal import Records
    from ..._queues.message import QueuedMessage
    from ..._queues.node import Limits

UNLIMITED: Final = 1 << 60
MAX_REASON_LENGTH: Final = 4096
"""The most characters of a dead letter's reason, and of its description."""
_COUNT, _MESSAGE = "#", "m"
"""The first letters of keys of records: the number of messages so far, a message; see also `SEEN` and `SESSION`."""

TimerKind = Literal["lock", "scheduled", "death", "session", "patience"]
Timer = tuple[TimerKind, int | str]
"""What is due, of a message or a receiver by its number, or of a session by its id."""
PassOn = Callable[["Entity", EntityMessage], None]
"""Takes a message of an entity that passes all messages on."""


def _key_of(message: EntityMessage) -> str:
    """Return the key of a message's record, which sorts by sequence number."""
    return f"{_MESSAGE}{message.sequence:020}"


class Entity(AzureNode):
    """A queue, a subscription, a topic, or one of their dead-letter queues.

    Args:
        clock: the time in seconds since 1970.
        expire_after: asks for a call of `expire` in a number of seconds.
        dead_letters: the entity for its dead letters; None: it holds dead letters itself, or is a topic.

    Attributes:
        sent: when each connection last sent something, by the numbers of those that are entered here.
        status: what it is open for.
        accessed: when it or its management node was last used, in seconds since 1970.
        pass_on: takes each message as soon as it is available; None: the entity keeps its messages.
        wanted: returns whether anybody would get a message; otherwise the message is refused. None: all are taken.
        dead_letters_of: the entity whose dead letters it holds, or None.
        undelivered: the entity for messages that could not be passed on; None: the dead letters.
    """

    keeps_annotations = True
    duplicates: int
    enqueued: int

    def __init__(
        self,
        name: str,
        terms: EntityTerms,
        *,
        clock: Callable[[], float],
        limits: Limits,
        touch: Callable[[Node], None],
        expire_after: Callable[[float], None],
        dead_letters: Entity | None = None,
    ) -> None:
        super().__init__(name, limits=limits, touch=touch)
        self.terms = terms
        self.dead_letters = dead_letters
        self.dead_letters_of: str | None = None
        if dead_letters is not None:
            dead_letters.dead_letters_of = name
        self.status: Status = "Active"
        self.accessed: float = clock()
        self.sent: dict[int, float] = {}
        self.pass_on: PassOn | None = None
        self.wanted: Callable[[EntityMessage], bool] | None = None
        self._targets: list[Entity] = []
        self._sources: list[Entity] = []
        self.undelivered: Entity | None = None
        self.bytes: int = 0
        self._clock = clock
        self._expire_after = expire_after
        self._messages: dict[int, EntityMessage] = {}
        self._all = Group()  # unless each belongs to a session
        self._sessions = Sessions()
        self._busy: dict[Group, None] = {}  # those that may have a message for a receiver
        self._locks = Locks()
        self._timers: Deadlines[Timer] = Deadlines(sorts=True)
        self._seen = SeenIds()
        self._draining: dict[Receiver, None] = {}
        self._receivers: dict[Receiver, Group] = {}
        self._records: Records | None = None

    @property
    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._clock()

    # In the store

    def restore_record(self, key: str, content: bytes) -> None:
        """Restore a record of a store, before anything else happens; see `keep`.

        Raises:
            Exception: the record is invalid.
        """
        kind, name = key[:1], key[1:]
        if kind == _COUNT:
            self.enqueued = max(self.enqueued, int(decode(content)))
        elif kind == _MESSAGE:
            self._restore_message(int(name), content)
        elif kind == SEEN:
            self._seen.restore(content)
        elif kind == SESSION:
            self.bytes += self._sessions.restore(name, content)
        else:
            raise ValueError(f"the key of a record of an entity must not be {key!r:.60}")

    def _restore_message(self, sequence: int, content: bytes) -> None:
        message, lock = EntityMessage.restored(content)
        if message.sequence != sequence:
            raise ValueError(f"this is the message {message.sequence}, not {sequence}")
        self.enqueued = max(self.enqueued, sequence)
        self._messages[sequence] = message
        group = self._group_of(message)
        group.count += 1
        self.bytes += message.size
        if message.state == "scheduled":
            self._at(message.scheduled_for or 0.0, ("scheduled", sequence))
        if message.expires is not None:
            self._at(message.expires, ("death", sequence))
        if lock is not None and group.id is None:  # a session has no receiver after a restart
            token, until = lock
            self._locks.add(Lock(token, message, group, until))
            self._at(until, ("lock", sequence))
        elif message.state == "active":
            self._make_ready(message)

    def keep(self, records: Records) -> None:
        """Keep its contents from now on: messages with their locks, ids that were seen, states of sessions."""
        self._seen.keep(records)
        self._sessions.keep(records)
        self._records = records

    def pass_on_restored(self) -> None:
        """Pass on restored messages, if passing on began while the broker was down."""
        if self.pass_on is not None:
            self._pass_on_active()

    def _note(self, message: EntityMessage, *, lazily: bool = False) -> None:
        """Record a message; the store reads it when it writes it."""
        if self._records is not None:
            self._records.put(_key_of(message), partial(self._stored, message), lazily=lazily)

    def _stored(self, message: EntityMessage) -> bytes:
        lock = self._locks.of_message(message.sequence)
        return message.stored(None if lock is None else (lock.token, lock.own_until))

    # For the virtual host

    @property
    def free(self) -> int:
        return min(self._room, *(target._room for target in self._targets)) if self._targets else self._room

    @property
    def _room(self) -> int:
        limits = self.limits
        free = UNLIMITED
        if limits.messages is not None:
            free = limits.messages - len(self._messages) - self.reserved
        if limits.bytes is not None:
            left = limits.bytes - self.bytes - self.reserved_bytes
            typical = max(1, self.bytes // len(self._messages)) if self._messages else 4096
            free = min(free, max(1, left // typical) if left > 0 else 0)
        return free

    @property
    def memory(self) -> int:
        return super().memory + self.bytes + len(self._messages) * MESSAGE_OVERHEAD

    @property
    def depth(self) -> int:
        """The number of messages in any state, including locked ones."""
        return len(self._messages)

    def copies_stored(self, durable: bool) -> int:
        return max(1, len(self._targets))

    def reserve(self, entry: QueuedMessage, *, restored: bool = False) -> None:
        self._read(entry)
        super().reserve(entry, restored=restored)

    def put(self, entry: QueuedMessage) -> None:
        if entry.origin in self.sent:
            self.sent[entry.origin] = self._clock()
        self.accessed = self._clock()
        self.check_open("send")
        self.check_busy()
        messages = self._read(entry)
        most = self.terms.most_octets
        if most is not None and self.bytes + sum(message.size for message in messages) > most:
            reason = f"{self.name!r} is full: its messages have {self.bytes} octets, and {most} is the limit"
            raise Refused("amqp:resource-limit-exceeded", reason)
        for message in messages:
            self.add(message)

    def insert(self, entry: QueuedMessage) -> None:
        for message in self._read(entry):
            self.add(message)

    def _read(self, entry: QueuedMessage) -> list[EntityMessage]:
        """Return the messages that a sender sent as one.

        Raises:
            Refused: it is neither a message nor a batch of messages, or the entity does not accept them.
        """
        if not self.terms.sendable:
            raise Refused(NOT_ALLOWED, f"{self.name!r} accepts no messages from senders")
        try:
            messages = messages_in(entry.payload, entry.message_format)
        except DecodeError as error:
            raise Refused("amqp:decode-error", str(error)) from None
        for message in messages:
            self.check(message)
            message.account = entry.account
        return messages

    def check_open(self, use: Literal["send", "receive"]) -> None:
        """Check that the entity is open for a use.

        Raises:
            Refused: it is disabled.
        """
        if self.status == "Disabled" or self.status.casefold() == f"{use}disabled":
            raise Refused(
                ENTITY_DISABLED, f"{self.name!r} is disabled ({self.status}): enable it through the administration"
            )

    def check(self, message: EntityMessage) -> None:
        """Check that a message may be here.

        Raises:
            Refused: it has no session although it must, or an id is too long, or nobody would get it.
        """
        ids = {"group-id (session id)": message.session_id, "message-id": message.message_id}
        for what, given in ids.items():
            if isinstance(given, str) and len(given) > MAX_ID_LENGTH:
                reason = f"a {what} must have at most {MAX_ID_LENGTH} characters, not {len(given)}: {given!r:.60}..."
                raise Refused(ARGUMENT_ERROR, reason)
        if self.terms.requires_session and message.session_id is None:
            reason = f"{self.name!r} requires sessions, and the message has no group-id (session id)"
            raise Refused(NOT_ALLOWED, reason)
        if self.wanted is not None and not self.wanted(message):
            reason = f"no subscription of {self.name!r} has a rule that lets the message pass"
            raise Refused(NO_MATCHING_SUBSCRIPTION, reason)

    def run(self) -> None:
        self._touched = False
        if self.deleted:
            return
        self._pass_time()
        self._give_sessions()
        while self._busy:
            self._hand_out(self._busy.popitem()[0])
        for receiver in list(self._draining):
            if receiver.waiting:
                del self._draining[receiver]
                attempt(f"a receiver of {self.name!r}", receiver.nothing_left)
        self._regulate()
        for source in self._sources:
            if source.rationing:
                source.touch()  # its senders may wait for room here

    def delete(self, error: Error) -> None:
        self.deleted = True
        self._end_links(self._receivers, error)
        for asker in self._sessions.askers.values():
            attempt(f"a receiver of {self.name!r}", asker.refused, error)
        self._receivers.clear()
        self._sessions.clear()
        self._busy.clear()
        self._all = Group()
        self._draining.clear()
        self._messages.clear()
        self._locks.clear()
        self._timers.clear()
        self.keep_messages()
        for source in list(self._sources):
            source.keep_messages()
        self.bytes = 0
        if self._records is not None:
            self._records.drop()
            self._records = None

    @property
    def in_use(self) -> bool:
        """Whether somebody receives from it, or has scheduled a message."""
        return bool(self._receivers or self._sessions.askers) or self.count("scheduled") > 0

    def count(self, state: State) -> int:
        """Return the number of messages in that state."""
        return sum(message.state == state for message in self._messages.values())

    # Coming in

    def add(self, message: EntityMessage) -> int:
        """Take a message, and return its sequence number; a duplicate is dropped, and 0 returned."""
        if self._seen.seen(message.message_id, self._clock(), self.terms.duplicate_window):
            self.duplicates += 1
            return 0
        return self._add(message)

    def schedule(self, message: EntityMessage) -> int:
        """Take a message, and return its sequence number; a duplicate is dropped, and gets a number like any other.

        That number is used for no other message: whoever cancels it must not cancel another one.
        """
        return self.add(message) or self._number(message)

    def _add(self, message: EntityMessage) -> int:
        now = self._clock()
        scheduled = message.scheduled_for is not None and message.scheduled_for > now
        if not (scheduled and message.sequence):
            self._number(message)  # a message that is available at once goes behind all others
        message.enqueued = now
        self._messages[message.sequence] = message
        self._group_of(message).count += 1
        self.bytes += message.size
        self._note(message)
        if message.account is not None:
            self.charge(message.account, message.size + MESSAGE_OVERHEAD)
        if scheduled:
            assert message.scheduled_for is not None
            message.state = "scheduled"
            self._at(message.scheduled_for, ("scheduled", message.sequence))
        else:
            self._begin(message, now)
        self.touch()
        return message.sequence

    def reserve_number(self, message: EntityMessage) -> int:
        """Reserve a number and room for a scheduled message of an open transaction; return the number.

        `unreserve_room` frees the room. The number is not used again, whatever happens to the transaction.
        """
        self.reserve_room(message.size, message.account)
        return self._number(message)

    def _number(self, message: EntityMessage) -> int:
        self.enqueued += 1
        message.sequence = self.enqueued
        message.origin_sequence = message.origin_sequence or self.enqueued
        if self._records is not None:
            self._records.put(_COUNT, lambda: encode(self.enqueued))
        return message.sequence

    def _begin(self, message: EntityMessage, now: float) -> None:
        """Make a message available to receivers, or pass it on."""
        if self.terms.ttl is not None:
            message.live_at_most(self.terms.ttl)
        if self.pass_on is not None:
            self._remove(message)
            self.pass_on(self, message)
            return
        if message.ttl is not None:
            message.expires = now + message.ttl / 1000
            self._at(message.expires, ("death", message.sequence))
        self._make_ready(message)

    def _make_ready(self, message: EntityMessage) -> None:
        group = self._group_of(message)
        heappush(group.ready, message.sequence)
        if group.id is not None and group.holder is None:
            self._sessions.offer(group, message.sequence)
        self._busy[group] = None
        self.touch()

    def _group_of(self, message: EntityMessage) -> Group:
        return self._sessions[message.session_id or ""] if self.terms.requires_session else self._all

    def cancel(self, sequences: Iterable[int]) -> None:
        """Cancel scheduled messages.

        Raises:
            Refused: one of them is not scheduled; then none is canceled.
        """
        for message in self._find(sequences, "scheduled"):
            self._remove(message)
        self.touch()

    def remove_batch(self, most: int, before: float, session_id: str | None) -> int:
        """Remove active, unlocked messages that came before a time, the oldest first.

        Args:
            session_id: only messages of this session; None: all messages.

        Returns:
            How many were removed.
        """
        self._pass_time()
        found = (
            message
            for message in self._messages.values()
            if message.state == "active"
            and message.enqueued < before
            and not self._locks.is_locked(message.sequence)
            and session_id in (None, message.session_id)
        )
        gone = list(islice(found, most))
        for message in gone:
            self._remove(message)
        self.touch()
        return len(gone)

    # Going out

    def add_receiver(self, receiver: Receiver) -> None:
        """Add a receiver.

        Raises:
            Refused: the entity passes its messages on, or requires sessions.
        """
        if self.terms.requires_session:
            raise Refused(NOT_ALLOWED, f"{self.name!r} requires sessions: accept a session, or the next free one")
        if self.pass_on is not None:
            raise Refused(NOT_ALLOWED, f"{self.name!r} forwards its messages: receive from the entity that gets them")
        self._receivers[receiver] = self._all

    def remove_receiver(self, receiver: Receiver) -> None:
        """Remove a receiver. Its locks last until they expire, but a session becomes free with its messages."""
        group = self._receivers.pop(receiver, None)
        self._draining.pop(receiver, None)
        for number in [number for number, each in self._sessions.askers.items() if each is receiver]:
            self._stop_asking(number)
        if group is None:
            return
        self.accessed = self._clock()  # it was in use until now
        if receiver.waiting:
            receiver.waiting = False
            group.line.remove(receiver)
        if group.holder is receiver:
            self._free_session(group, self._come_back)

    def in_line(self, receiver: Receiver, *, drain: bool = False) -> None:
        """Put a ready receiver in line; `drain`: tell it when there are no more messages."""
        group = self._receivers.get(receiver)
        if group is None:
            return  # it lost its session
        if not receiver.waiting:
            receiver.waiting = True
            group.line.append(receiver)
        if drain:
            self._draining[receiver] = None
        self._busy[group] = None
        self.touch()

    def _hand_out(self, group: Group) -> None:
        line = group.line
        fed: dict[Receiver, None] = {}
        while line:
            receiver = line[0]
            if not receiver.ready():
                line.popleft().waiting = False
                continue
            message = self._next(group)
            if message is None:
                break
            if not self._give(message, receiver, group):
                heappush(group.ready, message.sequence)
                self.remove_receiver(receiver)
                continue
            fed[receiver] = None
            if len(line) > 1:
                line.rotate(-1)
        for receiver in fed:
            attempt(f"a receiver of {self.name!r}", receiver.fed)

    def _give(self, message: EntityMessage, receiver: Receiver, group: Group) -> bool:
        """Give a message to a receiver, locked or for good; return whether it was taken."""
        if not receiver.locks:
            if not receiver.deliver(None, message.outgoing()):
                return False
            self._remove(message)
            return True
        token, until = uuid4(), self._lock_end(group)
        if not receiver.deliver(token, message.outgoing(until, token)):
            return False
        self._lock(message, group, token, until)
        return True

    def _next(self, group: Group) -> EntityMessage | None:
        """Take the oldest available message."""
        while group.ready:
            sequence = heappop(group.ready)
            message = self._messages.get(sequence)
            if message is not None and message.state == "active" and not self._locks.is_locked(sequence):
                return message
        return None

    def peek(self, first: int, count: int, session_id: str | None = None) -> list[EntityMessage]:
        """Return messages from a sequence number on, in any state, of one session or all, without changing them."""
        self._pass_time()
        found = (self._messages[sequence] for sequence in sorted(self._messages) if sequence >= first)
        return list(islice((each for each in found if session_id in (None, each.session_id)), max(0, count)))

    def receive(
        self, sequences: Iterable[int], *, locks: bool, session_id: str | None = None
    ) -> list[tuple[UUID | None, bytes]]:
        """Receive deferred messages by their numbers; return each with the token of its lock, if it is locked.

        Raises:
            Refused: a message is not deferred, or is locked or of another session, or nobody holds the session; then
                none is received.
        """
        self._pass_time()
        sequences = list(sequences)
        self._expire_deferred(sequences)
        found = self._find(sequences, "deferred")
        if self.terms.requires_session:
            group = self._held_session(session_id)
            if strangers := [each.sequence for each in found if each.session_id != session_id]:
                raise Refused(
                    MESSAGE_NOT_FOUND, f"the message {strangers[0]} belongs to another session than {session_id!r}"
                )
        else:
            group = self._all
        taken: list[tuple[UUID | None, bytes]] = []
        for message in found:
            if locks:
                token, until = uuid4(), self._lock_end(group)
                taken.append((token, message.outgoing(until, token)))
                self._lock(message, group, token, until)
            else:
                taken.append((None, message.outgoing()))
                self._remove(message)
        self.touch()
        return taken

    def _find(self, sequences: Iterable[int], state: str) -> list[EntityMessage]:
        found = {}
        for sequence in sequences:
            message = self._messages.get(sequence)
            if message is None or message.state != state or self._locks.is_locked(sequence):
                raise Refused(MESSAGE_NOT_FOUND, f"no message with the sequence number {sequence} is {state}")
            found[sequence] = message
        return list(found.values())

    def _expire_deferred(self, sequences: Iterable[int]) -> None:
        """Expire deferred messages that somebody asks for: only then do they expire."""
        now = self._clock()
        for message in [self._messages[each] for each in sequences if each in self._messages]:
            over = message.expires is not None and message.expires <= now
            if over and message.state == "deferred" and not self._locks.is_locked(message.sequence):
                self._expire(message)
                self.touch()

    # Locks

    def _lock_end(self, group: Group) -> float:
        """Return when a lock that begins now ends."""
        return self._clock() + self.terms.lock_duration if group.id is None else group.until

    def _lock(self, message: EntityMessage, group: Group, token: UUID, until: float) -> None:
        self._locks.add(Lock(token, message, group, until))
        if group.id is None:
            self._at(until, ("lock", message.sequence))
            self._note(message, lazily=True)

    def renew(self, tokens: Iterable[UUID]) -> list[float]:
        """Renew locks; return when they end.

        Raises:
            Refused: a lock is lost, and then none is renewed; or the lock is that of a session.
        """
        if self.terms.requires_session:
            raise Refused(NOT_ALLOWED, f"{self.name!r} requires sessions: renew the lock of the session")
        locks = {token: self._held(token) for token in tokens}
        until = self._clock() + self.terms.lock_duration
        for lock in locks.values():
            lock.own_until = until
            self._at(until, ("lock", lock.message.sequence))
            self._note(lock.message)
        return [until] * len(locks)

    def hold_locks(self, tokens: Iterable[UUID]) -> None:
        """Let the locks of messages hold until all are settled: time passes meanwhile, and it is all or nothing.

        Raises:
            Refused: a lock is lost, or a transaction has its message; then all locks are as before.
        """
        for lock in [self._settleable(token) for token in tokens]:
            lock.committing = True

    def claim(self, tokens: Iterable[UUID], transaction: object) -> None:
        """Let only a transaction settle locked messages, until `unclaim` or the end of their locks.

        Raises:
            Refused: a lock is lost, or another transaction has its message; then none is claimed.
        """
        for lock in [self._settleable(token, transaction) for token in tokens]:
            lock.transaction = transaction

    def commit_begins(self, token: UUID, transaction: object) -> None:
        """Let the lock of a message hold until the commit of a transaction has settled it, or `unclaim`.

        Time passes during a commit. It must not end a lock between two parts of the commit, which is all or nothing.

        Raises:
            Refused: the lock is lost, or another transaction has its message.
        """
        lock = self._settleable(token, transaction)
        lock.transaction, lock.committing = transaction, True

    def unclaim(self, token: UUID) -> None:
        """Let anybody with the lock settle a message again, because the transaction is over."""
        lock = self._locks.by_token(token)
        if lock is not None:
            lock.transaction, lock.committing = None, False

    def _settleable(self, token: UUID, transaction: object = None) -> Lock:
        """Return the lock of a message that may be settled in a transaction, or with None outside transactions.

        Raises:
            Refused: the lock is lost, or another transaction has the message.
        """
        lock = self._held(token)
        if lock.transaction not in (None, transaction) and not lock.committing:
            raise Refused(NOT_ALLOWED, "the message has an outcome in a transaction that is open: end that first")
        return lock

    def _held(self, token: UUID) -> Lock:
        """Return the lock with a token.

        Raises:
            Refused: the lock is lost.
        """
        lock = self._locks.by_token(token)
        if lock is None or lock.until <= self._clock():
            self._pass_time()
            if self.terms.requires_session:
                raise Refused(SESSION_LOCK_LOST, "The session lock has expired, or the message was settled before.")
            reason = "The lock supplied is invalid: it has expired, or the message was settled before."
            raise Refused(MESSAGE_LOCK_LOST, reason)
        return lock

    def _unlock(self, lock: Lock) -> EntityMessage:
        self._locks.remove(lock)
        self._timers.set(("lock", lock.message.sequence), None)
        self._note(lock.message)
        self.touch()
        return lock.message

    def complete(self, token: UUID) -> None:
        """Complete a locked message.

        Raises:
            Refused: the lock is lost, or a transaction has the message; `release` to `dead_letter` raise it, too.
        """
        self._remove(self._unlock(self._settleable(token)))

    def release(self, token: UUID) -> None:
        """Give a message back; this is no failed attempt."""
        self._come_back(self._unlock(self._settleable(token)))

    def abandon(self, token: UUID, properties: Mapping[Any, Any]) -> None:
        """Give a message back after a failed attempt; `properties` are added to its own."""
        message = self._changed(token, properties)
        self._attempt_failed(message)

    def defer(self, token: UUID, properties: Mapping[Any, Any]) -> None:
        """Defer a message: it is only received by its sequence number."""
        message = self._changed(token, properties)
        message.attempts += 1
        message.state = "deferred"

    def dead_letter(
        self, token: UUID, reason: str | None, description: str | None, properties: Mapping[Any, Any]
    ) -> None:
        """Move a message to the dead letters, without counting a delivery; reason or description None: not given."""
        message = self._changed(token, properties)
        self._dead_letter(
            message, reason and reason[:MAX_REASON_LENGTH], description and description[:MAX_REASON_LENGTH]
        )

    def _changed(self, token: UUID, properties: Mapping[Any, Any]) -> EntityMessage:
        """Return a locked message, unlocked and with the properties that its receiver adds."""
        message = self._unlock(self._settleable(token))
        if properties:
            before = message.size
            message.say({str(name): value for name, value in properties.items()})
            self.bytes += message.size - before
            if message.account is not None:
                self.charge(message.account, message.size - before)
        return message

    def lose_locks(self) -> int:
        """Expire all locks now, including those of sessions; return how many there were."""
        groups = [group for group in self._sessions if group.holder is not None]
        locks = self._locks.without_session()
        for group in groups:
            self._lose_session(group)
        for lock in locks:
            self._attempt_failed(self._unlock(lock))
        return len(groups) + len(locks)

    # Sessions

    def accept(self, receiver: SessionReceiver, session_id: str | None, patience: float) -> None:
        """Give a session to a receiver: the one with an id, or the next free one that has messages.

        Args:
            patience: seconds to wait for a session.

        Raises:
            Refused: there are no sessions, or another receiver has that one.
        """
        self._pass_time()
        if not self.terms.requires_session:
            raise Refused(NOT_ALLOWED, f"{self.name!r} does not require sessions: receive from it without one")
        if session_id is not None:
            group = self._sessions[session_id]
            if group.holder is not None:
                reason = f"the session {session_id!r:.200} of {self.name!r} is locked by another receiver"
                raise Refused(SESSION_CANNOT_BE_LOCKED, reason)
            self._hold(group, receiver)
            return
        self._at(self._clock() + patience, ("patience", self._sessions.ask(receiver)))
        self.touch()

    def _stop_asking(self, number: int) -> SessionReceiver:
        self._timers.set(("patience", number), None)
        return self._sessions.askers.pop(number)

    def _give_sessions(self) -> None:
        """Give free sessions with messages to the receivers that ask for any, in the order in which they asked."""
        sessions = self._sessions
        while sessions.askers and (offer := sessions.next_offer()) is not None:
            group, offered = offer
            first = self._first_of(group)
            if first > offered:
                sessions.offer(group, first)  # that message is gone; another session may come first now
            elif first:
                asker = self._stop_asking(next(iter(sessions.askers)))
                attempt(f"a receiver of {self.name!r}", self._hold, group, asker)

    def _first_of(self, group: Group) -> int:
        """Return the number of a session's first message; 0: the session is locked, or has no message."""
        if group.holder is not None:
            return 0
        message = self._next(group)
        if message is None:
            return 0
        heappush(group.ready, message.sequence)
        return message.sequence

    def _hold(self, group: Group, receiver: SessionReceiver) -> None:
        assert group.id is not None
        group.holder = receiver
        group.until = self._clock() + self.terms.lock_duration
        self._receivers[receiver] = group
        self._at(group.until, ("session", group.id))
        try:
            receiver.accepted(group.id, group.until)
        except BaseException:
            self.remove_receiver(receiver)
            raise

    def _free_session(self, group: Group, come_back: Callable[[EntityMessage], None]) -> None:
        """Free a session; messages that its receiver held come back."""
        group.holder = None
        self._timers.set(("session", group.id or ""), None)
        for lock in self._locks.of_session(group):
            come_back(self._unlock(lock))
        if first := self._first_of(group):
            self._sessions.offer(group, first)
        self._drop_if_blank(group)
        self.touch()

    def _drop_if_blank(self, group: Group) -> None:
        if self._sessions.drop_if_blank(group):
            self._busy.pop(group, None)

    def _lose_session(self, group: Group) -> None:
        """Expire the lock of a session; each message that was locked with it had a failed attempt."""
        holder = group.holder
        assert holder is not None
        self._receivers.pop(holder, None)
        self._draining.pop(holder, None)
        group.line.clear()
        self._free_session(group, self._attempt_failed)
        reason = f"The lock of the session {group.id!r:.200} has expired: accept the session again."
        attempt(f"a receiver of {self.name!r}", holder.lock_lost, Error(SESSION_LOCK_LOST, reason))

    def _held_session(self, session_id: str | None) -> Group:
        """Return a locked session.

        Raises:
            Refused: it is not locked.
        """
        self._pass_time()
        group = self._sessions.locked(session_id)
        if group is None:
            raise Refused(SESSION_LOCK_LOST, f"no receiver has the session {session_id!r:.200} of {self.name!r} locked")
        return group

    def renew_session(self, session_id: str) -> float:
        """Renew the lock of a session; return when it ends.

        Raises:
            Refused: the lock is lost.
        """
        group = self._held_session(session_id)
        group.until = self._clock() + self.terms.lock_duration
        self._at(group.until, ("session", session_id))
        return group.until

    def session_state(self, session_id: str) -> bytes | None:
        """Return the state of a session, or None.

        Raises:
            Refused: nobody has the session locked.
        """
        return self._held_session(session_id).state

    def set_session_state(self, session_id: str, state: bytes | None) -> None:
        """Set the state of a session; None removes it, and so does an empty one.

        Raises:
            Refused: nobody has the session locked, or there is no room.
        """
        group = self._held_session(session_id)
        before, most = len(group.state or b""), self.limits.bytes
        if most is not None and self.bytes + len(state or b"") - before > most:
            raise Refused("amqp:resource-limit-exceeded", f"{self.name!r} has no room for the state")
        self._sessions.set_state(group, state, self._clock())
        self.bytes += len(state or b"") - before
        self.touch()

    def sessions(self, updated_after: float | None = None) -> list[str]:
        """Return the sorted ids of sessions with messages or a state, or of those whose state was set after a time."""
        self._pass_time()
        if updated_after is not None:
            found = {each.id for each in self._sessions if each.updated is not None and each.updated > updated_after}
        else:
            found = {message.session_id for message in self._messages.values() if message.state == "active"}
            found |= {each.id for each in self._sessions if each.state is not None}
        return sorted(each for each in found if each is not None)

    # The fate of messages

    def _attempt_failed(self, message: EntityMessage) -> None:
        """Return a message to receivers, or make it a dead letter after the last attempt; dead letters count none."""
        if self.dead_letters is not None:
            message.attempts += 1
        most = self.terms.max_delivery_count
        if most is not None and message.attempts >= most:
            reason = f"Message could not be consumed after {most} delivery attempts."
            self._dead_letter(message, "MaxDeliveryCountExceeded", reason)
        else:
            self._come_back(message)

    def _come_back(self, message: EntityMessage) -> None:
        if message.state == "deferred":
            return
        if self.pass_on is not None:
            self._begin(message, self._clock())  # forwarding began while it was locked
        elif message.expires is not None and message.expires <= self._clock():
            self._expire(message)
        else:
            self._make_ready(message)

    def _expire(self, message: EntityMessage) -> None:
        if self.terms.dead_letter_expired:
            self._dead_letter(message, "TTLExpiredException", "The message expired and was dead lettered.")
        else:
            self._remove(message)

    def _dead_letter(self, message: EntityMessage, reason: str | None, description: str | None) -> None:
        """Move a message to the dead letters; a dead letter itself comes back."""
        if self.dead_letters is None:
            self._come_back(message)
            return
        dead = message.dead(reason, description)
        self._remove(message)
        self._keep_dead(self.dead_letters, dead, reason)

    def undeliverable(self, message: EntityMessage, reason: str, description: str) -> None:
        """Keep a message that could not be passed on among the undelivered messages or the dead letters."""
        entity = self.undelivered or self.dead_letters
        if entity is not None:
            self._keep_dead(entity, message.dead(reason, description), reason)

    def not_taken(self, message: EntityMessage, reason: str, description: str) -> None:
        """Keep a message from another entity that is not accepted here among the dead letters."""
        assert self.dead_letters is not None
        self._keep_dead(self.dead_letters, message.dead(reason, description), reason)

    def _keep_dead(self, entity: Entity, dead: EntityMessage, reason: str | None) -> None:
        entity.add(dead)
        reason = reason or ""
        text = f"a message of {self.name!r:.200} is a dead letter: {reason:.500}"
        notice("message_dead_lettered", logging.INFO, text, queue=self.name, reason=reason, failures=dead.attempts)
        for observe in dead_letter_observers:
            attempt("a span of a dead letter", observe, "servicebus", self.name, dead.outgoing(), reason)

    def pass_to(self, targets: Iterable[Entity], pass_on: PassOn) -> None:
        """Pass on all messages from now on: `pass_on` puts them into `targets`, and senders wait for room in all."""
        self.keep_messages()
        self.pass_on = pass_on
        self._targets = list(targets)
        for target in self._targets:
            target._sources.append(self)
        self._pass_on_active()

    def _pass_on_active(self) -> None:
        for message in [each for each in self._messages.values() if each.state == "active"]:
            if not self._locks.is_locked(message.sequence):
                self._begin(message, self._clock())

    def keep_messages(self) -> None:
        """Keep messages from now on, instead of passing them on."""
        self.pass_on = None
        for target in self._targets:
            target._sources.remove(self)
        self._targets = []

    def goes_on_to(self, target: Entity) -> bool:
        """Return whether messages are passed on to that entity."""
        return target in self._targets

    def _remove(self, message: EntityMessage) -> None:
        del self._messages[message.sequence]
        if message.state == "scheduled":
            self._timers.set(("scheduled", message.sequence), None)
        if message.expires is not None:
            self._timers.set(("death", message.sequence), None)
        if self._records is not None:
            self._records.remove(_key_of(message))
        group = self._group_of(message)
        group.count -= 1
        self._drop_if_blank(group)
        self.bytes -= message.size
        if message.account is not None:
            self.charge(message.account, -message.size - MESSAGE_OVERHEAD)

    # Time

    def _at(self, moment: float, timer: Timer) -> None:
        """Set a timer, and the virtual host's alarm, which calls `expire`, if no earlier timer has set it."""
        first = self._timers.first
        self._timers.set(timer, moment)
        if first is None or moment < first:
            self._expire_after(moment - self._clock())

    def expire(self, now: float) -> float | None:
        """Do what is due; return when the next thing is due on the broker's clock, which is at `now`."""
        self._pass_time()
        first = self._timers.first
        return None if first is None else now + max(0.0, first - self._clock())

    def _pass_time(self) -> None:
        """Do what is due: expire locks and messages, and make scheduled messages available."""
        now = self._clock()
        while (timer := self._timers.pop(now)) is not None:
            self.touch()
            what: Any
            kind, what = timer
            if kind == "lock":
                lock = self._locks.of_message(what)
                assert lock is not None  # its timer goes with it
                self._attempt_failed(self._unlock(lock))
            elif kind == "session":
                self._lose_session(self._sessions[what])
            elif kind == "patience":
                self._give_sessions()  # a session may have become free just now
                if what in self._sessions.askers:
                    reason = f"no session of {self.name!r} with messages came free in time"
                    error = Error(TIMEOUT, reason)
                    attempt(f"a receiver of {self.name!r}", self._stop_asking(what).refused, error)
            elif kind == "death":
                # A locked message expires when it comes back, a deferred one when somebody asks for it.
                if self._messages[what].state == "active" and not self._locks.is_locked(what):
                    self._expire(self._messages[what])
            else:
                # It becomes available with the number of a new message.
                message = self._messages[what]
                self._remove(message)
                message.state, message.scheduled_for = "active", None
                self._add(message)
