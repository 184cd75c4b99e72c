"""The administration of a namespace by HTTP: `PUT /orders` and the like, with descriptions in Atom XML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree.ElementTree import Element

from ...._azure_rules import Rule
from ...._http import HTTPAnswer, HTTPRequest
from ..._errors import Refused
from ..._tokens.rules import TokenInvalid
from .._conditions import ALREADY_EXISTS, ENTITY_NOT_FOUND, NOT_ALLOWED
from .._config import QueueConfig, SubscriptionConfig, TopicConfig
from . import atom

if TYPE_CHECKING:
    from ..._tokens.rules import TokenRules
    from .._config import EntityConfig
    from .._namespace import Declared, Namespace
    from .._service_bus.rules import ActiveRule
    from .._service_bus.topic import Subscription

_MAX_LISTED: Final = 100
_STATUS: Final = {ALREADY_EXISTS: 409, ENTITY_NOT_FOUND: 404, NOT_ALLOWED: 400}
_OLDER: Final = "2017-04"
_ATOM: Final = {"Content-Type": "application/atom+xml;type=entry;charset=utf-8"}
_PATH: Final = re.compile(
    r"(?P<entity>.+?)/subscriptions(?:/(?P<subscription>[^/]+)(?:/(?P<rules>rules)(?:/(?P<rule>[^/]+))?)?)?",
    re.IGNORECASE,
)
_FORWARDS: Final = {
    "ForwardTo": "servicebussupplementaryauthorization",
    "ForwardDeadLetteredMessagesTo": "servicebusdlqsupplementaryauthorization",
}
"""Settings that need a token for another entity, and the header with that token."""


class _Wrong(Exception):
    """A request that is refused."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Administration:
    """Answers requests that declare, change, list and delete entities.

    Args:
        tokens: the rules for the token of a request; None: a request needs no token.
    """

    def __init__(self, namespace: Namespace, tokens: TokenRules | None) -> None:
        self._namespace = namespace
        self._tokens = tokens
        self._began = namespace.clock()

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        """Carry out a request, and return the answer, which may be a refusal."""
        try:
            status, element = self._do(request)
        except _Wrong as wrong:
            status, element = wrong.status, atom.error(wrong.status, str(wrong))
        except Refused as refusal:
            status = _STATUS.get(refusal.error.condition, 403)
            element = atom.error(status, refusal.error.description or "")
        except ValueError as error:
            status, element = 400, atom.error(400, str(error))
        finally:
            self._namespace.flush()
        return HTTPAnswer(status) if element is None else HTTPAnswer(status, atom.document(element), _ATOM)

    def _do(self, request: HTTPRequest) -> tuple[int, Element | None]:
        parsed = _Asked(request)
        self._authorize(request.headers.get("authorization"), parsed.host, parsed.path)
        if parsed.path.casefold() == "$namespaceinfo":
            self._only(request, "GET")
            info = atom.namespace_info(parsed.host, self._began)
            return 200, atom.entry(parsed.url, parsed.host, info, self._began, self._began, parsed.host)
        listed = re.fullmatch(r"\$resources/(queues|topics)", parsed.path, re.IGNORECASE)
        if listed:
            self._only(request, "GET")
            kind = QueueConfig if listed[1].casefold() == "queues" else TopicConfig
            found = [each for each in self._namespace.declared if isinstance(each.config, kind)]
            return 200, self._feed(parsed, listed[1], found)
        parts = _PATH.fullmatch(parsed.path)
        if parts is None:
            return self._entity(request, parsed, parsed.path, None)
        topic = self._namespace.find_declared(parts["entity"])
        if not isinstance(topic.config, TopicConfig):
            raise _Wrong(404, f"{parts['entity']!r:.300} is not a topic, so it has no subscriptions")
        if parts["subscription"] is None:
            self._only(request, "GET")
            return 200, self._feed(parsed, "subscriptions", topic.subscriptions.values())
        if parts["rules"] is None:
            return self._entity(request, parsed, parts["entity"], parts["subscription"])
        declared = self._namespace.find_declared(parts["entity"], parts["subscription"])
        subscription = self._namespace.subscription(declared.entity)
        assert subscription is not None
        if parts["rule"] is None:
            self._only(request, "GET")
            return 200, self._rules(parsed, subscription)
        return self._rule(request, parsed, subscription, parts["rule"])

    def _only(self, request: HTTPRequest, *methods: str) -> None:
        if request.method not in methods:
            raise _Wrong(405, f"{request.method:.20} is not supported here: use {' or '.join(methods)}")

    def _authorize(self, token: str | None, host: str, path: str) -> None:
        """Check that a token has the right Manage.

        Raises:
            _Wrong: it has not.
        """
        if self._tokens is None:
            return
        if token is None:
            raise _Wrong(401, "a request must have a token in its header Authorization")
        try:
            grant = self._tokens.check(token.removeprefix("Bearer "), f"sb://{host}/{path}")
        except TokenInvalid as error:
            raise _Wrong(401, str(error)) from None
        if not grant.allows("configure", path, "/"):
            raise _Wrong(401, f"the token does not permit managing {path!r:.300}")

    # Lists

    def _feed(self, parsed: _Asked, title: str, found: Iterable[Declared]) -> Element:
        entries, following = parsed.page(list(found))
        return atom.feed(
            parsed.url, title, [self._entry(parsed, each) for each in entries], self._namespace.clock(), following
        )

    def _entry(self, parsed: _Asked, declared: Declared) -> Element:
        subscriptions = [self._namespace.subscription(each.entity) for each in declared.subscriptions.values()]
        rules = [active.rule for each in subscriptions if each is not None for active in each.rules]
        description = atom.describe(declared, parsed.host, rules, older=parsed.version == _OLDER)
        config = declared.config
        url = f"{parsed.base}/{declared.entity.name}"
        return atom.entry(url, config.name, description, declared.created, declared.updated, parsed.host)

    def _rules(self, parsed: _Asked, subscription: Subscription) -> Element:
        rules, following = parsed.page(subscription.rules)
        entries = [self._rule_entry(parsed, subscription, each) for each in rules]
        return atom.feed(parsed.url, "rules", entries, self._namespace.clock(), following)

    def _rule_entry(self, parsed: _Asked, subscription: Subscription, active: ActiveRule) -> Element:
        rule, created = active.rule, active.created
        url = f"{parsed.base}/{subscription.entity.name}/Rules/{rule.name}"
        return atom.entry(url, rule.name, atom.describe_rule(rule, created), created, created)

    # One of them

    def _entity(
        self, request: HTTPRequest, parsed: _Asked, name: str, subscription: str | None
    ) -> tuple[int, Element | None]:
        self._only(request, "GET", "PUT", "DELETE")
        if request.method == "DELETE":
            self._namespace.delete(name, subscription)
            return 200, None
        if request.method == "GET":
            return 200, self._entry(parsed, self._namespace.find_declared(name, subscription))
        description = atom.description_in(atom.read_xml(request.body))
        changes = "if-match" in request.headers
        kind = description.tag.rpartition("}")[2].removesuffix("Description")
        if kind not in (("Subscription",) if subscription is not None else ("Queue", "Topic")):
            raise ValueError(f"there is no {kind!r:.100} at this path")
        described = atom.Description(description, f"{kind}Description")
        self._check_forwards(request, parsed, described)
        status, kept = atom.status_of(described), atom.kept(described)
        if changes:
            declared = self._namespace.find_declared(name, subscription)
            if type(declared.config).__name__ != f"{kind}Config":
                raise _Wrong(404, f"there is no {kind.lower()} {name!r:.300}")
            before: Any = declared.config
            config = atom.config_of(before, described, parsed.host)
            self._check_targets(config)
            self._namespace.change(declared, config)
            kept = {**declared.ignored_settings, **kept}
        else:
            declared = self._declare(parsed, described, kind, name, subscription)
        declared.ignored_settings = kept
        self._namespace.set_status(declared.entity, status)
        return 200 if changes else 201, self._entry(parsed, declared)

    def _declare(
        self, parsed: _Asked, described: atom.Description, kind: str, name: str, subscription: str | None
    ) -> Declared:
        if subscription is not None:
            of_it = atom.config_of(
                SubscriptionConfig(subscription, rules=_first_rules(described)), described, parsed.host
            )
            self._check_targets(of_it)
            return self._namespace.subscribe(self._namespace.find_declared(name), of_it)
        if kind == "Topic":
            return self._namespace.declare(atom.config_of(TopicConfig(name), described, parsed.host))
        queue = atom.config_of(QueueConfig(name), described, parsed.host)
        self._check_targets(queue)
        return self._namespace.declare(queue)

    def _check_forwards(self, request: HTTPRequest, parsed: _Asked, described: atom.Description) -> None:
        """Check that a request has the right to the entities that messages are to be forwarded to."""
        for setting, header in _FORWARDS.items():
            if setting in described:
                target = urlsplit(described.text(setting)).path.strip("/")
                token = request.headers.get(header) or request.headers.get("authorization")
                self._authorize(token, parsed.host, target)

    def _check_targets(self, config: EntityConfig | TopicConfig) -> None:
        if isinstance(config, TopicConfig):
            return
        for target in (config.forward_to, config.forward_dead_letters_to):
            if target is not None and self._namespace.find_declared(target).config.name == config.name:
                raise ValueError(f"{config.name!r} forwards to itself")

    def _rule(
        self, request: HTTPRequest, parsed: _Asked, subscription: Subscription, name: str
    ) -> tuple[int, Element | None]:
        self._only(request, "GET", "PUT", "DELETE")
        if request.method == "DELETE":
            subscription.remove(name)
            return 200, None
        if request.method == "PUT":
            rule = atom.read_description(name, atom.description_in(atom.read_xml(request.body)))
            if "if-match" in request.headers:
                subscription.change(rule)
            else:
                subscription.add(rule)
        status = 201 if request.method == "PUT" and "if-match" not in request.headers else 200
        return status, self._rule_entry(parsed, subscription, subscription.find(name))


