"""Part 3 of AMQP 1.0: messages, what becomes of them, and the termini that they travel between.

The neutral vocabulary that every dialect speaks; nothing here knows of frames, links or sockets.
"""

from __future__ import annotations

from ._outcomes import ACCEPTED as ACCEPTED
from ._outcomes import RELEASED as RELEASED
from ._outcomes import Accepted as Accepted
from ._outcomes import DeliveryState as DeliveryState
from ._outcomes import Error as Error
from ._outcomes import Modified as Modified
from ._outcomes import Outcome as Outcome
from ._outcomes import Received as Received
from ._outcomes import Rejected as Rejected
from ._outcomes import Released as Released
from ._terminus import Coordinator as Coordinator
from ._terminus import DeleteOnClose as DeleteOnClose
from ._terminus import DeleteOnNoLinks as DeleteOnNoLinks
from ._terminus import DeleteOnNoLinksOrMessages as DeleteOnNoLinksOrMessages
from ._terminus import DeleteOnNoMessages as DeleteOnNoMessages
from ._terminus import DistributionMode as DistributionMode
from ._terminus import Source as Source
from ._terminus import Target as Target
from ._terminus import TerminusDurability as TerminusDurability
from ._terminus import TerminusExpiryPolicy as TerminusExpiryPolicy

__all__ = (
    "ACCEPTED",
    "RELEASED",
    "Accepted",
    "Coordinator",
    "DeleteOnClose",
    "DeleteOnNoLinks",
    "DeleteOnNoLinksOrMessages",
    "DeleteOnNoMessages",
    "DeliveryState",
    "DistributionMode",
    "Error",
    "Modified",
    "Outcome",
    "Received",
    "Rejected",
    "Released",
    "Source",
    "Target",
    "TerminusDurability",
    "TerminusExpiryPolicy",
)
