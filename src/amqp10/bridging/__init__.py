"""Moves messages from one address to another, between any brokers and dialects."""

from ._bridge import Bridge as Bridge
from ._bridge import bridge as bridge
from ._plan import BridgePlan as BridgePlan
from ._plan import PlannedEnd as PlannedEnd
from ._report import BridgeReport as BridgeReport

__all__ = ("Bridge", "BridgePlan", "BridgeReport", "PlannedEnd", "bridge")


def __dir__() -> tuple[str, ...]:
    return __all__
