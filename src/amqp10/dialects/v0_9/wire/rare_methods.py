"""The methods that 0-9 final and the draft 0-9 have beyond 0-9-1: a few that are used, and rows of those never used.

A row is a method that is known for the codec and the trace alone: a peer that sends it is told that it is not
implemented (540). It has the method's name, its class and number, `*` if content follows it, the name of a method
whose fields it has, too, and then its own fields, `name:type`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..._kit.fields import Field
from .fields import bit, content, instant, long, longlong, longstr, octet, short, shortstr, table
from .method_table import Method
from .methods import METHODS


class ExchangeBound(Method, name="exchange.bound", code=(40, 22)):
    """Ask whether something is bound to an exchange; Qpid's."""

    exchange: str = shortstr()
    routing_key: str = shortstr()
    queue: str = shortstr()


class ExchangeBoundOk(Method, name="exchange.bound-ok", code=(40, 23)):
    reply_code: int = short()
    reply_text: str = shortstr()


class BasicRecoverSyncOk(Method, name="basic.recover-sync-ok", code=(60, 101)):
    """Answer `BasicRecoverSync`."""


class BasicRecoverSync(Method, name="basic.recover-sync", code=(60, 102)):
    """Ask for all unacknowledged messages again; Qpid's."""

    requeue: bool = bit()


_DECLARE: Final[dict[str, Callable[[], Field]]] = {
    "octet": octet,
    "short": short,
    "long": long,
    "longlong": longlong,
    "shortstr": shortstr,
    "longstr": longstr,
    "bit": bit,
    "table": table,
    "timestamp": instant,
    "content": content,
}

_ROWS_0_9: Final = """
connection.redirect 10 42 host:shortstr known_hosts:shortstr
channel.resume 20 50 channel_id:longstr
channel.ping 20 60
channel.pong 20 70
channel.ok 20 80
file.qos 70 10 basic.qos
file.qos-ok 70 11
file.consume 70 20 ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit
    filter:table
file.consume-ok 70 21 basic.consume-ok
file.cancel 70 30 basic.cancel
file.cancel-ok 70 31 basic.cancel-ok
file.open 70 40 identifier:shortstr content_size:longlong
file.open-ok 70 41 staged_size:longlong
file.stage 70 50 *
file.publish 70 60 basic.publish identifier:shortstr
file.return 70 70 * basic.return
file.deliver 70 80 basic.deliver identifier:shortstr
file.ack 70 90 basic.ack
file.reject 70 100 basic.reject
stream.qos 80 10 prefetch_size:long prefetch_count:short consume_rate:long global_:bit
stream.qos-ok 80 11
stream.consume 80 20 ticket:short queue:shortstr consumer_tag:shortstr no_local:bit exclusive:bit nowait:bit
    filter:table
stream.consume-ok 80 21 basic.consume-ok
stream.cancel 80 30 basic.cancel
stream.cancel-ok 80 31 basic.cancel-ok
stream.publish 80 40 * basic.publish
stream.return 80 50 * basic.return
stream.deliver 80 60 * consumer_tag:shortstr delivery_tag:longlong exchange:shortstr queue:shortstr
dtx.select 100 10
dtx.select-ok 100 11
dtx.start 100 20 dtx_identifier:shortstr
dtx.start-ok 100 21
tunnel.request 110 10 * meta_data:table
message.transfer 120 10 ticket:short destination:shortstr redelivered:bit immediate:bit ttl:longlong priority:octet
    timestamp:timestamp delivery_mode:octet expiration:timestamp exchange:shortstr routing_key:shortstr
    message_id:shortstr correlation_id:shortstr reply_to:shortstr content_type:shortstr content_encoding:shortstr
    user_id:shortstr app_id:shortstr transaction_id:shortstr security_token:longstr application_headers:table
    body:content
message.consume 120 20 ticket:short queue:shortstr destination:shortstr no_local:bit no_ack:bit exclusive:bit
    filter:table
message.cancel 120 30 destination:shortstr
message.get 120 40 ticket:short queue:shortstr destination:shortstr no_ack:bit
message.recover 120 50 basic.recover
message.open 120 60 reference:longstr
message.close 120 70 reference:longstr
message.append 120 80 reference:longstr bytes:longstr
message.checkpoint 120 90 reference:longstr identifier:shortstr
message.resume 120 100 reference:longstr identifier:shortstr
message.qos 120 110 basic.qos
message.ok 120 500
message.empty 120 510
message.reject 120 520 code_:short text:shortstr
message.offset 120 530 value:longlong
"""

_ROWS_0_8: Final = """
channel.alert 20 30 reply_code:short reply_text:shortstr details:table
test.integer 120 10 integer_1:octet integer_2:short integer_3:long integer_4:longlong operation:octet
test.integer-ok 120 11 result:longlong
test.string 120 20 string_1:shortstr string_2:longstr operation:octet
test.string-ok 120 21 result:longstr
test.table 120 30 table:table integer_op:octet string_op:octet
test.table-ok 120 31 integer_result:longlong string_result:longstr
test.content 120 40 *
test.content-ok 120 41 * content_checksum:long
"""


def _read_rows(rows: str) -> tuple[type[Method], ...]:
    """Return a class of method for each row; a line that begins with blanks continues the row before it."""
    known = {each.name: each for each in METHODS}
    made: list[type[Method]] = []
    for row in rows.strip().replace("\n  ", " ").splitlines():
        name, number, index, *rest = row.split()
        base: type[Method] = Method
        fields: dict[str, Field] = {}
        for word in rest:
            field, colon, kind = word.partition(":")
            if colon:
                fields[field] = _DECLARE[kind]()
            elif word != "*":
                base = known[word]
        title = name.title().replace(".", "").replace("-", "")
        code = int(number), int(index)
        make: Any = type  # whose signature does not know of a class's own arguments
        made.append(make(title, (base,), fields, name=name, code=code, carries="*" in rest))
    return tuple(made)


UNIMPLEMENTED_0_9: Final = _read_rows(_ROWS_0_9)
UNIMPLEMENTED_0_8: Final = _read_rows(_ROWS_0_8)
"""The methods of 0-8, and of the draft 0-9 with it, that no later version has."""
UNIMPLEMENTED: Final = frozenset((*UNIMPLEMENTED_0_9, *UNIMPLEMENTED_0_8))
"""The methods that are refused with 540."""
METHODS_0_9: Final[tuple[type[Method], ...]] = (
    *(ExchangeBound, ExchangeBoundOk, BasicRecoverSyncOk, BasicRecoverSync),
    *UNIMPLEMENTED_0_9,
)
"""All methods that 0-9 final has beyond 0-9-1."""
