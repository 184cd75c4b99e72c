"""Part 3 of AMQP 1.0: messages, their outcomes, and the termini that they travel between.

Every dialect uses these classes; none of them knows of frames, links or sockets.
"""

from __future__ import annotations

from ._body import AmqpSequence as AmqpSequence
from ._body import AmqpValue as AmqpValue
from ._body import Data as Data
from ._codec import data_head as data_head
from ._filters.filters import DirectBinding as DirectBinding
from ._filters.filters import Filter as Filter
from ._filters.filters import HeadersBinding as HeadersBinding
from ._filters.filters import NoLocal as NoLocal
from ._filters.filters import TopicBinding as TopicBinding
from ._filters.filters import unapplied_filters as unapplied_filters
from ._filters.properties import ApplicationPropertiesFilter as ApplicationPropertiesFilter
from ._filters.properties import EndsWith as EndsWith
from ._filters.properties import PropertiesFilter as PropertiesFilter
from ._filters.properties import PropertyValues as PropertyValues
from ._filters.properties import StartsWith as StartsWith
from ._filters.selectors import EventPosition as EventPosition
from ._filters.selectors import Selector as Selector
from ._filters.selectors import SqlFilter as SqlFilter
from ._filters.selectors import selector_literal as selector_literal
from ._filters.streams import StreamFilter as StreamFilter
from ._filters.streams import StreamMatchUnfiltered as StreamMatchUnfiltered
from ._filters.streams import StreamOffset as StreamOffset
from ._filters.streams import only_for_streams as only_for_streams
from ._intermediary import bare_message as bare_message
from ._intermediary import patch_header as patch_header
from ._intermediary import read_annotations as read_annotations
from ._intermediary import read_header as read_header
from ._intermediary import read_priority as read_priority
from ._intermediary import read_properties as read_properties
from ._message import Message as Message
from ._message import MessageChanges as MessageChanges
from ._message import MessageFields as MessageFields
from ._message import MessageId as MessageId
from ._outcomes import ACCEPTED as ACCEPTED
from ._outcomes import OUTCOME_NAMES as OUTCOME_NAMES
from ._outcomes import OUTCOMES as OUTCOMES
from ._outcomes import RELEASED as RELEASED
from ._outcomes import Accepted as Accepted
from ._outcomes import DeliveryState as DeliveryState
from ._outcomes import Error as Error
from ._outcomes import Modified as Modified
from ._outcomes import Outcome as Outcome
from ._outcomes import Received as Received
from ._outcomes import Rejected as Rejected
from ._outcomes import Released as Released
from ._outcomes import Returned as Returned
from ._outcomes import Undone as Undone
from ._sections import Header as Header
from ._sections import Properties as Properties
from ._stream import StreamDecoder as StreamDecoder
from ._terminus import NEWEST_CONNECTION as NEWEST_CONNECTION
from ._terminus import ONLY_TO_RESUME as ONLY_TO_RESUME
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
from ._terminus import outlives_connection as outlives_connection
from ._terminus import outlives_link as outlives_link
from ._transactions import TXN_ID as TXN_ID
from ._transactions import Declare as Declare
from ._transactions import Declared as Declared
from ._transactions import Discharge as Discharge
from ._transactions import TransactionalState as TransactionalState

__all__ = (
    "ACCEPTED",
    "NEWEST_CONNECTION",
    "ONLY_TO_RESUME",
    "OUTCOMES",
    "OUTCOME_NAMES",
    "RELEASED",
    "TXN_ID",
    "Accepted",
    "AmqpSequence",
    "AmqpValue",
    "ApplicationPropertiesFilter",
    "Coordinator",
    "Data",
    "Declare",
    "Declared",
    "DeleteOnClose",
    "DeleteOnNoLinks",
    "DeleteOnNoLinksOrMessages",
    "DeleteOnNoMessages",
    "DeliveryState",
    "DirectBinding",
    "Discharge",
    "DistributionMode",
    "EndsWith",
    "Error",
    "EventPosition",
    "Filter",
    "Header",
    "HeadersBinding",
    "Message",
    "MessageChanges",
    "MessageFields",
    "MessageId",
    "Modified",
    "NoLocal",
    "Outcome",
    "Properties",
    "PropertiesFilter",
    "PropertyValues",
    "Received",
    "Rejected",
    "Released",
    "Returned",
    "Selector",
    "Source",
    "SqlFilter",
    "StartsWith",
    "StreamDecoder",
    "StreamFilter",
    "StreamMatchUnfiltered",
    "StreamOffset",
    "Target",
    "TerminusDurability",
    "TerminusExpiryPolicy",
    "TopicBinding",
    "TransactionalState",
    "Undone",
    "bare_message",
    "data_head",
    "only_for_streams",
    "outlives_connection",
    "outlives_link",
    "patch_header",
    "read_annotations",
    "read_header",
    "read_priority",
    "read_properties",
    "selector_literal",
    "unapplied_filters",
)


def __dir__() -> tuple[str, ...]:
    return __all__
