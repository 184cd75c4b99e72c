"""A scripted peer to which every connection of a test leads, without sockets."""

from __future__ import annotations

from typing import Any, Self

import anyio
import pytest

from amqp10.broker.internals import MemoryStream
from amqp10.dialects.v1_0.wire.performatives import Attach, Flow
from amqp10.net import StreamFacts
from amqp10.testing import ScriptedPeer

from ..inside.client import supervisor


class MemoryPeer(ScriptedPeer):
    """It listens nowhere: what connects to it waits in line until it accepts."""

    port = 5672
    url = "amqp://127.0.0.1:5672"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(supervisor, "connect", self._lead)

    async def __aenter__(self) -> Self:
        return self

    async def accept_receiver(self, **fields: Any) -> Attach:
        """Take a client's connection, a session, and the link of a receiver, up to its first flow.

        Args:
            fields: of the peer's attach, in place of what the client's says.

        Returns:
            The client's attach.
        """
        await self.accept_connection()
        await self.accept_session()
        attach = await self.accept_link(**fields)
        await self.expect(Flow)
        return attach

    async def _lead(self, *_: Any) -> tuple[MemoryStream, StreamFacts]:
        await anyio.lowlevel.checkpoint()
        return self.connect(), StreamFacts(secure=True)
