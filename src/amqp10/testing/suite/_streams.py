"""Tests of bodies that are sent and received piece by piece."""

from __future__ import annotations

import pytest

from ...messaging import Message
from ._contract import Contract


class Streams(Contract):
    """Streaming, and aborting a stream."""

    @pytest.mark.parametrize("size", [300_000, None])
    async def test_streaming_out(self, size: int | None) -> None:
        """Check that a body sent piece by piece arrives as one, with its size given first and without."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            if not self.has("streaming"):
                async with self.refused(connection):
                    await sender.stream(Message(subject="s"), size=size).__aenter__()
                return
            async with sender.stream(Message(subject="s"), size=size) as body:
                for number in range(30):
                    await body.send(bytes([number]) * 10_000)
            async with connection.receiver(self.q) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.subject == "s"
                whole = b"".join([piece async for piece in delivery.iter_body()])
                assert whole == b"".join(bytes([number]) * 10_000 for number in range(30))
                delivery.accept()

    async def test_streaming_in(self) -> None:
        """Check that a body can be read piece by piece while it comes in, after the message's head."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            await sender.send(Message(b"x" * 2_000_000, subject="s"))
            async with connection.receiver(self.address("warm")):
                pass
            receiver = connection.receiver(self.q, stream=True)
            if not self.has("streaming"):
                async with self.refused(connection):
                    await receiver.__aenter__()
                return
            async with receiver:
                delivery = await receiver.receive()
                assert delivery.message.subject == "s"
                pieces = [len(piece) async for piece in delivery.iter_body()]
                assert sum(pieces) == 2_000_000
                assert len(pieces) > 1
                delivery.accept()

    async def test_abort(self) -> None:
        """Check that a stream that is aborted never arrives, and the next message does."""
        if not self.has("abort"):
            return  # the stream itself fails then, so there is no request to refuse
        async with self.connected() as connection, connection.sender(self.q) as sender:
            with pytest.raises(KeyError):
                async with sender.stream(Message(subject="given up"), size=100_000) as body:
                    await body.send(b"x" * 50_000)
                    raise KeyError
            await sender.send(Message("whole"))
            async with connection.receiver(self.q) as receiver:
                delivery = await receiver.receive()
                assert (delivery.message.body, receiver.buffered) == ("whole", 0)
                delivery.accept()
