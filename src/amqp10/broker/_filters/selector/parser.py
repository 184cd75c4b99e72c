"""From the tokens of a selector to the closure that computes it: recursive descent, one method for each precedence.

condition    = conjunction {OR conjunction}
conjunction  = inversion {AND inversion}
inversion    = {NOT} predicate
predicate    = relation {(= | <>) relation}
relation     = sum [(< | <= | > | >=) sum | [NOT] (BETWEEN | IN | LIKE) ... | IS [NOT] NULL]
sum          = product {(+ | -) product}
product      = signed {(* | / | %) signed}
signed       = {+ | -} primary
primary      = literal | name | parameter | EXISTS "(" name ")" | function "(" [sum {"," sum}] ")" | "(" condition ")"
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .fields import application_property
from .tokens import Grammar, SelectorError, Token, tokens, wrong
from .values import (
    ORDERINGS,
    Constant,
    Value,
    arithmetic,
    conjunction,
    disjunction,
    equality,
    is_null,
    likeness,
    membership,
    minus,
    negation,
    numeric,
    ordering,
    plain,
    string_membership,
    truth,
)

# In characters: enough for lists of hundreds of strings.
_MAX_LENGTH = 16_384
# How deep parentheses may be nested: each level takes some stack frames, while parsing and in each evaluation.
_MAX_DEPTH = 40
# Names and values; each takes some steps in each evaluation. A list of strings after IN counts once.
_MAX_VALUES = 4000

Kind = Literal["condition", "number", "string", "binary", "field"]


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a selector, as far as it is known without a message; the kind of a field is then unknown."""

    kind: Kind
    value: Value
    at: int


def parse(text: str, grammar: Grammar) -> Value:
    """Return the closure that evaluates the condition in `text`.

    Raises:
        SelectorError: `text` is not a condition, is longer than 16,384 characters, has more than 4000 names and values,
            or is nested deeper than 40 parentheses.
    """
    if len(text) > _MAX_LENGTH:
        raise SelectorError(f"a {grammar.name} of more than {_MAX_LENGTH} characters")
    return Parser(text, grammar).whole()


