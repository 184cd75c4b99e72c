"""The selectors of the embedded broker: Jakarta Messaging 3.8.1, and the SQL of the AMQP filter expressions."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._filters.selector.parser import parse
from amqp10.broker._filters.selector.tokens import JMS, SQL, Grammar, SelectorError
from amqp10.broker._filters.selector.values import MAX_PATTERN_LENGTH, MAX_TEXT_LENGTH, Candidate, like
from amqp10.errors import DecodeError
from amqp10.messaging import Message, PropertyValues
from amqp10.testing.strategies import messages
from amqp10.types import Byte, Char, Decimal64, Decimal128, Float, Symbol, UByte, UInt, ULong

from ...kit.inside.broker import QueuedMessage
from ...kit.steps import steps

pytestmark = pytest.mark.capability("filters")

MOMENT = datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC)
MILLISECONDS = 1709210096789
MESSAGE = Message(
    "body",
    durable=True,
    priority=7,
    ttl=timedelta(seconds=60),
    message_id="ID:1",
    user_id=b"me",
    to="orders",
    subject="order.created",
    reply_to="replies",
    correlation_id="corr",
    content_type="text/plain",
    creation_time=MOMENT,
    group_id="group",
    group_sequence=3,
    message_annotations={"x-opt-note": "annotated"},
    application_properties={
        "region": "eu",
        "quote": "it's",
        "weight": 2500,
        "small": UByte(5),
        "negative": Byte(-3),
        "half": 0.5,
        "single": Float(1.5),
        "money": Decimal64("2.5"),
        "urgent": True,
        "late": False,
        "symbol": Symbol("eu"),
        "moment": MOMENT,
        "letter": Char("x"),
        "raw": b"\x01\x02",
        "nothing": None,
        "dotted.name": "d",
        "name with spaces": "s",
    },
)


def value(text: str, message: Message = MESSAGE, grammar: Grammar = JMS) -> Any:
    """What a condition comes to: True, False, or None for unknown."""
    return parse(text, grammar)(Candidate(QueuedMessage(message.encode())))


TRUE = """
    region = 'eu'
    region <> 'us'
    quote = 'it''s'
    weight = 2500
    weight = 2500.0
    weight > 2499 AND weight < 2501
    weight >= 2500 AND weight <= 2500
    small = 5 AND negative = -3
    half = .5
    half = 5E-1
    half = 0.5d
    single = 1.5F
    single > 1
    money = 2.5
    weight = 0x9C4
    small = 05
    weight = 2500L
    weight = +2500
    weight = - -2500
    weight + 1 = 2501
    weight - 1 = 2499
    weight * 2 = 5000
    weight / 1000 = 2.5
    weight % 1000 = 500
    negative % 2 = -1
    1 + 2 * 3 = 7
    (1 + 2) * 3 = 9
    10 - 2 - 3 = 5
    100 / 10 / 2 = 5
    -small = -5
    urgent
    urgent = TRUE
    late = false
    NOT late
    NOT NOT urgent
    not late and urgent or late
    TRUE
    NOT region = 'us'
    late OR urgent
    late AND late OR urgent
    (a > 1) = TRUE OR urgent
    weight BETWEEN 2500 AND 2500
    weight NOT BETWEEN 1 AND 10
    weight between 1 and 3000 and urgent
    region IN ('us', 'eu')
    region NOT IN ('us', 'uk')
    region LIKE 'e%'
    region LIKE 'e_'
    region LIKE 'eu'
    region LIKE '%'
    region NOT LIKE '_'
    quote LIKE '%''%'
    region NOT LIKE '\\_u' ESCAPE '\\'
    missing IS NULL
    nothing IS NULL
    region IS NOT NULL
    symbol = 'eu'
    moment = 1709210096789
    "region" = 'eu'
    "dotted.name" = 'd'
    "name with spaces" = 's'
    JMSPriority = 7
    JMSDeliveryMode = 'PERSISTENT'
    JMSMessageID = 'ID:1'
    JMSCorrelationID = 'corr'
    JMSTimestamp = 1709210096789
    JMSType = 'order.created'
    JMSType LIKE 'order.%'
    JMSDestination = 'orders' AND JMSReplyTo = 'replies'
    JMSExpiration = 0
    NOT JMSRedelivered
    JMSXGroupID = 'group' AND JMSXGroupSeq = 3 AND JMSXUserID = 'me' AND JMSXDeliveryCount = 1
    amqp.correlation_id = 'corr' AND amqp.priority = 7 AND amqp.durable
    amqp.ttl = 60000 AND amqp.delivery_count = 0 AND amqp.creation_time = 1709210096789
    properties.subject = 'order.created' AND p.to = 'orders'
    header.priority > 6 AND h.durable = TRUE
    application_properties.region = 'eu' AND a.weight = 2500
    amqp.content_type = 'text/plain'
    region <> 1
    NOT (region = 1)
    weight > 1 = TRUE
    region = 'us' = late
    weight / 0 > 1 AND negative / 0 < -1 AND weight / -0.0 < -1
    NOT (0 / 0 = 0 OR weight % 0 = 0)
