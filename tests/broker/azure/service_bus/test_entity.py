from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import uuid4

import pytest

from amqp10.broker.azure import AzureConfig, QueueConfig, TopicConfig
from amqp10.broker.azure._service_bus.groups import Group
from amqp10.messaging import Data, Error, Message
from amqp10.types import Described, Symbol, ULong, encode

from ....kit.azure.queue_bench import NOON, Bench, Taker
from ....kit.broker.queue_doubles import Giver
from ....kit.clock import Clock
from ....kit.inside.broker import (
    BATCH_FORMAT,
    Entity,
    Limits,
    Namespace,
    QueuedMessage,
    Refused,
    SessionReceiver,
    VirtualHostCore,
    VirtualHostSettings,
)

pytestmark = pytest.mark.capability("Service Bus emulator")


def condition(error: pytest.ExceptionInfo[Refused]) -> str:
    return str(error.value.error.condition)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class TestMessages:
    def test_annotations(self, bench: Bench) -> None:
        """A message goes out with what the entity says of it, and with its own bare part."""
        own = {Symbol("x-opt-partition-key"): "p", Symbol("x-opt-sequence-number"): 77}
        bench.send(Message(b"x", message_id="a", priority=7, message_annotations=own))
        _, message = bench.take_one()
        assert message.message_annotations == {
            "x-opt-partition-key": "p",
            "x-opt-sequence-number": 1,
            "x-opt-enqueue-sequence-number": 1,
            "x-opt-enqueued-time": moment(NOON),
            "x-opt-locked-until": moment(NOON + 30),
            "x-opt-message-state": 0,
        }
        assert (message.body, message.message_id, message.priority) == (b"x", "a", 7)

    @pytest.mark.parametrize(
        "sent", [Message(b"x"), Message(b"x", group_id="g", group_sequence=7, content_type="a/b", user_id=b"u")]
    )
    def test_message_id(self, bench: Bench, sent: Message) -> None:
        """A message that has no id gets one, of 32 digits, beside what its sender said; no other has the same."""
        bench.send(sent)
        bench.send(sent)
        (_, first), (_, second) = bench.take(2)
        assert re.fullmatch("[0-9a-f]{32}", str(first.message_id))
        assert first.message_id != second.message_id
        for name in ("body", "group_id", "group_sequence", "content_type", "user_id"):
            assert getattr(first, name) == getattr(sent, name)

    def test_lock_token(self, bench: Bench) -> None:
        """The delivery annotations of a locked message have its lock token, as the delivery-tag does."""
        bench.send(Message(b"x"))
        token, message = bench.take_one()
        assert message.delivery_annotations == {"x-opt-lock-token": token}

    def test_delivery_count_is_said(self, bench: Bench) -> None:
        """The header has its delivery-count when that is 0, too: SDKs read null as no number."""
        bench.send(Message(b"x"))
        [(_, payload)] = [(each.sequence, each.outgoing()) for each in bench.queue.peek(1, 1)]
        # A list of five fields, of which the last is the uint 0.
        assert payload.startswith(b"\x00\x53\x70\xc0")
        assert payload[5] == 5
        assert payload[4 + payload[4]] == 0x43

    def test_batch(self, bench: Bench) -> None:
        """Each data section of a batch is a message of its own."""
        parts = [Message(f"m{number}").encode() for number in range(3)]
        bench.send(Message(Data(*parts)), BATCH_FORMAT)
        assert [message.body for _, message in bench.take(5)] == ["m0", "m1", "m2"]

    @pytest.mark.parametrize("body", ["text", b"no message", Data(Message(b"x").encode(), b"\xff")])
    def test_malformed_batch(self, bench: Bench, body: object) -> None:
        """A batch with anything else in it is refused as a whole."""
        with pytest.raises(Refused) as refusal:
            bench.send(Message(body), BATCH_FORMAT)
        assert refusal.value.error.condition == "amqp:decode-error"
        assert bench.queue.depth == 0

    def test_delivery_annotations_behind_the_body(self, bench: Bench) -> None:
        """Microsoft's SDK for Python puts them there; they come with the message, before its other sections."""
        annotations = encode(Described(ULong(0x71), {Symbol("own"): 1, Symbol("x-opt-lock-token"): 2}))
        payload = Message(b"x", message_id="a", durable=True).encode() + annotations
        for octets, message_format in ((payload, 0), (Message(Data(payload, payload)).encode(), BATCH_FORMAT)):
            bench.queue.take(QueuedMessage.read(octets, message_format, 0.0))
        bench.vhost.flush()
        taken = bench.take(3)
        assert [(each.body, each.message_id) for _, each in taken] == [(b"x", "a")] * 3
        for token, message in taken:
            assert message.delivery_annotations == {"own": 1, "x-opt-lock-token": token}
        for peeked in bench.queue.peek(1, 3):
            assert Message.decode(peeked.outgoing()).delivery_annotations == {"own": 1}
        with pytest.raises(Refused, match="comes after"):
            bench.queue.take(QueuedMessage.read(payload + annotations, 0, 0.0))

    def test_too_large(self, bench: Bench) -> None:
        """A receiver for which a message is too large is out of line with that; the message stays for others."""
        bench.send(Message(b"x"))
        bench.send(Message(bytes(5000)))
        small, large = Taker(2, largest=1000), Taker(1)
        for taker in (small, large):
            bench.queue.add_receiver(taker)
        bench.queue.in_line(small)
        bench.vhost.flush()
        bench.queue.in_line(large)
        bench.vhost.flush()
        assert [message.body for _, message in small.taken] == [b"x"]
        assert [message.body for _, message in large.taken] == [bytes(5000)]
        assert not small.waiting


