"""Messages and selectors on which the brokers have to agree, and where they do not, which one departs and how."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from amqp10 import Byte, Float, Message, UInt


def message(number: int, properties: dict[str, Any] | None = None, **fields: Any) -> Message:
    """A message whose body is its number."""
    return Message(number, application_properties=properties or {}, **fields)


MESSAGES = [
    message(0),
    message(1, {"region": "eu", "weight": 10, "urgent": True}, priority=9, subject="order.created"),
    message(2, {"region": "us", "weight": 20, "urgent": False}, durable=True, subject="order.updated"),
    message(3, {"region": "EU", "weight": 10.0, "name": "it's"}),
    message(4, {"region": "", "weight": Float(2.5), "name": "a%b"}, message_id="ID:four"),
    message(5, {"weight": Byte(-3), "name": "a_b"}, correlation_id="corr"),
    message(6, {"region": "eu", "weight": 3_000_000_000, "unsigned": UInt(7), "name": "axb"}, group_id="group"),
    message(7, {"region": 7, "weight": "10", "urgent": "TRUE"}),
    message(8, {"region": True, "name": "a\\b"}),
    message(9, {"weight": 2**40, "name": "line\nbreak", "other": 2**40}, user_id=b"user"),
    message(10, {"weight": 10, "other": 20, "region": "uk"}, creation_time=datetime(2024, 1, 1, tzinfo=UTC)),
    message(11, {"weight": 0, "other": 0.5, "urgent": True, "_a$1": "x"}),
]

# Every one of these selects the same messages everywhere.
AGREED = r"""
TRUE
FALSE
region = 'eu'
region = 'EU'
region = ''
region = 7
region = '7'
region <> 'eu' AND region IS NOT NULL
NOT (region = 'eu') AND region IS NOT NULL
weight = other AND other IS NOT NULL
weight + 10 = other AND other IS NOT NULL
weight * 2 = other AND other IS NOT NULL
-other < -1
urgent IS NOT NULL AND urgent <> TRUE
region IS NOT NULL AND region <> 7
region IS NOT NULL AND NOT (region = 7)
weight = 10
weight = 10.0
weight = 1E1
weight = 0xA
weight = 012
weight = 10L
weight = +10
weight = -3
weight = 2.5
weight = .25E1
weight > 10
weight >= 10
weight < 10
weight <= 10
weight > 2000000000
weight > 1099511627775
weight = 1099511627776
weight < other
weight - other = 0
weight / 4 = 2.5
weight / 4 > 2 AND weight / 4 < 3
weight % 7 = 3
1 + 2 * 3 = 7
(1 + 2) * 3 = 9
10 - 2 - 3 = 5
weight BETWEEN 0 AND 10
weight BETWEEN -5 AND 2.5
weight NOT BETWEEN 0 AND 10
weight BETWEEN other AND 100
region IN ('eu')
region IN ('eu', 'us', 'EU')
region NOT IN ('eu', 'us')
weight IN ('10')
region LIKE 'e%'
region LIKE '_u'
region LIKE '%'
region LIKE 'eu'
region NOT LIKE 'e%' AND name IS NOT NULL
name LIKE 'a_b'
name LIKE 'a\_b' ESCAPE '\'
name LIKE 'a!%b' ESCAPE '!'
name LIKE 'a!!b' ESCAPE '!'
name LIKE '%\\%' ESCAPE '\'
name LIKE 'it''s'
name LIKE '%''%'
name LIKE 'line%'
name LIKE 'line_break'
name = 'it''s'
weight LIKE '1%'
urgent
NOT urgent
urgent = TRUE
urgent = FALSE
urgent = 'TRUE'
region IS NULL
region IS NOT NULL
urgent IS NULL AND weight IS NULL
nothing IS NULL
nothing IS NOT NULL
nothing > 1
nothing BETWEEN 1 AND 2
nothing LIKE 'a%'
nothing NOT LIKE 'a%'
nothing IN ('a')
nothing NOT IN ('a')
NOT (nothing > 1)
nothing > 1 OR weight = 10
nothing > 1 AND weight = 10
nothing + 1 > 0
urgent AND weight = 10
urgent OR weight = 20
urgent AND weight = 10 OR region = 'us'
urgent AND (weight = 10 OR region = 'us')
region = 'us' OR urgent AND weight = 0
not (region = 'eu') and weight between 1 and 100 or region is null and urgent
region IS NOT NULL AND region<>'eu'AND(weight>=20)
_a$1 = 'x'
"region" = 'eu'
JMSPriority = 9
JMSPriority > 4
JMSPriority = 4
JMSDeliveryMode = 'PERSISTENT'
JMSDeliveryMode = 'NON_PERSISTENT'
JMSDeliveryMode <> 'PERSISTENT'
JMSMessageID = 'ID:four'
JMSMessageID IS NULL
JMSCorrelationID = 'corr'
JMSCorrelationID IS NOT NULL
JMSTimestamp = 1704067200000
JMSTimestamp > 0
JMSTimestamp = 0
JMSType = 'order.created'
JMSType LIKE 'order.%'
JMSType IS NULL
weight = '10'
region > 5
weight > 10 = TRUE
urgent = TRUE OR region LIKE 'u_'
weight / 0 = 1
weight <> 0 AND weight / 0 > 1
region + 1 = 8
region NOT IN ('7')
""".strip().splitlines()

# Here a broker departs from Jakarta Messaging 3.8.1: what it selects instead.
DEPARTURES: dict[str, dict[str, list[int]]] = {
    # Two unknown values are equal.
    "weight = other": {"artemis": [0, 8, 9], "broker_j": [0, 8, 9]},
    # A comparison with an unknown value is false, not unknown, so that its opposite is true.
    "NOT (nothing = 1)": {"broker_j": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]},
    "nothing <> 1": {"broker_j": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]},
    # AND and OR with an unknown part on the left are unknown, or what is on the right.
    "NOT (nothing > 1 AND FALSE)": {"broker_j": []},
    "NOT (nothing > 1 OR weight = 10)": {"broker_j": [0, 2, 4, 5, 6, 7, 8, 9, 11]},
    # NOT belongs to the name that follows.
    "NOT weight = 10": {"artemis": [], "broker_j": [0, 2, 4, 5, 6, 7, 8, 9, 11]},
    # An unsigned number is not comparable.
    "unsigned = 7": {"broker_j": []},
    # A byte has no sign to change.
    "-weight = 3": {"artemis": [], "broker_j": []},
    # Names that begin with JMSX are application properties.
    "JMSXGroupID = 'group'": {"broker_j": []},
    "JMSXUserID = 'user'": {"broker_j": []},
}