"""


@pytest.mark.parametrize("text", [line.strip() for line in TRUE.strip().splitlines()])
def test_true(text: str) -> None:
    """What Jakarta Messaging says is true of the message."""
    assert value(text) is True


FALSE = """
    region = 'us'
    region = 'EU'
    region = 1
    weight = '2500'
    weight = TRUE
    urgent = 1
    urgent <> TRUE
    weight > half AND FALSE
    region > 5
    region
    weight BETWEEN 1 AND 10
    region NOT LIKE 'e%'
    weight LIKE '2%'
    letter = 'x'
    raw = 'x'
    region IS NULL
    missing IS NOT NULL
    JMSPriority = 4
    JMSXDeliveryCount > 1
    region LIKE 'E%'
"""


@pytest.mark.parametrize("text", [line.strip() for line in FALSE.strip().splitlines()])
def test_false(text: str) -> None:
    """What is not true of it, values of unlike types among it."""
    assert value(text) is False


UNKNOWN = """
    missing = 1
    missing <> 1
    missing > 1
    missing < half
    missing = missing
    nothing = 'x'
    missing BETWEEN 1 AND 2
    weight BETWEEN missing AND 9999
    missing NOT BETWEEN 1 AND 2
    missing IN ('a')
    missing NOT IN ('a')
    missing LIKE '%'
    missing NOT LIKE '%'
    weight IN ('2500')
    missing
    NOT missing
    missing AND urgent
    missing OR late
    missing + 1 = 2
    weight + missing = 1
    region + 1 = 2
    -region = 1
    NOT (missing = 1)
    JMSXGroupID = missing