class TestSettling:
    def test_complete(self, bench: Bench) -> None:
        """A completed message is gone, and its memory is counted no more."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()
        assert bench.queue.depth == 1
        bench.queue.complete(token)
        assert (bench.queue.depth, bench.queue.bytes) == (0, 0)
        bench.vhost.flush()
        assert bench.vhost.admission.memory.octets == 0

    def test_receive_and_delete(self, bench: Bench) -> None:
        """Without locks a message is gone when it is given."""
        bench.send(Message(b"x"))
        assert len(bench.take(locks=False)) == 1
        assert bench.queue.depth == 0

    def test_abandon(self, bench: Bench) -> None:
        """An abandoned message comes back to its place, with one attempt more and what the receiver said."""
        bench.send(Message("first", application_properties={"k": 1}))
        bench.send(Message("second"))
        token, _ = bench.take_one()
        bench.queue.abandon(token, {"why": "later"})
        taken = [message for _, message in bench.take(2)]
        assert [message.body for message in taken] == ["first", "second"]
        assert taken[0].delivery_count == 1
        assert taken[0].application_properties == {"k": 1, "why": "later"}

    def test_release(self, bench: Bench) -> None:
        """A released message comes back, and that counts for no attempt."""
        bench.send(Message(b"x"))
        bench.queue.release(bench.take_one()[0])
        assert bench.take_one()[1].delivery_count == 0

    def test_dead_letter(self, bench: Bench) -> None:
        """A dead letter says why it is one; it has a number of its own there. That it became one is no attempt."""
        bench.send(Message(b"other"))
        bench.send(Message(b"x", subject="s", ttl=timedelta(seconds=5)))
        (_, _), (token, _) = bench.take(2)
        bench.queue.dead_letter(token, "bad", "very bad", {"k": 1})
        bench.pass_time(10)
        _, dead = bench.take_one(entity=bench.dead)
        reasons = {"DeadLetterReason": "bad", "DeadLetterErrorDescription": "very bad", "k": 1}
        assert (dead.body, dead.subject, dead.application_properties) == (b"x", "s", reasons)
        assert dead.delivery_count == 0
        assert "x-opt-deadletter-source" not in dead.message_annotations  # only of one that was passed on
        assert dead.message_annotations["x-opt-sequence-number"] == 1
        assert dead.message_annotations["x-opt-enqueue-sequence-number"] == 2

    def test_no_reason(self, bench: Bench) -> None:
        """A receiver that says no reason has none said."""
        bench.send(Message(b"x"))
        bench.queue.dead_letter(bench.take_one()[0], None, None, {})
        assert bench.take_one(entity=bench.dead)[1].application_properties == {}

    def test_dead_letters_stay(self, bench: Bench) -> None:
        """From there a message has nowhere left to go, however often it fails, and nothing counts any more."""
        bench.send(Message(b"x"))
        bench.queue.dead_letter(bench.take_one()[0], "bad", "", {})
        for _ in range(20):
            bench.dead.abandon(bench.take_one(entity=bench.dead)[0], {})
        bench.dead.dead_letter(bench.take_one(entity=bench.dead)[0], "worse", "", {})
        assert bench.dead.depth == 1
        assert bench.take_one(entity=bench.dead)[1].delivery_count == 0

    @pytest.mark.parametrize("bench", [{"max_delivery_count": 2}], indirect=True)
    def test_last_attempt(self, bench: Bench) -> None:
        """A message whose attempts are used up becomes a dead letter."""
        bench.send(Message(b"x"))
        for _ in range(2):
            bench.queue.abandon(bench.take_one()[0], {})
        assert bench.take() == []
        _, dead = bench.take_one(entity=bench.dead)
        assert dead.application_properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"
        assert dead.delivery_count == 2


class TestLocks:
    def test_expiry(self, bench: Bench) -> None:
        """A lock that ends makes the message come back as after a failed attempt; its token settles nothing more."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()
        bench.pass_time(29.9)
        assert bench.take() == []
        bench.pass_time(0.1)
        _, again = bench.take_one()
        assert again.delivery_count == 1
        with pytest.raises(Refused) as lost:
            bench.queue.complete(token)
        assert condition(lost) == "com.microsoft:message-lock-lost"
        assert bench.queue.depth == 1

    def test_lost_at_once(self, bench: Bench) -> None:
        """A lock is over when its time is, whether anything looked at the clock meanwhile or not."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()
        bench.clock.now += 30
        with pytest.raises(Refused):
            bench.queue.complete(token)
        assert len(bench.take()) == 1

    def test_claimed(self, bench: Bench) -> None:
        """A message that a transaction has is settled by nobody else until that is over."""
        bench.send(Message(b"x"))
        bench.send(Message(b"y"))
        (one, _), (other, _) = bench.take(2)
        mine, another = object(), object()
        bench.queue.claim([one], mine)
        bench.queue.claim([one], mine)  # again, by the same
        with pytest.raises(Refused, match="in a transaction that is open"):
            bench.queue.complete(one)
        with pytest.raises(Refused, match="in a transaction that is open"):
            bench.queue.hold_locks([one])
        with pytest.raises(Refused, match="in a transaction that is open"):
            bench.queue.claim([other, one], another)
        bench.queue.complete(other)  # which was not claimed together with the refused one
        bench.queue.unclaim(one)
        bench.queue.complete(one)
        assert bench.queue.depth == 0

    def test_renewal(self, bench: Bench) -> None:
        """A renewed lock lasts as long again; one that is lost is not renewed, nor are others beside it."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()
        bench.pass_time(20)
        assert bench.queue.renew([token]) == [NOON + 50]
        bench.pass_time(15)
        with pytest.raises(Refused):
            bench.queue.renew([token, uuid4()])
        bench.pass_time(14.9)
        assert bench.take() == []
        bench.pass_time(0.2)
        assert len(bench.take()) == 1

    def test_outlives_its_receiver(self, bench: Bench) -> None:
        """What a receiver had locked stays so when it goes; the token still counts."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()  # which removes the receiver
        assert bench.take() == []
        bench.queue.complete(token)
        assert bench.queue.depth == 0

    def test_many_renewals(self, bench: Bench) -> None:
        """Timers of locks that were renewed, and of messages that are gone, do not pile up."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()
        for number in range(2000):
            bench.clock.now += number % 2 * 0.001
            bench.queue.renew([token])
        bench.vhost.expire()
        assert len(bench.queue._timers._heap) < 300

    def test_end_at_one_moment(self) -> None:
        """Locks that end at one moment end in the order of the messages, so the dead letters have that, too."""
        bench = Bench(QueueConfig("orders", max_delivery_count=1))
        for number in range(30):
            bench.send(Message(number))
        bench.take(30)
        bench.pass_time(61)
        assert [message.body for _, message in bench.take(30, entity=bench.dead)] == list(range(30))


