"""A run of messages that is sent in one call leaves the same octets, deliveries and numbers as `send` for each."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.engine import SenderLink

from ....kit.dialects.v1_0.owner import FIRST, engine

SIZES = st.lists(st.sampled_from((0, 1, 60, 700)) | st.integers(0, 100), max_size=6)
STEPS = st.lists(st.tuples(st.integers(0, 1), SIZES), max_size=8)


def state(link: SenderLink, session: Any) -> Any:
    """Return the state of a link and its session."""
    unsettled = [
        (tag, each.tag, each.delivery_id, each.payload, each.on_wire, each.begun, each.local_settled, each.waiter)
        for tag, each in link.unsettled.items()
    ]
    window = session.window
    numbers = (session.next_delivery_id, window.next_outgoing_id, window.remote_incoming_window, [*session.outgoing])
    return link.credit, unsettled, numbers


@given(steps=STEPS, window=st.integers(0, 12), credit=st.integers(0, 12), settled=st.booleans(), far=st.booleans())
@example(steps=[(0, [1, 2, 3]), (1, [4, 5])], window=12, credit=12, settled=False, far=False)
@example(steps=[(0, [1] * 6), (0, [1] * 6)], window=12, credit=12, settled=False, far=True)
def test_as_send(steps: list[tuple[int, list[int]]], window: int, credit: int, settled: bool, far: bool) -> None:
    """As long as they are not too many nor too large, and no number passes its end: then there is no room for a run."""
    (client, links), (twin, twins) = engine(window, credit, 500), engine(window, credit, 500)
    for link in (*links, *twins):
        session: Any = link.session
        session.next_delivery_id = FIRST if far else 0
        link._must_settle = link._settled = settled  # type: ignore[attr-defined]
    for which, sizes in steps:
        link, other = links[which], twins[which]
        payloads = [bytes([place]) * size for place, size in enumerate(sizes) if size <= 500 or not settled]
        room = link.run_room(1)
        assert link.run_room(3) == min(room, session.window.remote_incoming_window // 3) or far
        assert room or not min(link.credit, session.window.remote_incoming_window) or far or which == 1
        if 0 < len(payloads) <= room and max(map(len, payloads)) <= link.largest_in_run:
            waiters = [f"{place}" for place in range(len(payloads))]
            link.send_run(payloads, waiters, settled=settled)
            for payload, waiter in zip(payloads, waiters, strict=True):
                other.send(payload, settled=settled).waiter = waiter
        assert state(link, link.session) == state(other, other.session)
        assert client.data_to_send() == twin.data_to_send()