"""


@pytest.mark.parametrize("text", [line.strip() for line in UNKNOWN.strip().splitlines()])
def test_unknown(text: str) -> None:
    """What NULL makes of it: neither true nor false, and so not selected."""
    assert value(text) is None


def test_three_valued_logic() -> None:
    """The tables of Jakarta Messaging 3.8.1.2 for AND, OR and NOT."""
    of = {True: "urgent", False: "late", None: "missing"}
    for one in of:
        assert value(f"NOT {of[one]}") is (None if one is None else not one)
        for other in of:
            both = False if False in (one, other) else None if None in (one, other) else True
            either = True if True in (one, other) else None if None in (one, other) else False
            assert value(f"{of[one]} AND {of[other]}") is both
            assert value(f"{of[one]} OR {of[other]}") is either


WRONG = [
    ("", 1, "expected a value or a name"),
    ("region =", 9, "expected a value or a name"),
    ("region = 'eu", 10, "not closed"),
    ('"region = 1', 1, "not closed"),
    ("region # 1", 8, "unexpected character"),
    ("(region = 1", 12, "expected )"),
    ("region = 1)", 11, "over before this"),
    ("a = 1 b = 2", 7, "over before this"),
    ("region > 'eu'", 10, "has no order"),
    ("TRUE > 1", 1, "has no order"),
    ("'a' BETWEEN 1 AND 2", 1, "has no order"),
    ("a BETWEEN 1 OR 2", 13, "expected AND"),
    ("a = NULL", 5, "expected a value"),
    ("NULL IS NULL", 1, "expected a value"),
    ("1 IS NULL", 3, "only a name"),
    ("a IS 1", 6, "expected NULL"),
    ("1 + 2", 1, "is not a condition"),
    ("'a'", 1, "is not a condition"),
    ("a AND 1", 7, "is not a condition"),
    ("NOT 'a'", 5, "is not a condition"),
    ("a + 'b' = 1", 5, "cannot be used in arithmetic"),
    ("-TRUE = 1", 2, "cannot be used in arithmetic"),
    ("a IN (1)", 7, "quoted string"),
    ("a IN ()", 7, "quoted string"),
    ("1 IN ('a')", 1, "only a name"),
    ("a LIKE b", 8, "quoted string"),
    ("5 LIKE 'a'", 1, "cannot be used with LIKE"),
    ("a LIKE 'x' ESCAPE 'ab'", 19, "one character"),
    ("a LIKE 'x~' ESCAPE '~'", 8, "ends with its escape"),
    ("a NOT b", 7, "after NOT"),
    ("a = 09", 5, "octal"),
    ("a = 99999999999999999999", 5, "64 bits"),
    ("a = " + "9" * 5000, 5, "64 bits"),
    ("a = 5x", 6, "over before this"),
    ("foo.bar = 1", 1, "no section 'foo'"),
    ("p.colour = 1", 1, "no field 'colour'"),
    ("amqp.annotation.x = 1", 1, "no field"),
    ("a != 1", 3, "unexpected character"),
    ("(" * 41 + "a" + ")" * 41, 41, "nested"),
    ("a LIKE '" + "x" * 1001 + "'", 8, "more than 1000"),
]


@pytest.mark.parametrize(("text", "place", "what"), WRONG)
def test_errors_point_to_the_place(text: str, place: int, what: str) -> None:
    """A selector that is none says at which character, and why."""
    with pytest.raises(SelectorError, match=re.escape(what)) as caught:
        parse(text, JMS)
    assert f"character {place}:" in str(caught.value)
    assert str(caught.value).endswith(text[max(0, place - 31) : place - 1] + ">>>" + text[place - 1 : place + 29])


SQL_TRUE = """
    region = "eu"
    region != 'us'
    [dotted.name] = 'd'
    [region] LIKE 'e%'
    raw = 0x0102
    region > 'a' AND region < "ez"
    raw >= 0x01
    weight IN (1, 2500, 'x')
    weight NOT IN (1, missing)
    region IN ('u' , region)
    'eu' IN (region)
    properties.subject LIKE 'order.%'
    p.group_sequence = 3
    application-properties.region = 'eu'
    message_annotations.note IS NULL
    h.priority = 7 AND header.durable
    UTC() > 1700000000000
    p.creation_time < UTC()
    weight % 7 = 1
    JMSPriority IS NULL
    missing IS NULL and true
"""


@pytest.mark.parametrize("text", [line.strip() for line in SQL_TRUE.strip().splitlines()])
def test_sql(text: str) -> None:
    """What the AMQP filter expressions have beyond JMS: ordered strings, binaries, lists of expressions, UTC()."""
    assert value(text, grammar=SQL) is True


@pytest.mark.parametrize(
    "text",
    [
        "weight BETWEEN 1 AND 2",
        "[a",
        "a = 0x1",
        "EXISTS(a) = TRUE",
        "LOWER(a) = 'x'",
        "a IN ()",
        "TRUE < FALSE",
        "a = 1L",
    ],
)
def test_sql_has_not(text: str) -> None:
    """What is of JMS only, or of neither."""
    with pytest.raises(SelectorError, match="SQL filter"):
        parse(text, SQL)


@pytest.mark.parametrize(
    ("identifier", "shown"),
    [
        ("ID:1", "ID:1"),
        ("plain", "plain"),
        (7, "ID:AMQP_ULONG:7"),
        (b"\x0a\xff", "ID:AMQP_BINARY:0AFF"),
        (uuid.UUID(int=7), "ID:AMQP_UUID:00000000-0000-0000-0000-000000000007"),
    ],
)
def test_identifiers(identifier: Any, shown: str) -> None:
    """Identifiers that are no strings have the form that JMS clients show; by AMQP's name they are what they are."""
    message = Message(message_id=identifier, correlation_id=identifier)
    assert value(f"JMSMessageID = '{shown}' AND JMSCorrelationID = '{shown}'", message) is True
    if isinstance(identifier, int):
        assert value("amqp.message_id = 7", message) is True