class TestDeferred:
    def test_by_number(self, bench: Bench) -> None:
        """A deferred message is received by its number only, any number of times."""
        bench.send(Message(b"x"))
        bench.queue.defer(bench.take_one()[0], {"k": 1})
        assert bench.take() == []
        [(token, payload)] = bench.queue.receive([1], locks=True)
        assert Message.decode(payload).message_annotations["x-opt-message-state"] == 1
        assert Message.decode(payload).application_properties == {"k": 1}
        with pytest.raises(Refused) as locked:
            bench.queue.receive([1], locks=True)
        assert condition(locked) == "com.microsoft:message-not-found"
        assert token is not None
        bench.queue.abandon(token, {})
        assert bench.take() == []
        [(token, payload)] = bench.queue.receive([1], locks=False)
        assert token is None
        assert bench.queue.depth == 0

    def test_lock_ends(self, bench: Bench) -> None:
        """It stays deferred when its lock ends."""
        bench.send(Message(b"x"))
        bench.queue.defer(bench.take_one()[0], {})
        bench.queue.receive([1], locks=True)
        bench.pass_time(31)
        assert bench.take() == []
        assert len(bench.queue.receive([1], locks=True)) == 1

    @pytest.mark.parametrize("bench", [{"ttl": 10.0, "dead_letter_expired": True}], indirect=True)
    @pytest.mark.parametrize("late", [False, True], ids=["deferred in time", "deferred when it was over"])
    def test_expires_when_asked_for(self, bench: Bench, late: bool) -> None:
        """Its time to live ends when somebody asks for it, and not before."""
        bench.send(Message(b"x"))
        token, _ = bench.take_one()
        bench.pass_time(11 if late else 0)
        bench.queue.defer(token, {})
        bench.pass_time(100)
        assert [each.state for each in bench.queue.peek(1, 9)] == ["deferred"]
        with pytest.raises(Refused) as gone:
            bench.queue.receive([1], locks=True)
        assert condition(gone) == "com.microsoft:message-not-found"
        assert bench.take_one(entity=bench.dead)[1].application_properties["DeadLetterReason"] == "TTLExpiredException"

    @pytest.mark.parametrize("bench", [{"ttl": 10.0}], indirect=True)
    def test_locked_beyond_its_time(self, bench: Bench) -> None:
        """One that was received in time comes back as deferred, and dies only when it is asked for again."""
        bench.send(Message(b"x"))
        bench.queue.defer(bench.take_one()[0], {})
        [(token, _)] = bench.queue.receive([1], locks=True)
        assert token is not None
        bench.pass_time(11)
        bench.queue.abandon(token, {})
        assert bench.queue.depth == 1
        with pytest.raises(Refused):
            bench.queue.receive([1], locks=True)
        assert bench.queue.depth == 0

    def test_all_or_none(self, bench: Bench) -> None:
        """If one of them is not deferred, none is received."""
        for _ in range(2):
            bench.send(Message(b"x"))
        bench.queue.defer(bench.take_one()[0], {})
        with pytest.raises(Refused):
            bench.queue.receive([1, 2], locks=True)
        assert len(bench.queue.receive([1], locks=True)) == 1


