"""The keyword arguments of a connection, as one type: for what passes them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from ..net import Proxy, TLSSettings, WebSocket
from ..profiles import Profile
from ..sasl import Mechanism
from ._reconnect import Reconnect
from ._store import DeliveryStore

SASLSettings = Mechanism | Sequence[Mechanism] | Literal[False] | None


class ConnectionSettings(TypedDict, total=False):
    """The keyword arguments of `Connection`; see there."""

    reconnect: Reconnect | None
    delivery_store: DeliveryStore | None
    tls: TLSSettings | None
    tls_upgrade: bool
    proxy: str | Proxy | None
    websocket: WebSocket | None
    sasl: SASLSettings
    container_id: str | None
    hostname: str | None
    idle_timeout: float | None
    max_frame_size: int
    channel_max: int
    properties: Mapping[Any, Any] | None
    offered_capabilities: Sequence[str]
    desired_capabilities: Sequence[str]
    incoming_window: int
    connect_timeout: float | None
    close_timeout: float
    dialect: str
    profile: str | Profile | None