def test_a_message_without_anything() -> None:
    """Defaults of the header, nothing else: the timestamp is 0 as a Java long that nobody set."""
    bare = Message("x")
    assert value("JMSPriority = 4 AND JMSDeliveryMode = 'NON_PERSISTENT' AND JMSTimestamp = 0", bare) is True
    assert value(
        "JMSType IS NULL AND JMSMessageID IS NULL AND JMSCorrelationID IS NULL AND p.creation_time IS NULL", bare
    )


def test_redelivered() -> None:
    """What the broker knows better than the message's own header."""
    entry = QueuedMessage(MESSAGE.encode())
    entry.failures = 2
    assert parse("JMSRedelivered AND JMSXDeliveryCount = 3 AND h.delivery_count = 2", JMS)(Candidate(entry)) is True


def test_another_message_format() -> None:
    """Nothing is known of a message that is not AMQP's."""
    assert parse("region IS NULL", JMS)(Candidate(QueuedMessage(b"\xff", message_format=7))) is True


# Nobody's selector may be expensive


@pytest.mark.parametrize(
    "pattern", ["%a" * 400 + "%b", "%_a" * 300 + "b", "_%" * 500, "%" * 1000, "a%" * 499 + "b", "%" + "_" * 900 + "b"]
)
def test_like_does_not_blow_up(pattern: str) -> None:
    """Patterns that make regular expressions try everything take steps for each of their characters here."""
    fits = like(pattern, None)
    assert steps(lambda: fits("a" * MAX_TEXT_LENGTH)) < 40 * len(pattern)
    assert len(pattern) <= MAX_PATTERN_LENGTH


def test_long_strings_are_like_nothing() -> None:
    """Beyond a length the answer is unknown, so that neither LIKE nor NOT LIKE selects."""
    long = Message(application_properties={"long": "a" * (MAX_TEXT_LENGTH + 1)})
    assert value("long LIKE 'a%'", long) is None
    assert value("long NOT LIKE 'a%'", long) is None


def test_all_likes_of_a_filter_share_one_budget() -> None:
    """A selector of many LIKEs costs no more than one of few: what is beyond the budget of a message is unknown."""
    text = Message(application_properties={"long": "a" * MAX_TEXT_LENGTH})
    hard = "long LIKE '%" + "_" * 20 + "b%'"
    assert value(hard, text) is False
    assert value(" OR ".join([hard] * 19), text) is None
    assert value(" OR ".join(["long LIKE '%ab%'"] * 19 + ["long LIKE 'a%'"]), text) is True


def test_long_selectors() -> None:
    """Long lists and chains work, at no depth of the stack; beyond 16,384 characters nothing does."""
    chain = " OR ".join(f"weight = {number}" for number in range(900))
    assert value(chain) is False
    assert value(" + ".join(["1"] * 3000) + " = 3000") is True
    assert value("NOT " * 3000 + "urgent") is True
    assert value("- " * 4000 + "weight = 2500") is True
    assert value("region IN (" + ", ".join(f"'{number}'" for number in range(1000)) + ", 'eu')") is True
    assert value("urgent" + " = TRUE" * 1000) is True
    assert value("urgent" + " <> FALSE" * 1001 + " = FALSE") is False
    with pytest.raises(SelectorError, match="4000 names and values"):
        parse("+".join(["1"] * 4001) + "=1", JMS)
    with pytest.raises(SelectorError, match="16384"):
        parse("x" * 16_385, JMS)


def test_deep_parentheses() -> None:
    """As deep as is allowed, in a stack that is deep already."""
    text = "(" * 40 + "weight + 1 = 2501 AND NOT late" + ")" * 40

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else value(text)

    assert deep(300) is True
    with pytest.raises(SelectorError, match="nested more than 40 deep"):
        parse("(" * 41 + "late" + ")" * 41, JMS)


def test_huge_numbers() -> None:
    """Arithmetic goes on with real numbers beyond those that messages have, and so costs no more than others."""
    assert value(" * ".join(["9223372036854775807"] * 400) + " > 1") is True
    assert value(" * ".join(["9223372036854775807"] * 400) + " * 1.5 > 1") is True
    assert value("9223372036854775807 + 1 = 9223372036854775808") is True
    real = value(" * ".join(["9223372036854775807"] * 3) + " * 0.5 = 3.9231885846166754773973683894730665e56")
    assert real is True
    assert value("1E308 * 10 > 1E308") is True


