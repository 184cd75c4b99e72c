"""The node `$management` of a namespace with hubs: it answers for the properties of hubs and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....messaging import Message
from ....types import Array, Int, Symbol
from ..._errors import Refused
from ..._requests.answers import answer_to
from .._conditions import ARGUMENT_ERROR, ARGUMENT_OUT_OF_RANGE, SERVER_BUSY
from .._messages import timestamp
from .hub import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._peer import Peer
    from ..._users.users import Action
    from .hub import Hub, Partition

NOT_FOUND: Final = "amqp:not-found"
NOT_REPLICATED: Final = Int(-1)
"""The epoch of numbers in a namespace without geo-replication, which the SDK for Rust asks for."""
_STATUS: Final = {"amqp:unauthorized-access": 401, NOT_FOUND: 404, SERVER_BUSY: 503, "amqp:not-implemented": 501}
_READERS: Final[tuple[Action, ...]] = ("read", "write")
_HUB, _PARTITION = "com.microsoft:eventhub", "com.microsoft:partition"


class HubManagement:
    """The management node, for one peer.

    Args:
        find: returns the hub of a name, or None.
    """

    def __init__(self, peer: Peer, find: Callable[[str], Hub | None]) -> None:
        self._peer = peer
        self._find = find

    def carry_out(self, request: Message, txn_id: bytes | None) -> Message:
        """Carry out a request, and return the answer."""
        body: dict[str, Any] = {}
        properties: dict[str, Any] = {"status-code": Int(200), "status-description": "OK"}
        try:
            if txn_id is not None:
                raise Refused("amqp:not-implemented", "Event Hubs has no transactions")
            body = self._do(request.application_properties)
        except Refused as refusal:
            condition = refusal.error.condition
            properties = {
                "status-code": Int(_STATUS.get(condition, 400)),
                "status-description": refusal.error.description or "",
                "error-condition": Symbol(condition),
            }
        return answer_to(request, body, properties)

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        operation, kind, name = request.get("operation"), request.get("type"), request.get("name")
        if operation != "READ" or kind not in (_HUB, _PARTITION):
            shown = f"{operation!r:.60} of {kind!r:.60}"
            raise Refused("amqp:not-implemented", f"{shown}: only READ of {_HUB} or {_PARTITION} is supported here")
        if not isinstance(name, str):
            raise Refused(ARGUMENT_ERROR, f"'name' must be the name of an event hub, not {name!r:.60}")
        hub = self._find(name)
        if hub is None:
            raise Refused(NOT_FOUND, f"there is no event hub {name!r:.300}")
        self._check_rights(hub, request.get("security_token"))
        hub.check_busy()
        return _hub(hub) if kind == _HUB else _partition(partition_in(hub, request.get("partition")))

    def _check_rights(self, hub: Hub, token: object) -> None:
        """Check that the peer may receive from the hub, or send to it.

        Args:
            token: the token in the request, if there is one; SDKs may put none at `$cbs` for this node.

        Raises:
            Refused: the peer may do neither.
        """
        tokens = self._peer.tokens
        if tokens is not None and isinstance(token, str) and tokens.carried(token, hub.name, _READERS):
            return
        try:
            self._peer.rights.check("read", hub.name)
        except Refused:
            self._peer.rights.check("write", hub.name)


def partition_in(hub: Hub, name: object) -> Partition:
    """Return the partition of a hub with an id.

    Raises:
        Refused: no partition has that id.
    """
    for partition in hub.partitions:
        if partition.id == name:
            return partition
    last = hub.partitions[-1].id
    raise Refused(ARGUMENT_OUT_OF_RANGE, f"{hub.name!r} has no partition {name!r:.60}: its partitions are 0 to {last}")


def _hub(hub: Hub) -> dict[str, Any]:
    return {
        "name": hub.name,
        "type": _HUB,
        "created_at": timestamp(hub.created),
        "partition_count": Int(len(hub.partitions)),
        "georeplication_factor": Int(1),
        "partition_ids": Array("string", [partition.id for partition in hub.partitions]),
    }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "name": partition.hub.name,
        "type": _PARTITION,
        "partition": partition.id,
        "begin_sequence_number": partition.first,
        "last_enqueued_sequence_number": partition.last,
        "last_enqueued_offset": offset_of(partition.last) if partition.enqueued else "-1",
        "last_enqueued_time_utc": partition.last_time,
        "is_partition_empty": partition.depth == 0,
        "begin_sequence_number_epoch": NOT_REPLICATED,
        "last_enqueued_sequence_number_epoch": NOT_REPLICATED,
    }
