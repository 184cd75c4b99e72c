"""Moving messages from one address to another, whatever brokers and dialects there are at both ends."""

from ._bridge import Bridge as Bridge
from ._bridge import bridge as bridge
from ._report import BridgeReport as BridgeReport

__all__ = ("Bridge", "BridgeReport", "bridge")
