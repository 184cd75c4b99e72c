"""One message at a time: the task that sends writes, and on trio reads, by itself; who else waits notices nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
import pytest
from sniffio import current_async_library

from amqp10.broker.internals import MemoryStream, memory_streams
from amqp10.engine import DeliveriesReceived, Event
from amqp10.errors import ConnectionLost, MessageReleased
from amqp10.messaging import Message, Released

from ...kit.client.cancelling import CancelAt, Serve, at_each_checkpoint, world

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


class HastyStream(MemoryStream):
    """One end that takes what is written at once, and that any task may receive from on trio: as a socket's."""

    def __init__(self, stream: MemoryStream) -> None:
        super().__init__(stream._incoming, stream._outgoing)
        self.lends = current_async_library() == "trio"
        self.readers: set[int] = set()
        self._receiving = anyio.CancelScope()
        if self.lends:
            self.stop_receiving = self._receiving_stops

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        self.readers.add(anyio.get_current_task().id)
        with anyio.CancelScope() as self._receiving:
            return await super().receive(max_bytes)
        raise anyio.WouldBlock

    def _receiving_stops(self) -> None:
        self._receiving.cancel()

    def send_at_once(self, buffers: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        self._outgoing.chunks.append(b"".join(buffers))
        self._outgoing.change()
        return ()


def hasty_streams(made: list[HastyStream]) -> Callable[[], tuple[HastyStream, MemoryStream]]:
    """Return what makes two ends, and keeps the first."""

    def streams() -> tuple[HastyStream, MemoryStream]:
        here, there = memory_streams()
        made.append(HastyStream(here))
        return made[-1], there

    return streams


@pytest.mark.parametrize("encoded", [False, True])
async def test_who_reads(serve: Serve, encoded: bool) -> None:
    """On trio the task that sends reads the outcomes from the second on, and the connection's own task all else."""
    made: list[HastyStream] = []
    async with world(serve, ["a"], streams=hasty_streams(made)) as w:
        stream = made[0]
        before = set(stream.readers)
        for number in range(5):
            await (w.sender.send_encoded(Message(number).encode()) if encoded else w.sender.send(number))
        here = {anyio.get_current_task().id}
        assert stream.readers == (before | here if stream.lends else before)
        stream.readers.clear()
        w.receiver.add_credit(1)
        delivery = await w.receiver.receive()
        assert delivery.message.body == "a"
        assert stream.readers == before
        delivery.accept()


async def test_cancelled_anywhere(serve: Serve) -> None:
    """Wherever it is cut, the messages are there or not, and what else waits on the connection goes on."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b"], streams=hasty_streams([])) as w:

            async def op() -> None:
                for number in range(4):
                    await w.sender.send(number)

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() == list(range(len(w.peer.received)))
            w.receiver.add_credit(2)
            await w.check()
            await w.check_store("a", "b")

    await at_each_checkpoint(trial, 4)


async def test_beside_a_receiver(serve: Serve) -> None:
    """Another task gets what it waits for while one task sends alone, and after that task has stopped."""
    async with world(serve, [], streams=hasty_streams([])) as w:
        w.receiver.add_credit(10)

        async def receive() -> None:
            while len(w.got) < 4:
                w.got.append(await w.receiver.receive())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            for number in range(4):
                for _ in range(3):
                    await w.sender.send(number)
                w.store.put(number)
                await anyio.wait_all_tasks_blocked()
                assert len(w.got) == number + 1
        await w.check_store(0, 1, 2, 3)


async def test_other_outcomes(serve: Serve) -> None:
    """An outcome other than accepted, and the end of the connection, reach the task that reads them by itself."""
    made: list[HastyStream] = []
    async with serve(streams=hasty_streams(made)) as (peer, connection):
        with pytest.raises(ConnectionLost):
            async with connection, connection.sender("out") as sender:
                for number in range(3):
                    await sender.send(number)
                peer.outcome = Released()
                with pytest.raises(MessageReleased):
                    await sender.send(Message("not this one"))
                peer.outcome = None
                async with anyio.create_task_group() as tasks:

                    async def send() -> None:
                        with pytest.raises(ConnectionLost):
                            await sender.send("lost")

                    tasks.start_soon(send)
                    await anyio.wait_all_tasks_blocked()
                    await anyio.aclose_forcefully(peer.stream)
                await sender.send("too late")


async def test_requests(serve: Serve) -> None:
    """A task that asks for one reply after the other reads them by itself; cut anywhere, the next is answered."""

    async def trial(cancel: CancelAt) -> None:
        made: list[HastyStream] = []
        async with serve(streams=hasty_streams(made)) as (peer, connection):

            def answer(event: Event) -> bool:
                if isinstance(event, DeliveriesReceived):
                    peer.take(event.link)
                    for payload in peer.received:
                        asked = Message.decode(payload)
                        peer.send("replies", Message(asked.body, correlation_id=asked.correlation_id).encode())
                    peer.received.clear()
                    return True
                return False

            peer.on_event = answer
            async with connection, connection.requester("service", reply_to="replies") as requester:
                reader = set(made[0].readers)

                async def op() -> None:
                    for number in range(3):
                        assert (await requester.request(number)).body == number

                await cancel.run(op)
                if cancel.finished and made[0].lends:
                    assert made[0].readers == reader | {anyio.get_current_task().id}
                assert (await requester.request("again")).body == "again"
                await anyio.wait_all_tasks_blocked()
                assert requester.pending == 0

    await at_each_checkpoint(trial, 3)
