"""The properties of a hub and its partitions, asked of the node `$management`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import anyio

from ...client import CbsTokens, Connection
from ...errors import DeliveryUncertain, ManagementError, RemoteProtocolError
from ...messaging import Message
from ...tokens import ask
from .._moments import moment

_NODE: Final = "$management"


@dataclass(frozen=True, slots=True)
class HubProperties:
    """The properties of an event hub.

    Attributes:
        name: the name of the hub in the service's spelling.
        created_at: when it was created; None: the service does not say.
        partitions: the ids of its partitions.
    """

    name: str
    created_at: datetime | None
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionProperties:
    """The first and the last event of a partition.

    Attributes:
        id: the id of the partition.
        first_sequence_number: that of the oldest event kept; that of the next event while the partition is empty.
        last_sequence_number: that of the last event; -1: there was never one.
        last_offset: the offset of the last event; None: there was never one.
        last_enqueued_at: when the last event was taken; None: there was never one.
        empty: whether the partition has no events now.
    """

    id: str
    first_sequence_number: int
    last_sequence_number: int
    last_offset: str | None
    last_enqueued_at: datetime | None
    empty: bool


class HubManagement:
    """Requests to the management node of a hub.

    Args:
        hub: the name of the hub.
        tokens: the source of the token in each request; None: requests carry no token.
        audience: the audience of a token for the hub.
        timeout: seconds that an answer may take.
    """

    def __init__(
        self, connection: Connection, hub: str, tokens: CbsTokens | None, audience: str, timeout: float
    ) -> None:
        self._connection = connection
        self._hub = hub
        self._tokens = tokens
        self._audience = audience
        self._timeout = timeout
        self._turn = anyio.Lock()  # all replies come from one node, so two requesters at once would get each other's

    async def hub(self) -> HubProperties:
        """Ask for the hub; see `EventHub.properties`."""
        facts = await self._read("com.microsoft:eventhub")
        found = facts.get("partition_ids")
        if not isinstance(found, list) or not found:
            raise RemoteProtocolError(f"the answer of the node {_NODE} lacks the partitions of {self._hub!r}")
        partitions = tuple(str(each) for each in found)
        return HubProperties(str(facts.get("name") or self._hub), moment(facts.get("created_at")), partitions)

    async def partition(self, partition: str) -> PartitionProperties:
        """Ask for a partition; see `EventHub.partition_properties`."""
        facts = await self._read("com.microsoft:partition", partition=partition)
        first, last = facts.get("begin_sequence_number"), facts.get("last_enqueued_sequence_number")
        if not isinstance(first, int) or not isinstance(last, int):
            raise RemoteProtocolError(f"the answer of the node {_NODE} lacks the events of partition {partition!r}")
        return PartitionProperties(
            partition,
            int(first),
            int(last),
            str(facts["last_enqueued_offset"]) if last >= 0 and "last_enqueued_offset" in facts else None,
            moment(facts.get("last_enqueued_time_utc")) if last >= 0 else None,
            bool(facts.get("is_partition_empty", last < 0)),
        )

    async def _read(self, kind: str, **more: str) -> Mapping[Any, Any]:
        async with self._turn:
            with anyio.fail_after(self._timeout):
                request = {"operation": "READ", "type": kind, "name": self._hub, **more}
                if self._tokens is not None:
                    token = await ask(self._tokens.source, self._tokens.scope or self._audience)
                    request["security_token"] = token.value
                while True:
                    try:
                        async with self._connection.requester(_NODE, reply_to=_NODE, on_lost="raise") as requester:
                            return _answer(await requester.request(Message(application_properties=request)))
                    except DeliveryUncertain:
                        continue  # asking again is harmless


def _answer(response: Message) -> Mapping[Any, Any]:
    properties = response.application_properties
    status = properties.get("status-code")
    if not isinstance(status, int):
        raise ManagementError(0, "the answer has no status code", response)
    if not 200 <= status < 300:
        condition, description = properties.get("error-condition"), properties.get("status-description")
        raise ManagementError(
            status, ": ".join(str(each)[:1000] for each in (condition, description) if each), response
        )
    return response.body if isinstance(response.body, dict) else {}