class TestTime:
    def test_scheduled(self, bench: Bench) -> None:
        """A scheduled message is there when it is due, with the number of one that came then."""
        due = {Symbol("x-opt-scheduled-enqueue-time"): moment(NOON + 60)}
        bench.send(Message("later", message_annotations=due))
        bench.send(Message("now"))
        assert [message.state for message in bench.queue.peek(1, 10)] == ["scheduled", "active"]
        assert [message.body for _, message in bench.take(5, locks=False)] == ["now"]
        assert bench.vhost.next_expiry is not None
        bench.pass_time(60)
        _, message = bench.take_one()
        assert message.message_annotations["x-opt-sequence-number"] == 3
        assert message.message_annotations["x-opt-enqueued-time"] == moment(NOON + 60)

    @pytest.mark.parametrize("due", [NOON - 1, NOON])
    def test_due_already(self, bench: Bench, due: float) -> None:
        """A message that was due in the past, or is now, is there at once."""
        bench.send(Message(b"x", message_annotations={Symbol("x-opt-scheduled-enqueue-time"): moment(due)}))
        assert [message.state for message in bench.queue.peek(1, 10)] == ["active"]
        assert len(bench.take()) == 1

    def test_cancelled(self, bench: Bench) -> None:
        """A scheduled message can be taken back as long as it is not due; others cannot."""
        due = {Symbol("x-opt-scheduled-enqueue-time"): moment(NOON + 60)}
        bench.send(Message("later", message_annotations=due))
        bench.send(Message("now"))
        with pytest.raises(Refused) as refusal:
            bench.queue.cancel([1, 2])
        assert condition(refusal) == "com.microsoft:message-not-found"
        bench.queue.cancel([1])
        bench.pass_time(60)
        assert [message.body for _, message in bench.take(5)] == ["now"]

    @pytest.mark.parametrize("bench", [{"ttl": 10.0}], indirect=True)
    def test_expires(self, bench: Bench) -> None:
        """The shorter of the two times to live counts, and the header says it; the message is dropped then."""
        bench.send(Message("short", ttl=timedelta(seconds=5)))
        bench.send(Message("long", ttl=timedelta(seconds=50)))
        bench.send(Message("none"))
        assert [Message.decode(each.outgoing()).ttl for each in bench.queue.peek(1, 9)] == [
            timedelta(seconds=seconds) for seconds in (5, 10, 10)
        ]
        bench.pass_time(5)
        assert bench.queue.depth == 2
        bench.pass_time(5)
        assert (bench.queue.depth, bench.dead.depth) == (0, 0)

    @pytest.mark.parametrize("bench", [{"dead_letter_expired": True}], indirect=True)
    def test_expires_when_it_comes_back(self, bench: Bench) -> None:
        """A message that is locked can be completed after its time; one that comes back is dead."""
        for _ in range(2):
            bench.send(Message(b"x", ttl=timedelta(seconds=5)))
        (first, _), (second, _) = bench.take(2)
        bench.pass_time(6)
        bench.queue.complete(first)
        bench.queue.release(second)
        assert bench.take_one(entity=bench.dead)[1].application_properties["DeadLetterReason"] == "TTLExpiredException"

    @pytest.mark.parametrize("bench", [{"duplicate_window": 20.0}], indirect=True)
    def test_duplicates(self, bench: Bench) -> None:
        """A message with an id that came within the window is dropped; the first one may be gone already."""
        bench.send(Message(b"x", message_id="a"))
        bench.take(locks=False)
        bench.pass_time(19)
        bench.send(Message(b"x", message_id="a"))
        bench.send(Message(b"x"))
        bench.send(Message(b"x"))
        assert (bench.queue.depth, bench.queue.duplicates) == (2, 1)
        bench.pass_time(1)
        bench.send(Message(b"x", message_id="a"))
        assert bench.queue.depth == 3

    @pytest.mark.parametrize("bench", [{"duplicate_window": 600.0}], indirect=True)
    def test_a_shorter_window(self, bench: Bench) -> None:
        """When the window is shortened, an id that comes afterwards is remembered for that time, and no longer."""
        bench.send(Message(b"x", message_id="a"))
        bench.queue.terms = replace(bench.queue.terms, duplicate_window=20.0)
        bench.send(Message(b"x", message_id="b"))
        bench.pass_time(20)
        for message_id in ("a", "b"):
            bench.send(Message(b"x", message_id=message_id))
        assert (bench.queue.depth, bench.queue.duplicates) == (3, 1)


