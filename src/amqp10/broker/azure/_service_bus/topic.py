"""Topics: each message goes into the subscriptions whose rules let it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..._errors import Refused
from ..._filters.selector.values import Incomparable
from ..._log import report
from .._conditions import ALREADY_EXISTS, ENTITY_NOT_FOUND
from .rules import ActiveRule, copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...._azure_rules import Rule
    from ....types import Described
    from .._messages import EntityMessage
    from .entity import Entity

_MAX_RULES: Final = 2000


class Subscription:
    """A subscription of a topic: its messages are in an entity, from which they are received as from a queue.

    Attributes:
        dead_letters_faults: whether a message becomes a dead letter if a rule cannot be evaluated for it.
        changed: called when its rules have changed.
    """

    def __init__(
        self, entity: Entity, rules: Iterable[Rule], clock: Callable[[], float], *, dead_letters_faults: bool
    ) -> None:
        self.entity = entity
        self._clock = clock
        self.dead_letters_faults = dead_letters_faults
        self.changed: Callable[[], None] = lambda: None
        self._rules = {rule.name.casefold(): ActiveRule(rule, clock()) for rule in rules}

    def wants(self, message: EntityMessage) -> bool:
        """Return whether a message to the topic would come here, possibly as a dead letter."""
        try:
            return bool(copies(message, self._rules.values()))
        except Exception:  # `take` logs it
            return self.dead_letters_faults

    def take(self, message: EntityMessage) -> None:
        """Take a message to the topic, if a rule lets it pass."""
        entity = self.entity
        try:
            found = copies(message, self._rules.values())
        except Exception as error:  # a fault of this subscription must not affect the sender and the others
            if not isinstance(error, Incomparable):
                report(f"a rule of {entity.name!r} failed", error)
            if self.dead_letters_faults:
                entity.not_taken(message, "FilterEvaluationException", str(error))
            return
        for twin in found:
            try:
                entity.check(twin)
            except Refused as refusal:
                entity.not_taken(twin, refusal.error.condition, str(refusal))
            else:
                entity.add(twin)

    # Rules

    @property
    def rules(self) -> list[ActiveRule]:
        """Its rules, in the order in which they were added."""
        return list(self._rules.values())

    def find(self, name: str) -> ActiveRule:
        """Return a rule.

        Raises:
            Refused: there is no rule of that name.
        """
        found = self._rules.get(name.casefold())
        if found is None:
            raise Refused(ENTITY_NOT_FOUND, f"{self.entity.name!r} has no rule {name!r:.200}")
        return found

    def change(self, rule: Rule) -> None:
        """Replace the rule of the same name.

        Raises:
            Refused: there is no rule of that name.
            ValueError: see `ActiveRule`.
        """
        self._rules[rule.name.casefold()] = ActiveRule(rule, self.find(rule.name).created)
        self.changed()

    def add(self, rule: Rule) -> None:
        """Add a rule.

        Raises:
            Refused: the name is taken, or there are too many rules.
            ValueError: see `ActiveRule`.
        """
        if rule.name.casefold() in self._rules:
            raise Refused(ALREADY_EXISTS, f"{self.entity.name!r} already has a rule {rule.name!r}")
        if len(self._rules) >= _MAX_RULES:
            raise Refused("amqp:resource-limit-exceeded", f"a subscription can have at most {_MAX_RULES} rules")
        self._rules[rule.name.casefold()] = ActiveRule(rule, self._clock())
        self.changed()

    def restore(self, rules: Iterable[tuple[Rule, float]]) -> None:
        """Replace all rules; each comes with the time when it was added.

        Raises:
            ValueError: see `ActiveRule`.
        """
        self._rules = {rule.name.casefold(): ActiveRule(rule, created) for rule, created in rules}

    def remove(self, name: str) -> None:
        """Remove a rule.

        Raises:
            Refused: there is no rule of that name.
        """
        self.find(name)
        del self._rules[name.casefold()]
        self.changed()

    def described(self, skip: int, top: int) -> list[Described]:
        """Return rules in their form for clients, at most `top` after the first `skip`."""
        return [rule.described() for rule in list(self._rules.values())[skip : skip + top]]


def spread(topic: Entity, subscriptions: list[Subscription], *, filters_first: bool) -> None:
    """Make an entity a topic with these subscriptions.

    Args:
        filters_first: whether to refuse a message that no subscription wants.
    """

    def pass_on(source: Entity, message: EntityMessage) -> None:
        for subscription in subscriptions:
            subscription.take(message)

    def wanted(message: EntityMessage) -> bool:
        return any(subscription.wants(message) for subscription in subscriptions)

    topic.wanted = wanted if filters_first else None
    topic.pass_to([subscription.entity for subscription in subscriptions], pass_on)