@pytest.mark.parametrize("kind", [list, str, bytes])
def test_long_values(kind: Any) -> None:
    """Comparing long values with each other counts as LIKE does: beyond that the answer is unknown."""
    long: Any = {list: [0] * 100_000, str: "x" * 100_000, bytes: b"x" * 100_000}[kind]
    other: Any = long[:-1] + {list: [1], str: "y", bytes: b"y"}[kind]
    message = Message(message_annotations={"x": long, "y": other, "short": long[:1]})
    assert value("m.x = m.y", message) is False
    assert value("m.x = m.y OR " * 2 + "m.short = m.x", message) is False
    assert value("m.x = m.y OR " * 500 + "m.x = m.x", message) is None
    assert value("m.x IN ('a'" + ", 'b'" * 1000 + ")", message) in (False, None)


@pytest.mark.parametrize("condition", ["m.x = m.y", "m.v = m.w", "m.x > m.y", "m.v >= m.w", "m.x IN ('a')", "m.x = 1"])
def test_signaling_numbers(condition: str) -> None:
    """Numbers that raise where they are compared are equal to none, and so it is within lists and maps."""
    number = Decimal128(Decimal("sNaN"))
    annotations = {"v": {"a": number}, "w": {"a": number}, "x": [number], "y": [number]}
    message = Message(message_annotations=annotations)
    assert value(condition, message) is not True


def test_names_of_every_alphabet() -> None:
    """Java's identifiers are letters of any alphabet, digits, _ and $."""
    properties = {"größe": 1, "_a$b1": 2, "$": 3, "имя": 4}
    for name, number in properties.items():
        assert value(f"{name} = {number}", Message(application_properties=properties)) is True
    assert value("size = 1", Message(application_properties={"size": UInt(1), "other": ULong(2)})) is True


def seen(source: Candidate | Message) -> str:
    """The properties and application properties of a message, or what a filter sees of it; "": it is malformed."""
    read = source.field if isinstance(source, Candidate) else lambda name: getattr(source, name)
    try:
        fields = {name: read(name) for name in PropertyValues.__annotations__}
        return repr((fields, source.application_properties))
    except DecodeError:
        return ""


@given(messages(), st.sampled_from(["", "s", "s" * 300]), st.integers(0, 80), st.integers(0, 255))
def test_a_part_alone_is_what_it_is_in_the_whole(message: Message, subject: str, place: int, octet: int) -> None:
    """With an octet changed, too: a filter sees what the message says, if all of it can be read."""
    message.subject = subject or None
    whole = message.encode()
    changed = bytearray(whole)
    changed[place % len(changed)] = octet
    for payload in (whole, bytes(changed)):
        found = seen(Candidate(QueuedMessage(payload)))
        try:
            decoded = Message.decode(payload)
            decoded.check()
        except DecodeError:
            continue
        assert found == seen(decoded)


@pytest.mark.parametrize("name", ["subject", "region"])
def test_no_other_part_is_decoded(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A selector on a string or an application property does not read the rest of the message."""
    monkeypatch.setattr("amqp10.broker._filters.selector.values.fast", None)
    monkeypatch.delattr(Message, "decode")
    text = "p.subject = 'order.created'" if name == "subject" else "region = 'eu'"
    assert value(text) is True
    assert value("p.to IS NULL AND region IS NULL", Message(b"x")) is True


@pytest.mark.parametrize(
    "front",
    [
        "0053 73 c0 05 04 40 40 40",  # the list ends before its fields
        "0053 73 c0 07 04 40 40 40 a1 05 61",  # and within one
        "0053 73 c0 07 04 40 40 40 a1 01 ff",  # no UTF-8
        "0053 73 c0 07 04 40 40 40 a3 01 61",  # a symbol
        "0053 73 d0 00 00",
        "0053 74 c1 03 02 a1 01",
        "0053 74 d1 00 00",
        "0053 74 c1 ff 02 a1 01",
        "0053 ff",
        "00",
    ],
)
def test_what_is_malformed_does_not_pass(front: str) -> None:
    """What a filter asks for is checked as in a message that is read whole."""
    candidate = Candidate(QueuedMessage(bytes.fromhex(front)))
    with pytest.raises(DecodeError):
        assert candidate.field("subject") is candidate.application_properties
