"""Azure Event Hubs: `async with EventHub(connection_string, "telemetry") as hub: ...`."""

from ._errors import OwnershipLost as OwnershipLost
from ._events import LastEvent as LastEvent
from ._events import ReceivedEvent as ReceivedEvent
from ._hub import EventHub as EventHub
from ._properties import HubManagement as HubManagement
from ._properties import HubProperties as HubProperties
from ._properties import PartitionProperties as PartitionProperties
from ._reader import EventReader as EventReader
from ._sender import EventBatch as EventBatch
from ._sender import EventSender as EventSender

__all__ = (
    "EventBatch",
    "EventHub",
    "EventReader",
    "EventSender",
    "HubManagement",
    "HubProperties",
    "LastEvent",
    "OwnershipLost",
    "PartitionProperties",
    "ReceivedEvent",
)


def __dir__() -> tuple[str, ...]:
    return __all__
