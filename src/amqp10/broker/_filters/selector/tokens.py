"""The tokens of a selector: the lexical grammars of two SQL dialects, applied in linear time.

JMS is that of Jakarta Messaging 3.1, 3.8.1.1, with the quoted identifiers that Artemis and Broker-J add. SQL is the
part of the AMQP filter expressions 1.0, section 6, that RabbitMQ implements:
https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929276
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .fields import jms_field, section_field
from .values import Value

# Exact numbers of Jakarta Messaging have the range of a Java long. The sign is not part of the literal, hence one more.
_MAX_MAGNITUDE = 2**63


class SelectorError(ValueError):
    """The text is not a condition; the message says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: "name", "string", "number", "binary", "end", or the keyword or operator itself.
        value: that of a name, string, number or binary.
        at: where it begins, in characters from 0.
    """

    kind: str
    value: Any
    at: int


@dataclass(frozen=True, slots=True)
class Grammar:
    """One of the two languages.

    Attributes:
        name: what to call it.
        pattern: matches one token, with a group for each kind of token.
        keywords: reserved words in capitals; the text may have them in any case.
        orders_strings: whether <, <=, > and >= compare strings; in JMS strings are only equal or not.
        lists_strings_only: whether IN takes only string literals, and no expressions.
        find: returns the value of a name, or raises ValueError if there is no such name.
        has_between: whether the language has BETWEEN.
        has_exists: whether the language has EXISTS (name).
        strict: whether comparing, or computing with, values of the wrong kinds raises Incomparable.
        functions: by name in lowercase: the number of arguments, and a function that makes the value of a call from
            them.
        parameters: the values of names with "@" before them.
    """

    name: str
    pattern: re.Pattern[str]
    keywords: frozenset[str]
    orders_strings: bool
    lists_strings_only: bool
    find: Callable[[str], Value]
    has_between: bool = False
    has_exists: bool = False
    strict: bool = False
    functions: Mapping[str, tuple[int, Callable[..., Value]]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)


JMS: Final = Grammar(
    "JMS selector",
    re.compile(
        r"""(?P<space>[ \t\f\r\n]+)
          | (?P<string>'[^']*(?:''[^']*)*')
          | (?P<quoted>"[^"]*(?:""[^"]*)*")
          | (?P<hex>0[xX][0-9a-fA-F]+[lL]?)
          | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|[0-9]+(?:[eE][+-]?[0-9]+[fFdD]?|[fFdD]))
          | (?P<integer>[0-9]+[lL]?)
          | (?P<name>(?:[^\W\d]|\$)[\w$]*(?:\.(?:[^\W\d]|\$)[\w$]*)*)
          | (?P<operator><>|<=|>=|[=<>+\-*/%(),])""",
        re.VERBOSE,
    ),
    frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")),
    orders_strings=False,
    lists_strings_only=True,
    find=jms_field,
    has_between=True,
)

SQL: Final = Grammar(
    "SQL filter",
    re.compile(
        r"""(?P<space>[ \t\f\r\n]+)
          | (?P<string>'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*")
          | (?P<binary>0x(?:[0-9a-fA-F]{2})+)
          | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?)
          | (?P<decimal>[0-9]+)
          | (?P<bracketed>\[(?:[^\[\]]|\[\[|\]\])*\])
          | (?P<name>(?:(?:application|message)-(?:properties|annotations)\.)?[A-Za-z]\w*(?:\.[A-Za-z]\w*)?)
          | (?P<operator><>|!=|<=|>=|[=<>+\-*/%(),])""",
        re.VERBOSE | re.ASCII,
    ),
    frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "LIKE", "IN", "IS", "ESCAPE", "EXISTS", "UTC")),
    orders_strings=True,
    lists_strings_only=False,
    find=section_field,
)


def tokens(text: str, grammar: Grammar) -> Iterator[Token]:
    """Split a selector into its tokens, followed by an "end" token.

    Raises:
        SelectorError: a part of the text is not a token.
    """
    at = 0
    while at < len(text):
        match = grammar.pattern.match(text, at)
        if match is None:
            raise wrong(grammar, text, at, "this quote is not closed" if text[at] in "'\"[" else "unexpected character")
        group = match.lastgroup
        assert group is not None
        if group != "space":
            yield _token(group, match[0], at, text, grammar)
        at = match.end()
    yield Token("end", None, at)


def _token(group: str, word: str, at: int, text: str, grammar: Grammar) -> Token:
    if group == "name":
        keyword = word.upper()
        return Token(keyword, None, at) if keyword in grammar.keywords else Token("name", word, at)
    if group == "parameter":
        return Token("parameter", word, at)
    if group == "operator":
        return Token("<>" if word == "!=" else word, None, at)
    if group in ("string", "quoted"):
        quote = word[0]
        return Token("string" if group == "string" else "field", word[1:-1].replace(quote * 2, quote), at)
    if group == "bracketed":
        return Token("field", word[1:-1].replace("[[", "[").replace("]]", "]"), at)
    if group == "binary":
        return Token("binary", bytes.fromhex(word[2:]), at)
    if group == "float":
        return Token("number", float(word.rstrip("fFdD")), at)
    # As in Java, a leading zero makes a number octal in JMS.
    base = 16 if group == "hex" else 8 if group == "integer" and word[0] == "0" else 10
    try:
        number = int(word.rstrip("lL"), base)
    except ValueError:
        number = _MAX_MAGNITUDE + 1
    if number > _MAX_MAGNITUDE:
        what = "this is no octal number" if base == 8 else "this number does not fit 64 bits"
        raise wrong(grammar, text, at, what)
    return Token("number", number, at)


def wrong(grammar: Grammar, text: str, at: int, what: str) -> SelectorError:
    """Return the error that says what is wrong, with the text around the place `at`."""
    before = text[max(0, at - 30) : at]
    after = text[at : at + 30]
    return SelectorError(f"{grammar.name}, character {at + 1}: {what}: {before}>>>{after}")
