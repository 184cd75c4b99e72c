"""What 0-8 has and no later version, and the draft 0-9 with it: channel.alert, and a class to test codecs with."""

from __future__ import annotations

from typing import Any

from ._fields import long, longlong, longstr, octet, short, shortstr, table
from ._method import Method, declared

# Class channel (20)


class ChannelAlert(Method, name="channel.alert", code=(20, 30)):
    reply_code: int = short()
    reply_text: str = shortstr()
    details: dict[str, Any] | None = table()


# Class test (120)


class TestInteger(Method, name="test.integer", code=(120, 10)):
    integer_1: int = octet()
    integer_2: int = short()
    integer_3: int = long()
    integer_4: int = longlong()
    operation: int = octet()


class TestIntegerOk(Method, name="test.integer-ok", code=(120, 11)):
    result: int = longlong()


class TestString(Method, name="test.string", code=(120, 20)):
    string_1: str = shortstr()
    string_2: bytes = longstr()
    operation: int = octet()


class TestStringOk(Method, name="test.string-ok", code=(120, 21)):
    result: bytes = longstr()


class TestTable(Method, name="test.table", code=(120, 30)):
    table: dict[str, Any] | None = table()
    integer_op: int = octet()
    string_op: int = octet()


class TestTableOk(Method, name="test.table-ok", code=(120, 31)):
    integer_result: int = longlong()
    string_result: bytes = longstr()


class TestContent(Method, name="test.content", code=(120, 40), carries=True):
    pass


class TestContentOk(Method, name="test.content-ok", code=(120, 41), carries=True):
    content_checksum: int = long()


METHODS_0_8: tuple[type[Method], ...] = declared(vars())
"""All of the above."""