class TestReceivers:
    def test_in_turn(self, bench: Bench) -> None:
        """Receivers that are ready take turns."""
        takers = [Taker(5), Taker(5)]
        for taker in takers:
            bench.queue.add_receiver(taker)
            bench.queue.in_line(taker)
        for number in range(4):
            bench.send(Message(number))
        assert [[message.body for _, message in taker.taken] for taker in takers] == [[0, 2], [1, 3]]

    def test_drained(self, bench: Bench) -> None:
        """One that drains is told when nothing is left."""
        taker = Taker(2)
        bench.queue.add_receiver(taker)
        bench.send(Message(b"x"))
        bench.queue.in_line(taker, drain=True)
        bench.vhost.flush()
        assert (len(taker.taken), taker.drained) == (1, 1)

    def test_deleted(self, bench: Bench) -> None:
        """They are told when the entity is gone, and what was in it is counted no more."""
        taker = Taker(0)
        bench.queue.add_receiver(taker)
        bench.send(Message(b"x"))
        bench.vhost.delete(bench.queue)
        assert isinstance(taker.error, Error)
        assert (bench.queue.depth, bench.vhost.admission.memory.octets) == (0, 0)


class Accepting(Taker, SessionReceiver):
    """Takes the messages of one session."""

    def accepted(self, session_id: str, until: float) -> None:
        pass

    def refused(self, error: Error) -> None:
        raise AssertionError

    def lock_lost(self, error: Error) -> None:
        self.error = error