def _first_rules(described: atom.Description) -> list[Rule]:
    first = described.elements.get("DefaultRuleDescription")
    if first is None:
        return [Rule()]
    name = next((each.text for each in first if each.tag.endswith("}Name")), None)
    first.tag = first.tag.replace("DefaultRule", "Rule")
    return [atom.read_description(name or Rule().name, first)]


class _Asked:
    """The target of a request.

    Attributes:
        host: the host of the namespace, as the request names it.
        path: the path of the resource, without slashes around it.
        base, url: the URLs of the namespace and of the resource.
        version: the version of the API that the answer is for.

    Raises:
        ValueError: the target is malformed.
    """

    def __init__(self, request: HTTPRequest) -> None:
        split = urlsplit(request.target)
        self.host = request.headers.get("host", "")
        if not re.fullmatch(r"[A-Za-z0-9.:\[\]_-]{1,260}", self.host, re.ASCII):
            raise ValueError(f"a request must have the name of its host, not {self.host!r:.200}")
        self.path = unquote(split.path, errors="strict").strip("/")
        if not self.path.isprintable() or not 1 <= len(self.path) <= 1000:
            raise ValueError(f"a path must be the name of an entity, not {self.path!r:.200}")
        self.base = f"{'https' if request.secure else 'http'}://{self.host}"
        self.url = f"{self.base}/{self.path}"
        self._query = parse_qs(split.query, max_num_fields=20)
        self.version = self._query.get("api-version", [""])[0]

    def page(self, found: list[Any]) -> tuple[list[Any], str | None]:
        """Return the part of a list that the query asks for, and the URL of the next part, or None.

        Raises:
            ValueError: the query is malformed.
        """
        skip, top = self._number("$skip", 0), min(self._number("$top", _MAX_LISTED), _MAX_LISTED)
        more = skip + top < len(found) and top > 0
        following = f"{self.url}?$skip={skip + top}&$top={top}" if more else None
        return found[skip : skip + top], following

    def _number(self, name: str, usual: int) -> int:
        text = self._query.get(name, [str(usual)])[0]
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ValueError(f"{name} must be a number of 0 or more, not {text!r:.100}")
        return int(text)
