"""The commands of files and streams (0-10 §10.7, §10.8): no known server does them, and they are refused with 540.

A row has the name, the class code, the code within the class, `*` if content follows, and the fields as `name:type`,
with `!` after the type of a required field.
"""

from __future__ import annotations

from typing import Any, Final

from .struct import Command, Struct, field

_STRUCTS: Final = """
file.file-properties 9 1 content_type:str8 content_encoding:str8 headers:map priority:uint8 reply_to:str8
    message_id:str8 filename:str8 timestamp:datetime cluster_id:str8
stream.stream-properties 10 1 content_type:str8 content_encoding:str8 headers:map priority:uint8 timestamp:datetime
"""

_COMMANDS: Final = """
file.qos 9 1 prefetch_size:uint32 prefetch_count:uint16 global_:bit
file.qos-ok 9 2
file.consume 9 3 queue:str8 consumer_tag:str8 no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:map
file.consume-ok 9 4 consumer_tag:str8
file.cancel 9 5 consumer_tag:str8
file.open 9 6 identifier:str8 content_size:uint64
file.open-ok 9 7 staged_size:uint64
file.stage 9 8 *
file.publish 9 9 exchange:str8 routing_key:str8 mandatory:bit immediate:bit identifier:str8
file.return 9 10 * reply_code:uint16 reply_text:str8 exchange:str8 routing_key:str8
file.deliver 9 11 consumer_tag:str8 delivery_tag:uint64 redelivered:bit exchange:str8 routing_key:str8 identifier:str8
file.ack 9 12 delivery_tag:uint64 multiple:bit
file.reject 9 13 delivery_tag:uint64 requeue:bit
stream.qos 10 1 prefetch_size:uint32 prefetch_count:uint16 consume_rate:uint32 global_:bit
stream.qos-ok 10 2
stream.consume 10 3 queue:str8 consumer_tag:str8 no_local:bit exclusive:bit nowait:bit arguments:map
stream.consume-ok 10 4 consumer_tag:str8
stream.cancel 10 5 consumer_tag:str8
stream.publish 10 6 * exchange:str8 routing_key:str8 mandatory:bit immediate:bit
stream.return 10 7 * reply_code:uint16 reply_text:str8 exchange:str8 routing_key:str8
stream.deliver 10 8 * consumer_tag:str8 delivery_tag:uint64 exchange:str8 queue:str8!
"""


def _read_rows(rows: str, base: type[Any]) -> dict[str, type[Any]]:
    """Return a class for each row, by its name."""
    made: dict[str, type[Any]] = {}
    for row in rows.strip().replace("\n  ", " ").splitlines():
        name, class_code, own_code, *rest = row.split()
        fields = {}
        for each, _, kind in (word.partition(":") for word in rest if word != "*"):
            fields[each] = field(kind.rstrip("!"), required=kind.endswith("!"))
        title = (name if base is Command else name.partition(".")[2]).title().replace(".", "").replace("-", "")
        facts = {"name": name, "code": int(class_code) << 8 | int(own_code)}
        if base is Command:
            facts["content"] = "*" in rest
        made[name] = type(title, (base,), fields, **facts)
    return made


_read_rows(_STRUCTS, Struct)
UNIMPLEMENTED: Final[dict[str, type[Command]]] = _read_rows(_COMMANDS, Command)
"""The commands that a peer may send and that are refused, by name."""
