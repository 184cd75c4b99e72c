"""The words of a selector: grammars of SQL conditions, cut into tokens in linear time.

JMS is that of Jakarta Messaging 3.1, 3.8.1.1, with the quoted identifiers that Artemis and Broker-J add. SQL is that of
the AMQP filter expressions 1.0, section 6, as far as RabbitMQ has it:
https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929276
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .fields import jms_field, section_field
from .values import Value

# Jakarta Messaging gives its exact numbers the range of a Java long. One more, for the sign is not part of the literal.
_MOST = 2**63


class SelectorError(ValueError):
    """The text is no condition; says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word.

    Attributes:
        kind: "name", "string", "number", "binary", "end", or the keyword or operator itself.
        value: of a name, string, number or binary.
        at: where it begins, characters from 0.
    """

    kind: str
    value: Any
    at: int


@dataclass(frozen=True, slots=True)
class Grammar:
    """What makes one of the two languages.

    Attributes:
        name: what to call it.
        pattern: one word, by a group for each kind of word.
        keywords: reserved, in capitals; case does not matter in the text.
        orders_strings: strings can be compared by < and its like; in JMS they are equal or not.
        lists_strings_only: IN takes string literals, not expressions.
        find: makes the value of a name, or raises ValueError where that means nothing.
        has_between: there is BETWEEN.
        has_exists: there is EXISTS (name).
        strict: to compare, or to compute with, values of the wrong kinds raises Incomparable.
        functions: by their names in small letters: how many values each is given, and what makes its own of these.
        parameters: what names with "@" before them stand for.
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
    """Split a selector into its tokens, with "end" after them.

    Raises:
        SelectorError: there is something that is no word.
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
    # A leading zero is an octal number in Java, and so in JMS.
    base = 16 if group == "hex" else 8 if group == "integer" and word[0] == "0" else 10
    try:
        number = int(word.rstrip("lL"), base)
    except ValueError:
        number = _MOST + 1
    if number > _MOST:
        what = "this is no octal number" if base == 8 else "this number does not fit 64 bits"
        raise wrong(grammar, text, at, what)
    return Token("number", number, at)


def wrong(grammar: Grammar, text: str, at: int, what: str) -> SelectorError:
    """Make the error that says what is wrong, and at which place of the text."""
    before = text[max(0, at - 30) : at]
    after = text[at : at + 30]
    return SelectorError(f"{grammar.name}, character {at + 1}: {what}: {before}>>>{after}")
