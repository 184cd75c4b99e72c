"""The frame bodies: nine performatives of the transport (§2.7), five of SASL (§5.3.3), in the specification's order."""

from __future__ import annotations

from typing import Any

from ....messaging import Error
from ....types import Composite, composite, field


@composite(0x10, "amqp:open:list")
class Open(Composite):
    """Negotiate the connection (§2.7.1)."""

    container_id: str = field("string", mandatory=True)
    hostname: str | None = field("string")
    max_frame_size: int = field("uint", default=4_294_967_295)
    channel_max: int = field("ushort", default=65_535)
    idle_time_out: int | None = field("uint")
    outgoing_locales: tuple[str, ...] = field("symbol", multiple=True)
    incoming_locales: tuple[str, ...] = field("symbol", multiple=True)
    offered_capabilities: tuple[str, ...] = field("symbol", multiple=True)
    desired_capabilities: tuple[str, ...] = field("symbol", multiple=True)
    properties: dict[Any, Any] | None = field("map", keys="symbol")


@composite(0x11, "amqp:begin:list")
class Begin(Composite):
    """Begin a session on a channel (§2.7.2)."""

    remote_channel: int | None = field("ushort")
    next_outgoing_id: int = field("uint", mandatory=True)
    incoming_window: int = field("uint", mandatory=True)
    outgoing_window: int = field("uint", mandatory=True)
    handle_max: int = field("uint", default=4_294_967_295)
    offered_capabilities: tuple[str, ...] = field("symbol", multiple=True)
    desired_capabilities: tuple[str, ...] = field("symbol", multiple=True)
    properties: dict[Any, Any] | None = field("map", keys="symbol")


@composite(0x12, "amqp:attach:list")
class Attach(Composite):
    """Attach a link to a session (§2.7.3). `role` is True for a receiver."""

    name: str = field("string", mandatory=True)
    handle: int = field("uint", mandatory=True)
    role: bool = field("boolean", mandatory=True)
    snd_settle_mode: int = field("ubyte", default=2)
    rcv_settle_mode: int = field("ubyte", default=0)
    source: Any = field("*", requires="source")
    target: Any = field("*", requires="target")
    unsettled: dict[Any, Any] | None = field("map", requires="delivery-state")
    incomplete_unsettled: bool = field("boolean", default=False)
    initial_delivery_count: int | None = field("uint")
    max_message_size: int | None = field("ulong")
    offered_capabilities: tuple[str, ...] = field("symbol", multiple=True)
    desired_capabilities: tuple[str, ...] = field("symbol", multiple=True)
    properties: dict[Any, Any] | None = field("map", keys="symbol")


@composite(0x13, "amqp:flow:list")
class Flow(Composite):
    """Update the state of a session, and of a link if `handle` names one (§2.7.4)."""

    next_incoming_id: int | None = field("uint")
    incoming_window: int = field("uint", mandatory=True)
    next_outgoing_id: int = field("uint", mandatory=True)
    outgoing_window: int = field("uint", mandatory=True)
    handle: int | None = field("uint")
    delivery_count: int | None = field("uint")
    link_credit: int | None = field("uint")
    available: int | None = field("uint")
    drain: bool = field("boolean", default=False)
    echo: bool = field("boolean", default=False)
    properties: dict[Any, Any] | None = field("map", keys="symbol")


@composite(0x14, "amqp:transfer:list")
class Transfer(Composite):
    """Transfer a message, or a part of one (§2.7.5)."""

    handle: int = field("uint", mandatory=True)
    delivery_id: int | None = field("uint")
    delivery_tag: bytes | None = field("binary")
    message_format: int | None = field("uint")
    settled: bool | None = field("boolean")
    more: bool = field("boolean", default=False)
    rcv_settle_mode: int | None = field("ubyte")
    state: Any = field("*", requires="delivery-state")
    resume: bool = field("boolean", default=False)
    aborted: bool = field("boolean", default=False)
    batchable: bool = field("boolean", default=False)


@composite(0x15, "amqp:disposition:list")
class Disposition(Composite):
    """Tell the peer of the state of deliveries (§2.7.6). `role` is True from a receiver."""

    role: bool = field("boolean", mandatory=True)
    first: int = field("uint", mandatory=True)
    last: int | None = field("uint")
    settled: bool = field("boolean", default=False)
    state: Any = field("*", requires="delivery-state")
    batchable: bool = field("boolean", default=False)


@composite(0x16, "amqp:detach:list")
class Detach(Composite):
    """Detach a link from a session (§2.7.7)."""

    handle: int = field("uint", mandatory=True)
    closed: bool = field("boolean", default=False)
    error: Error | None = field("*", requires="error")


@composite(0x17, "amqp:end:list")
class End(Composite):
    """End a session (§2.7.8)."""

    error: Error | None = field("*", requires="error")


@composite(0x18, "amqp:close:list")
class Close(Composite):
    """Close the connection (§2.7.9)."""

    error: Error | None = field("*", requires="error")


@composite(0x40, "amqp:sasl-mechanisms:list")
class SaslMechanisms(Composite):
    """What the server offers (§5.3.3.1)."""

    sasl_server_mechanisms: tuple[str, ...] = field("symbol", mandatory=True, multiple=True)


@composite(0x41, "amqp:sasl-init:list")
class SaslInit(Composite):
    """The client's choice (§5.3.3.2)."""

    mechanism: str = field("symbol", mandatory=True)
    initial_response: bytes | None = field("binary")
    hostname: str | None = field("string")


@composite(0x42, "amqp:sasl-challenge:list")
class SaslChallenge(Composite):
    """The server asks (§5.3.3.3)."""

    challenge: bytes = field("binary", mandatory=True)


@composite(0x43, "amqp:sasl-response:list")
class SaslResponse(Composite):
    """The client answers (§5.3.3.4)."""

    response: bytes = field("binary", mandatory=True)


@composite(0x44, "amqp:sasl-outcome:list")
class SaslOutcome(Composite):
    """How it ended: 0 ok, 1 credentials refused, 2 system error, 3 permanent, 4 temporary (§5.3.3.6)."""

    code: int = field("ubyte", mandatory=True)
    additional_data: bytes | None = field("binary")