class Given(Accepting):
    """Knows which session it was given."""

    session_id: str | None = None

    def accepted(self, session_id: str, until: float) -> None:
        self.session_id = session_id


class TestSessions:
    @pytest.mark.parametrize("bench", [{"requires_session": True}], indirect=True)
    def test_locks_are_lost(self, bench: Bench) -> None:
        """Those that are held: their receivers are told, and are given and asked nothing more."""
        for name in ("held", "free"):
            bench.send(Message(b"x", group_id=name))
        taker = Accepting(1)
        bench.queue.accept(taker, "held", 60.0)
        bench.queue.in_line(taker, drain=True)
        assert bench.queue.lose_locks() == 1
        assert isinstance(taker.error, Error)
        assert not bench.queue.in_use
        bench.queue.in_line(taker)
        bench.vhost.flush()
        bench.queue.remove_receiver(taker)
        assert (taker.taken, taker.drained) == ([], 0)
        assert bench.queue.lose_locks() == 0

    @pytest.mark.parametrize("bench", [{"requires_session": True}], indirect=True)
    def test_looks_at_few_sessions(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who asks for any session gets the first without a look at all of them, and so does who waits for one."""
        looks, first_of = list[str | None](), Entity._first_of

        def counted(entity: Entity, group: Group) -> int:
            looks.append(group.id)
            return first_of(entity, group)

        monkeypatch.setattr(Entity, "_first_of", counted)
        for number in range(300):
            bench.send(Message(b"x", group_id=str(number)))
        takers = [Given(1) for _ in range(300)]
        for taker in takers:
            bench.queue.accept(taker, None, 60.0)
            bench.vhost.flush()
        assert [taker.session_id for taker in takers] == [str(number) for number in range(300)]
        late = Given(1)
        bench.queue.accept(late, None, 60.0)
        for _ in range(300):
            bench.send(Message(b"y", group_id="0"))
        assert len(looks) < 1000
        bench.queue.remove_receiver(takers[7])
        bench.vhost.flush()
        assert late.session_id == "7"

    @pytest.mark.parametrize("bench", [{"requires_session": True, "max_delivery_count": 3}], indirect=True)
    @pytest.mark.parametrize("seed", range(20))
    def test_the_first_session(self, bench: Bench, seed: int) -> None:
        """Whatever came before, the session whose first message is the oldest goes to who asks."""
        dice, held = Random(seed), list[Given]()
        for _ in range(150):
            act = dice.randrange(5)
            if act < 2:
                bench.send(Message(b"x", group_id=dice.choice("abcdefgh")))
            elif act == 2 and held:
                taker = held.pop(dice.randrange(len(held)))
                for token, _ in taker.taken:
                    if token is not None and dice.random() < 0.5:
                        dice.choice([bench.queue.complete, bench.queue.release])(token)
                bench.queue.remove_receiver(taker)
                bench.vhost.flush()
            elif act == 3 and held:
                taker = dice.choice(held)
                taker.credit += 1
                bench.queue.in_line(taker)
                bench.vhost.flush()
            elif act == 4 and len(held) < 5:
                taken = {each.session_id for each in held}
                free = [each.session_id for each in bench.queue.peek(1, 1000) if each.session_id not in taken]
                wanted = dice.choice(free) if free and dice.random() < 0.2 else None
                taker = Given(0)
                bench.queue.accept(taker, wanted, 60.0)
                bench.vhost.flush()
                assert taker.session_id == (wanted or (free[0] if free else None))
                if taker.session_id is None:
                    bench.queue.remove_receiver(taker)
                else:
                    held.append(taker)


def test_source_of_forwarded_dead_letters() -> None:
    """A dead letter that is forwarded says which entity's it was; a message that is forwarded otherwise does not."""
    clock = Clock(NOON)
    vhost = VirtualHostCore(clock=lambda: clock.now - NOON)
    queues: list[QueueConfig | str] = [
        QueueConfig("a", forward_dead_letters_to="c"),
        QueueConfig("b", forward_to="c"),
        "c",
    ]
    namespace = Namespace(AzureConfig(queues, clock=clock), vhost)
    a, b, c = map(namespace.find, "abc")
    assert a is not None
    assert b is not None
    assert c is not None
    for entity in (a, b):
        entity.take(QueuedMessage.read(Message(entity.name).encode(), 0, vhost.clock()))
    taker = Taker(1)
    a.add_receiver(taker)
    a.in_line(taker)
    vhost.flush()
    ((token, _),) = taker.taken
    assert token is not None
    a.dead_letter(token, "bad", "it is", {})
    vhost.flush()
    there = [Message.decode(each.outgoing()) for each in c.peek(1, 10)]
    assert {each.body: (each.message_annotations or {}).get("x-opt-deadletter-source") for each in there} == {
        "a": "a",
        "b": None,
    }


def test_room_of_a_topic() -> None:
    """Senders to a topic wait for room in each of its subscriptions, and go on when there is some again."""
    clock = Clock(NOON)
    vhost = VirtualHostCore(VirtualHostSettings(limits=Limits(messages=2)), clock=lambda: clock.now - NOON)
    namespace = Namespace(AzureConfig(topics=[TopicConfig("events", ["one", "two"])], clock=clock), vhost)
    topic = namespace.find("events")
    assert topic is not None
    for expected in (2, 1):
        assert topic.free == expected
        topic.take(QueuedMessage.read(Message(b"x").encode(), 0, vhost.clock()))
        vhost.flush()
    assert topic.free == 0
    for name in ("one", "two"):
        subscription = namespace.find(f"events/Subscriptions/{name}")
        assert subscription is not None
        taker = Taker(1, locks=False)
        subscription.add_receiver(taker)
        subscription.in_line(taker)
        vhost.flush()
    assert topic.free == 1


@pytest.mark.parametrize("by", ["cancel", "state"])
def test_room_without_a_receiver(by: str) -> None:
    """A canceled message, and the state of a session that is removed, make room and take no memory any longer."""
    clock = Clock(NOON)
    settings = VirtualHostSettings(limits=Limits(messages=1) if by == "cancel" else Limits(bytes=1000))
    vhost = VirtualHostCore(settings, clock=lambda: clock.now - NOON)
    queues = [QueueConfig("q", requires_session=by == "state")]
    entity = Namespace(AzureConfig(queues, clock=clock), vhost).find("q")
    assert entity is not None
    if by == "cancel":
        later = {Symbol("x-opt-scheduled-enqueue-time"): moment(NOON + 60)}
        message = Message(b"x", message_annotations=later)
        entity.take(QueuedMessage.read(message.encode(), 0, vhost.clock()))
    else:
        entity.accept(Accepting(1), "s", 0.0)
        entity.set_session_state("s", bytes(1000))
    vhost.flush()
    giver = Giver()
    entity.add_producer(giver)
    vhost.flush()
    assert (giver.granted, vhost.admission.memory.octets > 0) == (0, True)
    if by == "cancel":
        entity.cancel([1])
    else:
        entity.set_session_state("s", None)
    vhost.flush()
    assert (giver.granted > 0, vhost.admission.memory.octets) == (True, 0)


def test_peek_at_less_than_nothing(bench: Bench) -> None:
    """To ask for fewer messages than none brings none."""
    bench.send(Message(b"x"))
    assert bench.queue.peek(1, -1) == []
