"""Encodes rows as messages: the reverse of `decode`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from ..._json import parse_json
from ...messaging import AmqpValue, Message
from .._options import Options
from .schema import BY_NAME
from .text import id_value
from .variant import is_variant, variant_to_amqp

_CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    "message_id": id_value,
    "correlation_id": id_value,
    "ttl": lambda value: timedelta(milliseconds=value),
    "user_id": lambda value: value.encode() if isinstance(value, str) else value,
    "group_sequence": lambda value: value & 0xFFFF_FFFF,
    "application_properties": dict,
    "message_annotations": dict,
}


class Rows:
    """Turns the record batches that one task writes into messages.

    Args:
        options: `bodyFormat`, `messageIds`, `duplicateIdProperty`, `durable`.
        prefix: beginning of the message-ids that are made for rows without one; the same when the task is repeated.
    """

    def __init__(self, options: Options, prefix: str) -> None:
        self._options = options
        self._prefix = prefix
        self.count = 0
        self._body = _BODY[options.body_format]

    def messages(self, batch: pa.RecordBatch) -> Iterator[Message]:
        """Yield a message for each row, in order.

        Raises:
            ValueError: a row cannot be a message; the error names it.
        """
        columns = {
            name: self._values(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if BY_NAME[name].written
        }
        for column in columns:
            if is_variant(batch.schema.field(column).type):
                columns[column] = self._of_variants(column, columns[column])
        bodies = columns.pop("body")
        body_is_variant = is_variant(batch.schema.field("body").type)
        names = list(columns)
        for index, values in enumerate(zip(*columns.values(), strict=True)) if names else enumerate([()] * len(bodies)):
            try:
                body = bodies[index]
                message = Message(AmqpValue(body)) if body_is_variant and body is not None else self._body(body)
                for name, value in zip(names, values, strict=True):
                    if value is not None:
                        convert = _CONVERT.get(name)
                        setattr(message, name, value if convert is None else convert(value))
                self._complete(message, "durable" in columns)
            except (ValueError, TypeError) as error:
                message_id = dict(zip(names, values, strict=True)).get("message_id")
                which = "" if message_id is None else f", message-id {message_id!r}"
                raise ValueError(f"amqp: row {self.count} of the task{which}: {error}") from None
            self.count += 1
            yield message

    def _values(self, name: str, column: pa.Array) -> list[Any]:
        try:
            return column.to_pylist()  # type: ignore[no-any-return]
        except (ValueError, OverflowError):  # a timestamp beyond Python's calendar
            for index, each in enumerate(column):
                try:
                    each.as_py()
                except (ValueError, OverflowError) as error:
                    raise ValueError(f"amqp: row {self.count + index} of the task: its {name}: {error}") from None
            raise

    def _of_variants(self, name: str, values: list[Any]) -> list[Any]:
        found = []
        for index, parts in enumerate(values):
            try:
                found.append(None if parts is None else variant_to_amqp(parts))
            except ValueError as error:
                raise ValueError(f"amqp: row {self.count + index} of the task: its {name}: {error}") from None
        return found

    def _complete(self, message: Message, durable_given: bool) -> None:
        options = self._options
        if options.durable and not durable_given and not message.durable:
            message.durable = True
        if message.message_id is None:
            if options.message_ids == "column":
                raise ValueError("its message_id is null, and messageIds is 'column'")
            if options.message_ids == "auto":
                message.message_id = f"{self._prefix}/{self.count}"
        if options.duplicate_id_property is not None and message.message_id is not None:
            message.application_properties[options.duplicate_id_property] = str(message.message_id)
        if options.address is None and message.to is None:
            raise ValueError("it has no address: set the option 'address' or its column `to`")


def _of_bytes_or_text(body: Any) -> Message:
    """Encode bytes as data and text as a value: a bytes message and a text message of JMS."""
    return Message(body)


def _of_json(body: Any) -> Message:
    try:
        return Message(None if body is None else AmqpValue(parse_json(body)))
    except ValueError as error:
        raise ValueError(f"its body is not JSON: {error}") from None


def _of_payload(body: Any) -> Message:
    message = Message.decode(body or b"")
    # These fields describe the previous hop: reset them before sending.
    message.delivery_count, message.first_acquirer, message.delivery_annotations = 0, False, {}
    message.check()  # so that the error comes from here, not from the broker
    return message


_BODY: Final[dict[str, Callable[[Any], Message]]] = {
    "binary": _of_bytes_or_text,
    "string": _of_bytes_or_text,
    "json": _of_json,
    "amqp": _of_payload,
}
