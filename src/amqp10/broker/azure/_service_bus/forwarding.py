"""Entities that forward all their messages to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..._errors import Refused

if TYPE_CHECKING:
    from .._messages import EntityMessage
    from .entity import Entity

_MAX_HOPS: Final = 4
"""The most forwardings of a message by itself."""


def forward(entity: Entity, target: Entity) -> None:
    """Let an entity forward each message to another one from now on."""

    def pass_on(source: Entity, message: EntityMessage) -> None:
        if message.hops >= _MAX_HOPS:
            reason = f"The message was forwarded {_MAX_HOPS} times."
            source.undeliverable(message, "MaxTransferHopCountExceeded", reason)
            return
        twin = message.twin()
        twin.hops += 1
        twin.dead_letter_source = source.dead_letters_of or message.dead_letter_source
        try:
            target.check(twin)
        except Refused as refusal:
            source.undeliverable(message, refusal.error.condition, str(refusal))
        else:
            target.add(twin)

    entity.pass_to([target], pass_on)
