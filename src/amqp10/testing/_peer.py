"""A scripted AMQP 1.0 peer, which sends any frames, however wrong, with shortcuts for the usual beginning."""

from __future__ import annotations

from typing import Any

from .._arguments import checked
from ..dialects.v1_0.wire.frames import AMQP_HEADER, SASL_HEADER
from ..dialects.v1_0.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from ._conversation import Conversation
from ._script import answer_to
from ._transcript import Frame


@checked
class ScriptedPeer(Conversation):
    """Plays one side of AMQP 1.0 frame by frame: expects, answers, and misbehaves on demand.

        async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
            tasks.start_soon(client_under_test, peer.url)
            await peer.accept_connection()
            await peer.accept_session()
            attach = await peer.accept_link(credit=10)
            await peer.expect(Transfer, handle=attach.handle, settled=None)
            await peer.drop()

    As a server it listens on a free port of the loopback (`url`), and accepts in-memory connections (`connect`).
    `ScriptedPeer.over(stream)` plays either side over an existing stream; as the client, begin with `open_connection`.

    Args:
        tls: a server-side context, for TLS on connections to the port.
        patience: seconds after which an expectation fails.
    """

    channel: int

    # The usual beginning, as the server

    async def accept_connection(
        self, *, mechanisms: tuple[str, ...] = ("ANONYMOUS",), outcome: int = 0, **fields: Any
    ) -> Open:
        """Accept a connection: exchange protocol headers, SASL if the client begins with it, and opens.

        Args:
            mechanisms: the mechanisms to offer. The client's response gets `outcome`, without a challenge.
            outcome: the code of the SASL outcome (§5.3.3.6). Unless it is 0, this returns an empty open.
            fields: fields of the peer's open; its default container-id is "peer".

        Returns:
            The client's open.

        Raises:
            PeerMismatch: the client did something else.
        """
        header = await self.expect_header()
        if header == SASL_HEADER:
            await self.send_bytes(SASL_HEADER)
            await self.send(SaslMechanisms(sasl_server_mechanisms=mechanisms))
            await self.expect(SaslInit)
            await self.send(SaslOutcome(code=outcome))
            if outcome:
                return Open(container_id="")
            header = await self.expect_header()
        if header != AMQP_HEADER:
            raise self.transcript.unexpected("the AMQP 1.0 header", header)
        await self.send_bytes(AMQP_HEADER)
        opened = await self.expect(Open)
        await self.reply(Open(**({"container_id": "peer"} | fields)))
        return opened

    async def accept_session(self, **fields: Any) -> Begin:
        """Expect a begin and answer it on the same channel; return the client's begin.

        Args:
            fields: fields of the peer's begin; by default ids begin at 0, and windows are 2048 frames.

        Raises:
            PeerMismatch: the client did something else.
        """
        begun = await self.expect(Begin)
        await self.reply(Begin(**(_WINDOWS | fields)))
        return begun

    async def accept_link(self, *, credit: int | None = None, handle: int | None = None, **fields: Any) -> Attach:
        """Expect an attach and answer it with the same termini and modes; return the client's attach.

        Args:
            credit: the credit to grant at once if the client is the sender; None for no credit.
            handle: the peer's handle; None for the client's number.
            fields: fields of the peer's attach, in place of the client's.

        Raises:
            PeerMismatch: the client did something else.
        """
        attach = await self.expect(Attach)
        await self.reply(answer_to(attach, handle, fields))
        if credit is not None:
            await self.grant(credit, handle=attach.handle if handle is None else handle)
        return attach

    async def grant(self, credit: int, *, handle: int = 0, delivery_count: int = 0, **fields: Any) -> None:
        """Send a flow for a link on which this peer receives.

        Args:
            credit: the number of deliveries that may come.
            handle: the peer's handle of the link.
            delivery_count: the delivery-count to send.
            fields: fields of the flow; by default ids are 0, and windows 2048 frames.
        """
        session = {"next_incoming_id": 0, "incoming_window": 2048, "next_outgoing_id": 0, "outgoing_window": 2048}
        link = {"handle": handle, "link_credit": credit, "delivery_count": delivery_count}
        await self.send(Flow(**(session | link | fields)))

    async def accept_close(self) -> None:
        """Answer drains, detaches, ends and finally the close, then wait until the other side hangs up.

        Both sides must use the same handles, as after `accept_link`.

        Raises:
            PeerMismatch: the client sent something other than flows, dispositions, detaches, ends or the close.
        """
        while True:
            item = await self._item("detach, end or close")
            if not isinstance(item, Frame):
                raise self.transcript.unexpected("detach, end or close", item)
            performative = item.performative
            self.channel = item.channel
            if isinstance(performative, Close):
                await self.send(Close())
                return await self.expect_end()
            if isinstance(performative, End):
                await self.send(End())
            elif isinstance(performative, Detach):
                await self.send(Detach(handle=performative.handle, closed=performative.closed))
            elif isinstance(performative, Flow) and performative.drain:
                await self.send(_drained(performative))
            elif not isinstance(performative, Flow | Disposition | None):
                raise self.transcript.unexpected("detach, end or close", item)

    # The usual beginning, as the client

    async def open_connection(self, **fields: Any) -> Open:
        """Exchange the AMQP header and opens, without SASL; return the server's open.

        Raises:
            PeerMismatch: the server did something else.
        """
        await self.send_bytes(AMQP_HEADER)
        await self.send(Open(**({"container_id": "peer"} | fields)), channel=0)
        await self.expect_header(AMQP_HEADER)
        return await self.expect(Open)

    async def begin_session(self, channel: int = 0, **fields: Any) -> Begin:
        """Begin a session on a channel; return the server's begin.

        Raises:
            PeerMismatch: the server did something else.
        """
        await self.send(Begin(**(_WINDOWS | fields)), channel=channel)
        begun = await self.expect(Begin, remote_channel=channel)
        self._channels[self.channel] = channel
        return begun

    async def attach_link(self, name: str, *, role: bool, handle: int = 0, **fields: Any) -> Attach:
        """Attach a link; return the server's attach. `role` is True to receive.

        Raises:
            PeerMismatch: the server did something else.
        """
        if not role:
            fields.setdefault("initial_delivery_count", 0)
        await self.send(Attach(name=name, handle=handle, role=role, **fields))
        return await self.expect(Attach, name=name, role=not role)


def _drained(flow: Flow) -> Flow:
    """Return the answer of a sender without messages to a flow with `drain` (§2.6.7)."""
    return Flow(
        next_incoming_id=flow.next_outgoing_id,
        incoming_window=2048,
        next_outgoing_id=flow.next_incoming_id or 0,
        outgoing_window=2048,
        handle=flow.handle,
        delivery_count=((flow.delivery_count or 0) + (flow.link_credit or 0)) % 2**32,
        link_credit=0,
        drain=True,
    )


_WINDOWS = {"next_outgoing_id": 0, "incoming_window": 2048, "outgoing_window": 2048}