class Parser:
    """Parses a text token by token. To parse a whole condition, call `parse`."""

    def __init__(self, text: str, grammar: Grammar) -> None:
        self._text = text
        self._grammar = grammar
        self._tokens = tokens(text, grammar)
        self._token: Token = next(self._tokens)
        self._depth = 0
        self._values = 0

    def whole(self) -> Value:
        """Parse the whole text as a condition; see `parse`."""
        condition = self._as_condition(self._condition())
        if self._token.kind != "end":
            raise self.wrong("the condition is over before this")
        return condition

    # Tokens

    def wrong(self, what: str, at: int | None = None) -> SelectorError:
        """Return the error that describes what is wrong at a place, by default at the current token."""
        return wrong(self._grammar, self._text, self._token.at if at is None else at, what)

    def _take(self) -> Token:
        token = self._token
        if token.kind == "(":  # of conditions, lists, functions and EXISTS: whatever is within calls this anew
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise self.wrong(f"parentheses are nested more than {_MAX_DEPTH} deep")
        elif token.kind == ")":
            self._depth -= 1
        if token.kind != "end":
            self._token = next(self._tokens)
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of this kind; return whether it was."""
        if self._token.kind != kind:
            return False
        self._take()
        return True

    def expect(self, kind: str) -> Token:
        """Consume and return the next token, which must be of this kind.

        Raises:
            SelectorError: it is of another kind.
        """
        if self._token.kind != kind:
            raise self.wrong(f"expected {'a quoted string' if kind == 'string' else kind}")
        return self._take()

    @property
    def over(self) -> bool:
        """Whether all tokens are consumed."""
        return self._token.kind == "end"

    def value(self) -> Value:
        """Parse a value, such as one side of a comparison; see `parse`."""
        return self._sum().value

    # Conditions

    def _as_condition(self, node: Node) -> Value:
        if node.kind == "condition":
            return node.value
        if node.kind == "field":
            return truth(node.value)
        raise self.wrong(f"a {node.kind} is not a condition", node.at)

    def _condition(self) -> Node:
        first = self._conjunction()
        if self._token.kind == "OR":
            parts = [self._as_condition(first)]
            while self.accept("OR"):
                parts.append(self._as_condition(self._conjunction()))
            first = Node("condition", disjunction(parts), first.at)
        return first

    def _conjunction(self) -> Node:
        first = self._inversion()
        if self._token.kind != "AND":
            return first
        parts = [self._as_condition(first)]
        while self.accept("AND"):
            parts.append(self._as_condition(self._inversion()))
        return Node("condition", conjunction(parts), first.at)

    def _inversion(self) -> Node:
        at = self._token.at
        inverted = found = False
        while self.accept("NOT"):
            inverted, found = not inverted, True
        node = self._predicate()
        if not found:
            return node
        condition = self._as_condition(node)
        return Node("condition", negation(condition) if inverted else condition, at)

    def _predicate(self) -> Node:
        one = self._relation()
        row: list[tuple[bool, Value]] = []
        while self._token.kind in ("=", "<>"):
            row.append((self._take().kind == "=", self._relation().value))
        return Node("condition", equality(one.value, row), one.at) if row else one

    def _relation(self) -> Node:
        one = self._sum()
        kind = self._token.kind
        if kind in ORDERINGS:
            self._take()
            left, right = self._ordered(one), self._ordered(self._sum())
            value = ordering(kind, left, right, strings=self._grammar.orders_strings, strict=self._grammar.strict)
            return Node("condition", value, one.at)
        if kind == "IS":
            return self._null(one)
        inverted = self.accept("NOT")
        if self.accept("LIKE"):
            value = self._like(one)
        elif self.accept("IN"):
            value = self._in(one)
        elif self._grammar.has_between and self.accept("BETWEEN"):
            return Node("condition", self._between(one, inverted), one.at)
        elif inverted:
            raise self.wrong("expected LIKE or IN, or BETWEEN in a JMS selector, after NOT")
        else:
            return one
        return Node("condition", negation(value) if inverted else value, one.at)

    def _ordered(self, node: Node) -> Value:
        """Return an operand of <, <=, > or >=."""
        strings = ("string", "binary") if self._grammar.orders_strings else ()
        if node.kind not in ("number", "field", *strings):
            raise self.wrong(f"a {node.kind} has no order", node.at)
        return node.value

    def _null(self, one: Node) -> Node:
        if one.kind != "field":
            raise self.wrong("only a name can be compared with NULL")
        self._take()
        inverted = self.accept("NOT")
        self.expect("NULL")
        missing = is_null(one.value)
        return Node("condition", negation(missing) if inverted else missing, one.at)

    def _like(self, one: Node) -> Value:
        if one.kind not in ("field", "string"):
            raise self.wrong(f"a {one.kind} cannot be used with LIKE", one.at)
        pattern = self.expect("string")
        escape = None
        if self.accept("ESCAPE"):
            token = self.expect("string")
            escape = token.value
            if len(escape) != 1:
                raise self.wrong("an escape must be one character", token.at)
        try:
            return likeness(one.value, pattern.value, escape)
        except ValueError as error:
            raise self.wrong(str(error), pattern.at) from None

    def _in(self, one: Node) -> Value:
        self.expect("(")
        if self._grammar.lists_strings_only:
            if one.kind != "field":
                raise self.wrong("only a name can be used with IN", one.at)
            strings = [self.expect("string").value]
            while self.accept(","):
                strings.append(self.expect("string").value)
            self.expect(")")
            return string_membership(one.value, frozenset(strings))
        others = [self._sum().value]
        while self.accept(","):
            others.append(self._sum().value)
        self.expect(")")
        return membership(one.value, others)

    def _between(self, one: Node, inverted: bool) -> Value:
        value = self._ordered(one)
        low = self._ordered(self._sum())
        self.expect("AND")
        high = self._ordered(self._sum())
        if inverted:
            return disjunction([ordering("<", value, low, strings=False), ordering(">", value, high, strings=False)])
        return conjunction([ordering(">=", value, low, strings=False), ordering("<=", value, high, strings=False)])

    # Values

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%"), self._signed)

    def _chain(self, operators: tuple[str, ...], part: Callable[[], Node]) -> Node:
        """Parse parts with operators of one precedence between them."""
        first = part()
        if self._token.kind not in operators:
            return first
        number = self._number(first)
        rest = []
        while self._token.kind in operators:
            rest.append((self._take().kind, self._number(part())))
        return Node("number", arithmetic(number, rest), first.at)

    def _number(self, node: Node) -> Value:
        if node.kind not in ("number", "field"):
            raise self.wrong(f"a {node.kind} cannot be used in arithmetic", node.at)
        return numeric(node.value) if self._grammar.strict else node.value

    def _signed(self) -> Node:
        at = self._token.at
        negative = signed = False
        while self._token.kind in ("+", "-"):
            negative, signed = negative != (self._take().kind == "-"), True
        node = self._primary()
        if not signed:
            return node
        number = self._number(node)
        return Node("number", minus(number) if negative else number, at)

    def _call(self, name: str) -> Value:
        count, make = self._grammar.functions[name]
        self.expect("(")
        values: list[Value] = []
        while len(values) < count:
            if values:
                self.expect(",")
            values.append(self._sum().value)
        self.expect(")")
        return make(*values)

    def _primary(self) -> Node:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise self.wrong(f"more than {_MAX_VALUES} names and values")
        token = self._take()
        at = token.at
        if token.kind == "(":
            node = self._condition()
            self.expect(")")
            return Node(node.kind, node.value, at)
        if token.kind == "name" and self._token.kind == "(" and token.value.casefold() in self._grammar.functions:
            return Node("field", self._call(token.value.casefold()), at)
        if token.kind == "parameter":
            if token.value not in self._grammar.parameters:
                raise self.wrong(f"the parameter {token.value} has no value", at)
            return Node("field", Constant(plain(self._grammar.parameters[token.value])), at)
        if token.kind == "name":
            try:
                return Node("field", self._grammar.find(token.value), at)
            except ValueError as error:
                raise self.wrong(str(error), at) from None
        if token.kind == "field":
            return Node("field", application_property(token.value), at)
        if token.kind == "EXISTS" and self._grammar.has_exists:
            self.expect("(")
            field = self._primary()
            if field.kind != "field":
                raise self.wrong("EXISTS takes a name", field.at)
            self.expect(")")
            return Node("condition", negation(is_null(field.value)), at)
        if token.kind in ("TRUE", "FALSE"):
            return Node("condition", Constant(token.kind == "TRUE"), at)
        if token.kind in ("string", "number", "binary"):
            return Node(token.kind, Constant(token.value), at)  # type: ignore[arg-type]
        if token.kind == "UTC":
            self.expect("(")
            self.expect(")")
            return Node("number", lambda candidate: int(time.time() * 1000), at)
        raise self.wrong("expected a value or a name", at)
