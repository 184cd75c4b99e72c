"""Part 3 of AMQP 1.0: messages, what becomes of them, and the termini that they travel between.

The neutral vocabulary that every dialect speaks; nothing here knows of frames, links or sockets.
"""

from __future__ import annotations

from ._body import AmqpSequence as AmqpSequence
from ._body import AmqpValue as AmqpValue
from ._body import Data as Data
from ._message import Message as Message
from ._message import MessageChanges as MessageChanges
from ._message import MessageFields as MessageFields
from ._message import MessageId as MessageId
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
from ._patch import patch_header as patch_header
from ._patch import read_header as read_header
from ._patch import read_properties as read_properties
from ._sections import Header as Header
from ._sections import Properties as Properties
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
    "AmqpSequence",
    "AmqpValue",
    "Coordinator",
    "Data",
    "DeleteOnClose",
    "DeleteOnNoLinks",
    "DeleteOnNoLinksOrMessages",
    "DeleteOnNoMessages",
    "DeliveryState",
    "DistributionMode",
    "Error",
    "Header",
    "Message",
    "MessageChanges",
    "MessageFields",
    "MessageId",
    "Modified",
    "Outcome",
    "Properties",
    "Received",
    "Rejected",
    "Released",
    "Source",
    "Target",
    "TerminusDurability",
    "TerminusExpiryPolicy",
    "patch_header",
    "read_header",
    "read_properties",
)
